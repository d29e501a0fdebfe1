//! Defects planted into the histories of correct locks are found, each as what it is.

use super::simulated::parts;
use super::simulation::{Simulation, TIMEOUT};
use crate::checker::claims::{self, Span};
use crate::checker::seen::{Reading, Run, Seen};
use crate::checker::{FinalSets, Kind, check, operator};
use crate::history::{Claim, Event, Outcome, What};
use crate::work::Variant;

/// A history and its final sets, to be changed.
struct History {
    variant: Variant,
    events: Vec<Event>,
    sets: FinalSets,
}

/// Plants a defect, if the history has a place for it.
type Plant = fn(&mut History) -> Option<()>;

const DEFECTS: [(Kind, Plant); 11] = [
    (Kind::Exclusivity, |history| {
        history.ghost(|span| span.claim.is_exclusive().then_some((span.start, span.certain)))
    }),
    (Kind::Promise, |history| history.ghost(|span| span.claim.is_exclusive().then_some((span.certain, span.promised)))),
    (Kind::Token, |history| history.swap(|claim| &mut claim.token)),
    (Kind::Fifo, |history| history.swap(|claim| &mut claim.place)),
    (Kind::Reentry, History::enter_without_holding),
    (Kind::Revived, History::revive),
    (Kind::UnnoticedDelete, History::overlook_delete),
    (Kind::LostUpdate, |history| history.lose_update()),
    (Kind::RefusedWrite, |history| history.let_refused_write_pass()),
    (Kind::ReadChanged, History::change_under_reader),
    (Kind::Malformed, History::forget_acquire),
];

#[test]
fn defects_planted_into_correct_histories_are_found() {
    let mut planted = [0; DEFECTS.len()];
    for (part, seed) in parts().flat_map(|part| (0..4).map(move |seed| (part, seed))) {
        let world = Simulation::run(seed, part, 500);
        for ((kind, plant), planted) in DEFECTS.iter().zip(&mut planted) {
            let (sets, events) = (world.sets(), world.events.clone());
            let mut history = History { variant: part.variant, events, sets };
            if plant(&mut history).is_some() {
                *planted += 1;
                let found = check(&history.events, &history.sets).violations;
                let is_found = found.iter().any(|violation| violation.kind == *kind);
                assert!(is_found, "{kind} in {} with seed {seed}, not {found:?}", part.key());
            }
        }
    }
    assert!(planted.iter().all(|times| *times >= 4), "{planted:?}");
}

impl History {
    /// What this chooses among the claims of one resource.
    fn spans<T>(&self, choose: impl Fn(&Run, &[Span<'_>]) -> Option<T>) -> Option<T> {
        let mut seen = Seen::default();
        self.events.iter().for_each(|event| seen.see(event));
        let mut run = seen.finish();
        operator::strike(&mut run);
        claims::by_resource(&run).values().find_map(|spans| choose(&run, spans))
    }

    /// Somebody who holds for a moment in the middle of such a time.
    fn ghost(&mut self, time: fn(&Span<'_>) -> Option<(u64, u64)>) -> Option<()> {
        let (at, part, claim) = self.spans(|_, spans| {
            let mut spans = spans.iter().filter_map(|span| Some((span, time(span)?)));
            let (span, (from, to)) = spans.find(|(_, (from, to))| to - from > 10)?;
            let (resource, token) = (span.claim.resource.to_string(), None);
            let claim = Claim { resource, weight: 1, capacity: span.claim.capacity, token, place: None };
            Some((u64::midpoint(from, to), span.hold.part.to_string(), claim))
        })?;
        let (owner, claims, session) = ("ghost".to_owned(), vec![claim], -1);
        let (reentry, continues) = (false, None);
        let acquired = What::Acquired { hold: 1, part, owner, asked: at, session, claims, reentry, continues };
        for (at, what) in [(at, acquired), (at + 1, What::Valid { hold: 1, before: at + 1, until: 0 })] {
            self.events.push(Event { at, worker: 90, life: 0, what });
        }
        Some(())
    }

    /// Swaps the numbers of two exclusive holds that follow one another.
    fn swap(&mut self, number: fn(&mut Claim) -> &mut Option<i64>) -> Option<()> {
        let pair = self.spans(|run, spans| {
            // By its place it is known whether an operator has ended a hold.
            let is_untouched = |span: &Span<'_>| !run.deletions.contains_key(&span.hold.session);
            let is_exclusive = |span: &Span<'_>| span.claim.is_exclusive() && span.hold.is_fresh();
            let has_place = |span: &Span<'_>| span.claim.place.is_some();
            let fits = |span: &Span<'_>| is_untouched(span) && is_exclusive(span) && has_place(span);
            let mut pairs = spans.windows(2).filter(|pair| pair.iter().all(fits));
            let pair = pairs.find(|pair| pair[0].certain < pair[1].start)?;
            Some([pair[0].hold.key, pair[1].hold.key])
        })?;
        let acquired = pair.map(|key| {
            self.events.iter().position(|event| {
                let is_hold = event.what.hold() == Some(key.hold) && matches!(event.what, What::Acquired { .. });
                is_hold && (event.worker, event.life) == (key.worker, key.life)
            })
        });
        let [Some(one), Some(other)] = acquired else { return None };
        // All claims of a hold have the same numbers.
        let mut numbers = [one, other].map(|event| *number(&mut self.claims(event)[0]));
        numbers.reverse();
        for (event, swapped) in [one, other].into_iter().zip(numbers) {
            self.claims(event).iter_mut().for_each(|claim| *number(claim) = swapped);
        }
        Some(())
    }

    fn claims(&mut self, event: usize) -> &mut [Claim] {
        match &mut self.events[event].what {
            What::Acquired { claims, .. } => claims,
            what => panic!("{what:?}"),
        }
    }

    fn enter_without_holding(&mut self) -> Option<()> {
        let reentry = self.events.iter_mut().find_map(|event| match &mut event.what {
            What::Acquired { reentry, .. } if !*reentry => Some(reentry),
            _ => None,
        })?;
        *reentry = true;
        Some(())
    }

    fn revive(&mut self) -> Option<()> {
        let lost = self.events.iter().find(|event| matches!(event.what, What::Invalid { .. }))?;
        let hold = lost.what.hold()?;
        let what = What::Valid { hold, before: lost.at + 1, until: 0 };
        self.events.push(Event { at: lost.at + 2, what, ..lost.clone() });
        Some(())
    }

    /// A guard of the guarded variant that says yes for long after a delete that it has noticed.
    fn overlook_delete(&mut self) -> Option<()> {
        if self.variant != Variant::Guarded {
            return None;
        }
        let (key, deleted) = self.spans(|run, spans| {
            let mut deleted = spans.iter().filter_map(|span| Some((span.hold.key, *run.deleted.get(&span.hold.key)?)));
            deleted.next()
        })?;
        // It is longer than anything else can be in the way.
        let before = deleted + 100 * TIMEOUT;
        let what = What::Valid { hold: key.hold, before, until: 0 };
        self.events.push(Event { at: before + 1, worker: key.worker, life: key.life, what });
        Some(())
    }

    fn lose_update(&mut self) -> Option<()> {
        let is_fenced = matches!(self.variant, Variant::Transaction | Variant::Token);
        self.sets.values_mut().find(|elements| is_fenced && !elements.is_empty())?.clear();
        let is_acknowledged = |what: &What| matches!(what, What::Wrote { outcome: Outcome::Acknowledged, .. });
        self.events.iter().any(|event| is_acknowledged(&event.what)).then_some(())
    }

    fn let_refused_write_pass(&mut self) -> Option<()> {
        let (set, element) = self.events.iter().find_map(|event| match &event.what {
            What::Wrote { set, element, outcome: Outcome::Refused | Outcome::NotSent, .. } => Some((set, element)),
            _ => None,
        })?;
        self.sets.entry(set.clone()).or_default().push(element.clone());
        Some(())
    }

    /// Only where that is not excused: not under a hold that was not certain any more.
    fn change_under_reader(&mut self) -> Option<()> {
        if !matches!(self.variant, Variant::Transaction | Variant::Token) {
            return None;
        }
        let key = self.spans(|_, spans| {
            let has_read_twice = |span: &&Span<'_>| {
                let hold = span.hold;
                let certain = |read: &&Reading| read.before >= hold.begin() && read.at <= span.certain;
                hold.reads.iter().filter(certain).count() > 1
            };
            spans.iter().find(has_read_twice).map(|span| span.hold.key)
        })?;
        self.events.iter_mut().find_map(|event| match &mut event.what {
            What::Read { hold, digest, .. }
                if (event.worker, event.life, *hold) == (key.worker, key.life, key.hold) =>
            {
                *digest ^= 1;
                Some(())
            }
            _ => None,
        })
    }

    fn forget_acquire(&mut self) -> Option<()> {
        let acquired = self.events.iter().position(|event| matches!(event.what, What::Acquired { .. }))?;
        self.events.remove(acquired);
        Some(())
    }
}
