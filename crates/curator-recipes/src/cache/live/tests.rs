//! Tests each transition with a table, and searches for a schedule that breaks a promise: a cache
//! that is reported as current lacks no change that its watch has reported, except changes that it
//! reads next.

use std::collections::{BTreeMap, VecDeque};

use proptest::collection::vec;
use proptest::prelude::*;

use super::super::tree::Found;
use super::super::tree::tests::{PATHS, Server, path, tree};
use super::*;

const NO_LIMITS: Limits = Limits {
    nodes: usize::MAX,
    bytes: usize::MAX,
    changes: usize::MAX,
};

const NO_CALLS: Calls = Calls { made: 0, done: 0 };
const ONE_CALL: Calls = Calls { made: 1, done: 0 };

const INTERVAL: Duration = Duration::from_secs(60);

fn now() -> Instant {
    curator_client::source::now()
}

fn live(limits: Limits) -> LiveTree {
    LiveTree::new(tree(), limits, Some(INTERVAL))
}

fn no_node() -> Result<ReadResult> {
    Err(Error::NoNode {
        operation: "read",
        path: path("/r"),
    })
}

/// A reply to a read and a listing of the root.
fn root_is_missing() -> Event {
    Event::Read(Ok(vec![no_node(), no_node()]))
}

fn lost() -> Error {
    Error::ConnectionLost {
        operation: "read",
        path: path("/r"),
        cause: "on purpose".to_owned(),
    }
}

fn created(text: &str) -> Event {
    Event::Reported(TreeEvent::Created(path(text)))
}

fn read(text: &str, server: &Server) -> Result<ReadResult> {
    match server.read(&path(text)) {
        Found::Node(data, stat) => Ok(ReadResult::Data { data, stat }),
        _ => no_node(),
    }
}

/// The replies to the reads of a request, all at one moment.
fn replies(operations: &[ReadOperation], server: &Server) -> Vec<Result<ReadResult>> {
    operations
        .iter()
        .map(|operation| match operation {
            ReadOperation::Data(node) => read(node.as_str(), server),
            ReadOperation::Children(node) if server.nodes.contains_key(node.as_str()) => {
                Ok(ReadResult::Children(server.list(node)))
            }
            _ => no_node(),
        })
        .collect()
}

impl LiveTree {
    fn after(&mut self, event: Event) -> Step {
        self.step(event, NO_CALLS, now())
    }

    /// Answers the oldest request; the root does not exist.
    fn after_no_node(&mut self) -> Step {
        self.after(root_is_missing())
    }
}

/// The name of a state or step.
fn name(value: &impl std::fmt::Debug) -> String {
    let text = format!("{value:?}");
    text.split([' ', '(']).next().unwrap().to_owned()
}

/// A cache in a state, with a request in flight if it reads.
fn in_state(state: &str) -> LiveTree {
    let mut live = live(NO_LIMITS);
    let request = |live: &mut LiveTree| {
        live.next_request(1_000).unwrap();
    };
    if state != "Unwatched" {
        live.after(Event::Watched);
        request(&mut live);
    }
    if state == "ReadingMissed" {
        live.after(created("/r"));
    }
    if !["Unwatched", "ReadingAll"].contains(&state) {
        live.after_no_node();
    }
    match state {
        "ReadingMissed" => request(&mut live),
        "ReadingChanges" => {
            live.after(created("/r"));
            live.after(Event::Ready);
            request(&mut live);
        }
        "CatchingUp" => {
            live.step(Event::Ready, ONE_CALL, now());
        }
        _ => {}
    }
    assert_eq!(name(&live.state), state);
    live
}

/// An event, and for each state the next one, or `=` if it is the same, and the step.
type Row = (&'static str, fn() -> Event, &'static str);

#[test]
fn each_event_leads_from_each_state_to_one_state_and_one_step() {
    const STATES: [&str; 6] = [
        "Unwatched",
        "ReadingAll",
        "ReadingMissed",
        "ReadingChanges",
        "CatchingUp",
        "Watching",
    ];
    let rows: [Row; 13] = [
        (
            "ready",
            || Event::Ready,
            "= Watch, = Read, = Read, = Read, Watching Current, = Current",
        ),
        (
            "a watch is set",
            || Event::Watched,
            "ReadingAll Read, = Read, ReadingAll Read, ReadingAll Read, ReadingAll Read, ReadingAll Read",
        ),
        (
            "a change",
            || created("/r/a"),
            "= Watch, = Wait, = Wait, = Wait, = Wait, = Wait",
        ),
        (
            "a change elsewhere",
            || created("/other"),
            "= Watch, = Wait, = Wait, = Wait, = Wait, = Wait",
        ),
        (
            "the end of the watch",
            || Event::Reported(TreeEvent::Interrupted),
            "= Watch, Unwatched Watch, Unwatched Watch, Unwatched Watch, Unwatched Watch, Unwatched Watch",
        ),
        (
            "the end of the session",
            || Event::Connection(ConnectionState::Lost),
            "= Watch, Unwatched Watch, Unwatched Watch, Unwatched Watch, Unwatched Watch, Unwatched Watch",
        ),
        (
            "an unconfirmed connection",
            || Event::Connection(ConnectionState::Suspended),
            "= Stale, = Stale, = Stale, = Stale, = Stale, = Stale",
        ),
        (
            "a confirmed connection",
            || Event::Connection(ConnectionState::Reconnected),
            "= Wait, = Wait, = Wait, = Wait, = Wait, = Wait",
        ),
        (
            "a reply to the last read",
            root_is_missing,
            "= Pause, Watching Current, Watching Current, Watching Current, = Pause, = Pause",
        ),
        (
            "a failed read",
            || Event::Read(Err(lost())),
            "= Pause, = Pause, = Pause, = Pause, = Pause, = Pause",
        ),
        (
            "a reply to the transaction",
            || Event::CaughtUp(Ok(())),
            "= Pause, = Continue, = Continue, = Continue, Watching Current, = Continue",
        ),
        (
            "a failed transaction",
            || Event::CaughtUp(Err(lost())),
            "= Pause, = Continue, = Continue, = Continue, Watching Pause, = Continue",
        ),
        (
            "the end of the interval",
            || Event::Resync,
            "= Wait, = Wait, = Wait, ReadingAll Read, ReadingAll Read, ReadingAll Read",
        ),
    ];
    for (what, event, expected) in rows {
        let found = STATES.map(|state| {
            let mut live = in_state(state);
            let step = live.after(event());
            let next = name(&live.state);
            let next = if next == state { "=" } else { &*next };
            format!("{next} {}", name(&step))
        });
        assert_eq!(found.join(", "), expected, "{what}");
    }
}

#[test]
fn the_cache_is_current_once_nothing_has_changed_during_a_read_of_all() {
    let mut live = in_state("ReadingAll");
    live.after(created("/r"));
    assert!(matches!(live.after_no_node(), Step::Continue));
    assert_eq!(name(&live.state), "ReadingMissed");
    live.next_request(1_000).unwrap();
    // Later changes are read while the cache is current.
    live.after(created("/r"));
    assert!(matches!(
        live.after_no_node(),
        Step::Current { caught_up: None }
    ));
    assert!(!live.is_idle(now()));
    assert!(matches!(live.after(Event::Ready), Step::Read));
    assert_eq!(name(&live.state), "ReadingChanges");
}

#[test]
fn a_catch_up_ends_with_the_read_of_the_changes_that_were_reported_before_its_reply() {
    let mut live = in_state("Watching");
    assert!(matches!(
        live.step(Event::Ready, ONE_CALL, now()),
        Step::CatchUp
    ));
    live.after(created("/r"));
    assert!(matches!(
        live.step(Event::CaughtUp(Ok(())), ONE_CALL, now()),
        Step::Read
    ));
    live.next_request(1_000).unwrap();
    assert!(matches!(
        live.after_no_node(),
        Step::Current { caught_up: Some(1) }
    ));
}

/// A failed read keeps the call, because the events before the reply are still recorded. A new read
/// of everything drops the call.
#[test]
fn a_catch_up_outlives_a_failed_read_but_not_the_watch() {
    for (interruption, caught_up) in [
        (Event::Read(Err(lost())), Some(1)),
        (Event::Reported(TreeEvent::Interrupted), None),
        (Event::Resync, None),
    ] {
        let mut live = in_state("CatchingUp");
        live.after(created("/r"));
        live.step(Event::CaughtUp(Ok(())), ONE_CALL, now());
        live.next_request(1_000).unwrap();
        live.after(interruption);
        if matches!(live.after(Event::Ready), Step::Watch) {
            live.after(Event::Watched);
        }
        live.next_request(1_000).unwrap();
        let mut step = live.after_no_node();
        if matches!(step, Step::Continue) {
            live.next_request(1_000).unwrap();
            step = live.after_no_node();
        }
        let Step::Current { caught_up: found } = step else {
            panic!("{step:?}")
        };
        assert_eq!(found, caught_up);
    }
}

#[test]
fn the_interval_begins_after_a_read_of_all_and_ends_after_earlier_calls() {
    let begin = now();
    let mut live = in_state("ReadingAll");
    assert_eq!(live.resync_at(), None);
    live.step(root_is_missing(), ONE_CALL, begin);
    assert_eq!(live.resync_at(), Some(begin + INTERVAL));
    assert!(!live.is_resync_due(ONE_CALL, begin + INTERVAL));
    let done = Calls { made: 1, done: 1 };
    assert!(live.is_resync_due(done, begin + INTERVAL));
    assert!(!live.is_resync_due(done, begin + INTERVAL - Duration::from_nanos(1)));
    // A catch-up does not extend the interval.
    live.step(Event::Ready, ONE_CALL, begin + INTERVAL);
    live.step(Event::CaughtUp(Ok(())), ONE_CALL, begin + INTERVAL);
    assert_eq!(live.resync_at(), Some(begin + INTERVAL));
    live.step(Event::Resync, done, begin + INTERVAL);
    assert_eq!(live.resync_at(), None);
}

#[test]
fn after_too_many_changes_the_reply_in_flight_is_not_applied_and_everything_is_read() {
    for state in ["ReadingAll", "ReadingChanges", "CatchingUp"] {
        let mut server = Server::default();
        server.create("/r");
        let mut live = in_state(state);
        live.limits.changes = 2;
        for node in ["/r/a", "/r/b"] {
            live.after(created(node));
        }
        assert_eq!(name(&live.state), "ReadingAll");
        assert!(live.changed.is_empty());
        let step = match state {
            "CatchingUp" => live.after(Event::CaughtUp(Ok(()))),
            _ => live.after(Event::Read(Ok(vec![read("/r", &server)]))),
        };
        assert!(matches!(step, Step::Continue), "{step:?}");
        assert_eq!(live.tree.nodes.size(), 0);
        assert!(matches!(live.after(Event::Ready), Step::Read));
        assert!(live.next_request(1_000).is_some());
    }
}

/// If they were not read, they would stay missing, because the listing that named them is not
/// repeated.
#[test]
fn nodes_that_were_listed_are_read_after_a_failure_or_over_the_next_connection() {
    let mut server = Server::default();
    for node in ["/r", "/r/a", "/r/b"] {
        server.create(node);
    }
    for interruption in [
        Event::Read(Err(lost())),
        Event::Reported(TreeEvent::Interrupted),
    ] {
        let mut live = live(NO_LIMITS);
        live.after(Event::Watched);
        let request = live.next_request(1_000).unwrap();
        live.after(Event::Read(Ok(replies(&request, &server))));
        live.after(Event::Ready);
        assert_eq!(live.next_request(1_000).unwrap().len(), 2);
        live.after(interruption);
        if matches!(live.after(Event::Ready), Step::Watch) {
            live.after(Event::Watched);
        }
        loop {
            while let Some(request) = live.next_request(1_000) {
                live.after(Event::Read(Ok(replies(&request, &server))));
            }
            if matches!(live.after(Event::Ready), Step::Current { .. }) {
                break;
            }
        }
        assert_eq!(live.tree.nodes.size(), 3);
    }
}

/// While something remains to be read, the cache may have both the old and the new nodes of a
/// subtree that was moved.
#[test]
fn a_cache_ends_above_its_limit_and_during_a_read_above_twice_the_limit() {
    let mut server = Server::default();
    for node in ["/r", "/r/a", "/r/b"] {
        server.create(node);
    }
    for (limit, has_changed, expected) in [
        (1, false, "End"),
        (1, true, "End"),
        (2, false, "End"),
        (2, true, "Continue"),
        (3, false, "Current"),
    ] {
        let mut live = live(Limits {
            nodes: limit,
            ..NO_LIMITS
        });
        live.after(Event::Watched);
        let request = live.next_request(1_000).unwrap();
        let step = live.after(Event::Read(Ok(replies(&request, &server))));
        assert!(matches!(step, Step::Continue), "{step:?}");
        live.after(Event::Ready);
        let request = live.next_request(1_000).unwrap();
        if has_changed {
            live.after(created("/r/b"));
        }
        let step = live.after(Event::Read(Ok(replies(&request, &server))));
        assert_eq!(name(&step), expected, "{limit}, {has_changed}");
        if let Step::End(error) = step {
            let expected = format!("the cache of /r has ended: it found more than {limit} nodes");
            assert_eq!(error.to_string(), expected);
        }
    }
}

/// Reads until the cache is current or ends. With `is_busy`, an event that names the root arrives
/// before each reply.
fn read_to_the_end(live: &mut LiveTree, server: &Server, is_busy: bool) -> Step {
    loop {
        let step = match live.next_request(1_000) {
            Some(request) => {
                if is_busy {
                    live.after(created("/r"));
                }
                live.after(Event::Read(Ok(replies(&request, server))))
            }
            None => live.after(Event::Ready),
        };
        if matches!(step, Step::Current { .. } | Step::End(_)) {
            return step;
        }
    }
}

/// Otherwise the limit would never count in a busy tree.
#[test]
fn after_a_full_read_a_cache_ends_above_its_limit_although_events_name_its_root() {
    for (limit, expected) in [(2, "End"), (3, "Current")] {
        let mut server = Server::default();
        for node in ["/r", "/r/a"] {
            server.create(node);
        }
        let mut live = live(Limits {
            nodes: limit,
            ..NO_LIMITS
        });
        live.after(Event::Watched);
        let step = read_to_the_end(&mut live, &server, false);
        assert_eq!(name(&step), "Current");
        server.create("/r/b");
        live.after(created("/r"));
        let step = read_to_the_end(&mut live, &server, true);
        assert!(live.has_wrong_names());
        assert_eq!(name(&step), expected, "{limit}");
    }
}

/// A change of the root in the same round trip hides the event of another node.
#[test]
fn a_catch_up_ends_after_the_event_of_another_node_is_settled() {
    let mut server = Server::default();
    for node in ["/r", "/r/a"] {
        server.create(node);
    }
    let mut live = live(NO_LIMITS);
    live.after(Event::Watched);
    read_to_the_end(&mut live, &server, false);
    let changed = || Event::Reported(TreeEvent::DataChanged(path("/r")));
    let call = |live: &mut LiveTree, event| live.step(event, ONE_CALL, now());
    assert!(matches!(call(&mut live, Event::Ready), Step::CatchUp));
    server.set("/r/a");
    call(&mut live, changed());
    let mut step = call(&mut live, Event::CaughtUp(Ok(())));
    let mut root_reads = 0;
    while !matches!(step, Step::Current { .. }) {
        step = match live.next_request(1_000) {
            Some(request) => {
                if matches!(&request[0], ReadOperation::Data(node) if *node == path("/r")) {
                    root_reads += 1;
                    server.set("/r");
                    call(&mut live, changed());
                }
                call(&mut live, Event::Read(Ok(replies(&request, &server))))
            }
            None => call(&mut live, Event::Ready),
        };
    }
    assert!(
        matches!(step, Step::Current { caught_up: Some(1) }),
        "{step:?}"
    );
    let shown = live.tree.nodes.get(&path("/r/a"));
    let shown = shown.and_then(Option::as_ref).unwrap().stat().mzxid;
    assert_eq!(shown, server.nodes["/r/a"].changed);
    assert!(!live.has_wrong_names());
    // Three that are unsettled, and one in the full read.
    assert_eq!(root_reads, 4);
}

#[test]
fn a_reply_over_an_ended_connection_is_not_applied() {
    let mut server = Server::default();
    server.create("/r");
    let mut live = in_state("ReadingAll");
    live.after(Event::Reported(TreeEvent::Interrupted));
    let step = live.after(Event::Read(Ok(vec![read("/r", &server)])));
    assert!(matches!(
        step,
        Step::Pause(Error::ConnectionLost { ref cause, .. }) if cause == "the watch has ended"
    ));
    assert_eq!(live.tree.nodes.size(), 0);
}

/// One action of a schedule.
#[derive(Debug, Clone)]
enum Action {
    Create(usize),
    Set(usize),
    Delete(usize),
    /// The server executes the oldest request.
    Execute,
    /// The oldest event or reply arrives.
    Arrive,
    /// An event arrives together with the reply before it.
    ArriveEarly,
    /// The task continues after a round or a pause, or sets a watch.
    Continue,
    /// A user calls `caught_up`.
    Call,
    Resync,
    /// The oldest request times out.
    TimeOut,
    /// The connection ends, and what has not arrived is lost.
    Cut,
    /// A session ends; the watch has not reported it yet.
    EndSession,
}

fn action() -> impl Strategy<Value = Action> {
    let node = || 0..PATHS.len();
    prop_oneof![
        4 => node().prop_map(Action::Create),
        3 => node().prop_map(Action::Set),
        2 => node().prop_map(Action::Delete),
        8 => Just(Action::Execute),
        12 => Just(Action::Arrive),
        2 => Just(Action::ArriveEarly),
        8 => Just(Action::Continue),
        1 => Just(Action::Call),
        1 => Just(Action::Resync),
        1 => Just(Action::TimeOut),
        1 => Just(Action::Cut),
        1 => Just(Action::EndSession),
    ]
}

/// A change of a node: its zxid, and the node's state after it (the zxids of its creation and its
/// last change).
type Change = (i64, Option<(i64, i64)>);

#[derive(Debug)]
enum Request {
    Reads(Vec<ReadOperation>),
    CatchUp,
}

#[derive(Debug)]
enum Arrival {
    /// The event of a change of this node, with this zxid.
    Event(TreeEvent, String, i64),
    Reads(Vec<Result<ReadResult>>),
    CaughtUp,
}

/// What the task waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Waits {
    /// For the end of a pause, or for nothing.
    Between,
    ForReply,
}

/// A server, a connection, and the task of a cache.
struct World {
    server: Server,
    /// Whether the server's events name the root in place of the changed nodes.
    names_root: bool,
    /// Whether the root changes just before each read of the root.
    is_root_busy: bool,
    /// All changes of each node.
    history: BTreeMap<String, Vec<Change>>,
    is_watched: bool,
    requests: VecDeque<Request>,
    arriving: VecDeque<Arrival>,
    live: LiveTree,
    waits: Waits,
    calls: Calls,
    /// The zxid of the server at each call.
    called: Vec<i64>,
    /// The changes that the watch has reported.
    reported: Vec<(String, i64)>,
    currents: usize,
    /// The time of the clock, which each action advances.
    now: Instant,
}

impl World {
    fn new(names_root: bool) -> Self {
        Self {
            server: Server::default(),
            names_root,
            is_root_busy: false,
            history: BTreeMap::new(),
            is_watched: false,
            requests: VecDeque::new(),
            arriving: VecDeque::new(),
            live: live(Limits {
                changes: 4,
                ..NO_LIMITS
            }),
            waits: Waits::Between,
            calls: Calls::default(),
            called: Vec::new(),
            reported: Vec::new(),
            currents: 0,
            now: now(),
        }
    }

    fn act(&mut self, action: Action) {
        self.now += Duration::from_millis(1);
        match action {
            Action::Create(node) => self.change(PATHS[node], |server| server.create(PATHS[node])),
            Action::Set(node) => self.change(PATHS[node], |server| server.set(PATHS[node])),
            Action::Delete(node) => self.change(PATHS[node], |server| server.delete(PATHS[node])),
            Action::Execute => match self.requests.pop_front() {
                Some(Request::Reads(operations)) => {
                    if self.is_root_busy
                        && matches!(&operations[0], ReadOperation::Data(node) if *node == path("/r"))
                    {
                        self.change("/r", |server| server.set("/r"));
                    }
                    let replies = replies(&operations, &self.server);
                    self.arriving.push_back(Arrival::Reads(replies));
                }
                Some(Request::CatchUp) => self.arriving.push_back(Arrival::CaughtUp),
                None => {}
            },
            Action::Arrive => match self.arriving.pop_front() {
                Some(Arrival::Event(event, node, at)) => self.report(event, node, at),
                Some(Arrival::Reads(replies)) => self.reply(Event::Read(Ok(replies))),
                Some(Arrival::CaughtUp) => self.reply(Event::CaughtUp(Ok(()))),
                None => {}
            },
            Action::ArriveEarly => {
                if let Some(first) = self
                    .arriving
                    .iter()
                    .position(|arrival: &Arrival| matches!(arrival, Arrival::Event(..)))
                    && let Some(Arrival::Event(event, node, at)) = self.arriving.remove(first)
                {
                    self.report(event, node, at);
                }
            }
            Action::Continue => self.resume(),
            Action::Call => {
                self.calls.made += 1;
                self.called.push(self.server.zxid);
            }
            Action::Resync => {
                if self.waits == Waits::Between && self.live.resync_at().is_some() {
                    self.step(Event::Resync);
                }
            }
            Action::TimeOut => self.fail(),
            Action::Cut => {
                self.step(Event::Reported(TreeEvent::Interrupted));
                self.cut();
            }
            Action::EndSession => {
                self.step(Event::Connection(ConnectionState::Lost));
                self.cut();
            }
        }
    }

    fn change(&mut self, node: &str, change: impl FnOnce(&mut Server)) {
        change(&mut self.server);
        for (text, is_structural) in mem::take(&mut self.server.events) {
            assert_eq!(text, node);
            let at = self.server.zxid;
            let state = self.server.nodes.get(node);
            let state = state.map(|node| (node.created, node.changed));
            self.history
                .entry(text.clone())
                .or_default()
                .push((at, state));
            let named = path(if self.names_root { "/r" } else { node });
            let event = match state {
                _ if !is_structural => TreeEvent::DataChanged(named),
                Some(_) => TreeEvent::Created(named),
                None => TreeEvent::Deleted(named),
            };
            if self.is_watched {
                self.arriving.push_back(Arrival::Event(event, text, at));
            }
        }
    }

    fn report(&mut self, event: TreeEvent, node: String, at: i64) {
        self.reported.push((node, at));
        self.step(Event::Reported(event));
    }

    fn step(&mut self, event: Event) -> Step {
        self.live.step(event, self.calls, self.now)
    }

    /// A watch is set, or the task begins a round.
    fn resume(&mut self) {
        if self.waits == Waits::ForReply {
            return;
        }
        let is_paused = self.live.paused_until(self.now).is_some();
        if self.live.is_idle(self.now) && (is_paused || !self.calls.are_pending()) {
            if self.live.may_miss_changes() {
                // A full read waits for the end of a pause.
                assert!(is_paused);
                return;
            }
            // Everything that was reported is in the tree.
            self.check(|_, _| false);
            return;
        }
        let mut step = self.step(Event::Ready);
        if matches!(step, Step::Watch) {
            self.is_watched = true;
            step = self.step(Event::Watched);
        }
        self.follow(step);
    }

    fn reply(&mut self, event: Event) {
        let step = self.step(event);
        self.follow(step);
    }

    fn follow(&mut self, step: Step) {
        self.waits = Waits::ForReply;
        match step {
            Step::Read => {
                while let Some(operations) = self.live.next_request(100) {
                    self.requests.push_back(Request::Reads(operations));
                }
            }
            Step::CatchUp => self.requests.push_back(Request::CatchUp),
            Step::Continue | Step::Pause(_) => self.abandon_requests(),
            Step::Current { caught_up } => {
                self.abandon_requests();
                self.currents += 1;
                self.check(Self::is_read_next);
                if let Some(call) = caught_up {
                    self.check_until(self.called[call as usize - 1]);
                    self.calls.done = call;
                }
            }
            step => panic!("{step:?}"),
        }
    }

    fn abandon_requests(&mut self) {
        self.waits = Waits::Between;
        self.requests.clear();
        self.arriving
            .retain(|arrival| matches!(arrival, Arrival::Event(..)));
    }

    fn fail(&mut self) {
        if self.waits == Waits::ForReply {
            let event = match self.live.state {
                State::CatchingUp { .. } => Event::CaughtUp(Err(lost())),
                _ => Event::Read(Err(lost())),
            };
            self.reply(event);
        }
    }

    fn cut(&mut self) {
        self.is_watched = false;
        self.arriving.clear();
        self.fail();
        assert_eq!(self.waits, Waits::Between);
    }

    /// Whether the next round reads this node.
    fn is_read_next(&self, node: &str) -> bool {
        self.live.changed.contains_key(&path(node)) || self.may_read_all_next()
    }

    /// Whether the next round reads everything, or finds that it must, because events have named
    /// the root.
    fn may_read_all_next(&self) -> bool {
        self.names_root
            && (self.live.may_miss_changes() || self.live.changed.contains_key(&path("/r")))
    }

    /// Whether the tree has the state of the node after this change, or after a later one.
    fn includes(&self, node: &str, at: i64) -> bool {
        let state = self.live.tree.nodes.get(&path(node)).map(|found| {
            let stat = found.as_ref().unwrap().stat();
            (stat.czxid, stat.mzxid)
        });
        self.history[node]
            .iter()
            .any(|change| change.0 >= at && change.1 == state)
    }

    /// Checks that the tree includes the changes that were reported, with exceptions.
    fn check(&self, is_excepted: impl Fn(&Self, &str) -> bool) {
        for (node, at) in &self.reported {
            assert!(
                self.includes(node, *at) || is_excepted(self, node),
                "the change of {node} at {at} is missing"
            );
        }
    }

    /// Checks that the tree includes all changes until this time.
    fn check_until(&self, until: i64) {
        for (node, changes) in &self.history {
            let latest = changes.iter().rev().find(|change| change.0 <= until);
            assert!(
                latest.is_none_or(|latest| self.includes(node, latest.0)),
                "the change of {node} before {until} is missing"
            );
        }
    }

    /// The root changes during each read of it, for as long as the changes until now take to be
    /// read.
    fn settle_below_a_busy_root(&mut self) {
        self.is_root_busy = true;
        let until = self.server.zxid;
        for _ in 0..120 {
            let arrives = [Action::Arrive, Action::Arrive, Action::Arrive];
            for action in [Action::Continue, Action::Execute]
                .into_iter()
                .chain(arrives)
            {
                self.act(action);
            }
        }
        self.check_until(until);
        self.is_root_busy = false;
    }

    /// Lets everything arrive, until the cache waits.
    fn settle(&mut self) {
        for _ in 0..2_000 {
            let is_idle = self.live.is_idle(self.now) && !self.calls.are_pending();
            if is_idle
                && !self.live.may_miss_changes()
                && self.waits == Waits::Between
                && self.arriving.is_empty()
            {
                return;
            }
            for action in [Action::Continue, Action::Execute, Action::Arrive] {
                self.act(action);
            }
        }
        panic!("the cache never waits: {:?}", self.live.state);
    }
}

proptest! {
    #[test]
    fn a_cache_that_is_current_lacks_only_reported_changes_that_it_reads_next(
        actions in vec(action(), 1..150),
        is_root_busy in any::<bool>(),
    ) {
        let mut world = World::new(false);
        world.is_root_busy = is_root_busy;
        for action in actions {
            world.act(action);
            prop_assert!(!world.live.has_wrong_names());
        }
        world.settle_below_a_busy_root();
        prop_assert!(!world.live.has_wrong_names());
        world.settle();
        world.check_until(i64::MAX);
        prop_assert_eq!(world.live.tree.nodes.size(), world.server.nodes.len());
        prop_assert!(world.currents > 0);
        prop_assert!(!world.live.has_wrong_names());
    }

    /// The server's events name the root in place of the changed nodes.
    #[test]
    fn a_cache_whose_events_name_its_root_ends_with_the_nodes_of_the_server(
        actions in vec(action(), 1..150),
        is_root_busy in any::<bool>(),
    ) {
        let mut world = World::new(true);
        world.is_root_busy = is_root_busy;
        for action in actions {
            world.act(action);
        }
        world.settle_below_a_busy_root();
        world.settle();
        world.check_until(i64::MAX);
        prop_assert_eq!(world.live.tree.nodes.size(), world.server.nodes.len());
        prop_assert!(world.currents > 0);
    }
}
