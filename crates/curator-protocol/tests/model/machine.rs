//! The contest that ships; and a worse one, which the search must find fault with.

use curator_protocol::{
    Answer, Contest, Event, LockInternalsDriver, OwnNode, Pace, Request, StandardLockInternalsDriver, Step, Uuid,
};

use super::defect::Defect;
use super::scenario::Scenario;

const DRIVER: &StandardLockInternalsDriver = &StandardLockInternalsDriver::new();

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Machine {
    Contest(Contest),
    /// Contests side by side, one for each queue: when one loses its node, it begins anew alone.
    Apart {
        lanes: Vec<Lane>,
        /// The queues of the requests in flight.
        sent: Vec<usize>,
    },
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Lane {
    id: Uuid,
    session: i64,
    contest: Contest,
    owned: Option<OwnNode>,
}

impl Machine {
    pub(crate) fn new(scenario: &Scenario, who: usize, id: Uuid, session: i64) -> Self {
        let wanted = &scenario.clients[who];
        if scenario.has(Defect::ReentersAlone) {
            let lane = |_: &usize| Lane { id, session, contest: Contest::new(id, session, 1), owned: None };
            return Self::Apart { lanes: wanted.queues.iter().map(lane).collect(), sent: Vec::new() };
        }
        let contest = match wanted.leases {
            0 => Contest::new(id, session, wanted.queues.len()),
            quantity => Contest::for_leases(id, session, quantity, scenario.lease_limit()),
        };
        Self::Contest(if wanted.waits { contest } else { contest.without_waiting() })
    }

    pub(crate) fn start(&mut self) -> Step {
        match self {
            Self::Contest(contest) => contest.start(),
            Self::Apart { lanes, sent } => advance(lanes, sent, |_, lane| Some(lane.contest.start())),
        }
    }

    pub(crate) fn answered(&mut self, driver: &dyn LockInternalsDriver, answers: Vec<Answer>) -> Step {
        match self {
            Self::Contest(contest) => contest.answered(driver, answers),
            Self::Apart { lanes, sent } => {
                let answers: Vec<_> = std::mem::take(sent).into_iter().zip(answers).collect();
                advance(lanes, sent, |queue, lane| {
                    let of_lane = answers.iter().filter(|(of, _)| *of == queue);
                    let of_lane: Vec<_> = of_lane.map(|(_, answer)| answer.clone()).collect();
                    match (&lane.owned, &*of_lane) {
                        (_, []) => None,
                        (Some(_), [Answer::Missing]) => Some(lane.enter_again()),
                        (Some(_), _) => None,
                        _ => Some(lane.contest.answered(DRIVER, of_lane)),
                    }
                })
            }
        }
    }

    pub(crate) fn observed(&mut self, event: Event) -> Step {
        match self {
            Self::Contest(contest) => contest.observed(event),
            Self::Apart { lanes, sent } => advance(lanes, sent, |of, lane| match (&lane.owned, alone(&event)) {
                (_, (queue, _)) if queue != of => None,
                (Some(_), (_, Event::OwnDeleted(_))) => Some(lane.enter_again()),
                (Some(_), _) => None,
                (None, (_, event)) => Some(lane.contest.observed(event)),
            }),
        }
    }

    /// The nodes that are to be deleted unless the contest is won, each with its queue.
    pub(crate) fn nodes(&self) -> Vec<(usize, String)> {
        match self {
            Self::Contest(contest) => {
                let nodes = contest.nodes().map(|(queue, node)| (queue, node.name.clone()));
                nodes.chain(self.surplus()).collect()
            }
            Self::Apart { lanes, .. } => {
                let nodes = lanes.iter().enumerate();
                nodes
                    .flat_map(|(queue, l)| l.contest.nodes().map(move |(_, node)| (queue, node.name.clone())))
                    .collect()
            }
        }
    }

    pub(crate) fn surplus(&self) -> Vec<(usize, String)> {
        match self {
            Self::Contest(contest) => contest.surplus().map(|(queue, name)| (queue, name.to_owned())).collect(),
            Self::Apart { .. } => Vec::new(),
        }
    }

    pub(crate) fn unknown_nodes(&self) -> Vec<usize> {
        match self {
            Self::Contest(contest) => contest.unknown_nodes().collect(),
            Self::Apart { lanes, .. } => {
                let lanes = lanes.iter().enumerate();
                lanes
                    .filter(|(_, lane)| lane.contest.unknown_nodes().next().is_some())
                    .map(|(queue, _)| queue)
                    .collect()
            }
        }
    }
}

impl Lane {
    fn enter_again(&mut self) -> Step {
        self.owned = None;
        self.contest = Contest::new(self.id, self.session, 1);
        self.contest.start()
    }
}

/// The queue of an event, and the event as a contest for that queue alone knows it.
fn alone(event: &Event) -> (usize, Event) {
    match event.clone() {
        Event::AheadDeleted { queue, name } => (queue, Event::AheadDeleted { queue: 0, name }),
        Event::AheadChanged { queue, name } => (queue, Event::AheadChanged { queue: 0, name }),
        Event::OwnDeleted(queue) => (queue, Event::OwnDeleted(0)),
        Event::OwnChanged(queue) => (queue, Event::OwnChanged(0)),
        other => (0, other),
    }
}

fn advance(lanes: &mut [Lane], sent: &mut Vec<usize>, mut each: impl FnMut(usize, &mut Lane) -> Option<Step>) -> Step {
    let mut requests = Vec::new();
    for (queue, lane) in lanes.iter_mut().enumerate() {
        let mut step = each(queue, lane);
        while let Some(Step::Restart(_)) = step {
            step = Some(lane.enter_again());
        }
        match step {
            Some(Step::Send { requests: of_lane, .. }) => {
                requests.extend(of_lane.into_iter().map(|(_, request)| (queue, request)));
            }
            Some(Step::Won(nodes)) => {
                lane.owned = nodes.into_iter().next();
                let own = lane.owned.iter().map(|node| (queue, Request::WatchOwn { name: node.name.clone() }));
                requests.extend(own);
            }
            Some(Step::Failed { error, .. }) => return Step::Failed { queue, error },
            Some(Step::Wait | Step::Restart(_) | Step::Refused) | None => {}
        }
    }
    if let Some(nodes) = lanes.iter().map(|lane| lane.owned.clone()).collect() {
        return Step::Won(nodes);
    }
    if requests.is_empty() {
        return Step::Wait;
    }
    requests.sort_by_key(|(_, request)| match request {
        Request::Create | Request::CreateWithParents => 0,
        Request::List => 2,
        _ => 1,
    });
    *sent = requests.iter().map(|(queue, _)| *queue).collect();
    Step::Send { requests, pace: Pace::Now }
}
