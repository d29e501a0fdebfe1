//! The joint contest that ships; and a worse one, which the search must find fault with.

use curator_recipes::lock::contest::{Answer, Contest, Event, JointContest, JointStep, OwnNode, Pace, Request, Step};
use curator_recipes::lock::driver::{ContenderId, StandardLockInternalsDriver};

const DRIVER: &StandardLockInternalsDriver = &StandardLockInternalsDriver::new();

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Machine {
    Joint(JointContest),
    /// Contests side by side: when one loses its node, it begins anew alone.
    Apart(Vec<Lane>),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Lane {
    id: ContenderId,
    session: i64,
    contest: Contest,
    due: usize,
    owned: Option<OwnNode>,
}

impl Machine {
    pub(super) fn joint(id: ContenderId, session: i64, queues: usize) -> Self {
        Self::Joint(JointContest::new(id, session, queues))
    }

    pub(super) fn apart(id: ContenderId, session: i64, queues: usize) -> Self {
        let lane = || Lane { id, session, contest: Contest::new(id, session), due: 0, owned: None };
        Self::Apart((0..queues).map(|_| lane()).collect())
    }

    pub(super) fn start(&mut self) -> JointStep {
        match self {
            Self::Joint(joint) => joint.start(DRIVER),
            Self::Apart(lanes) => advance(lanes, |_, lane| Some(lane.contest.start(DRIVER))),
        }
    }

    pub(super) fn answered(&mut self, answers: Vec<(usize, Answer)>) -> JointStep {
        match self {
            Self::Joint(joint) => joint.answered(DRIVER, answers),
            Self::Apart(lanes) => advance(lanes, |queue, lane| {
                let of_lane = answers.iter().filter(|(of, _)| *of == queue);
                let of_lane: Vec<_> = of_lane.map(|(_, answer)| answer.clone()).collect();
                match (std::mem::take(&mut lane.due), &lane.owned, &*of_lane) {
                    (0, _, _) => None,
                    (_, Some(_), [Answer::Missing]) => Some(lane.enter_again()),
                    (_, Some(_), _) => None,
                    _ => Some(lane.contest.answered(DRIVER, of_lane)),
                }
            }),
        }
    }

    pub(super) fn observed(&mut self, queue: usize, event: &Event) -> JointStep {
        match self {
            Self::Joint(joint) => joint.observed(DRIVER, queue, event.clone()),
            Self::Apart(lanes) => advance(lanes, |of, lane| match (&lane.owned, event) {
                _ if of != queue => None,
                (Some(_), Event::OwnDeleted) => Some(lane.enter_again()),
                (Some(_), _) => None,
                (None, _) => Some(lane.contest.observed(DRIVER, event.clone())),
            }),
        }
    }

    pub(super) fn nodes(&self) -> Vec<(usize, String)> {
        match self {
            Self::Joint(joint) => {
                let surplus = joint.surplus().map(|(queue, name)| (queue, name.to_owned()));
                joint.nodes().map(|(queue, node)| (queue, node.name.clone())).chain(surplus).collect()
            }
            Self::Apart(lanes) => {
                let nodes = lanes.iter().map(|lane| lane.contest.node()).enumerate();
                nodes.filter_map(|(queue, node)| Some((queue, node?.name.clone()))).collect()
            }
        }
    }

    pub(super) fn surplus(&self) -> Vec<(usize, String)> {
        match self {
            Self::Joint(joint) => joint.surplus().map(|(queue, name)| (queue, name.to_owned())).collect(),
            Self::Apart(_) => Vec::new(),
        }
    }

    pub(super) fn may_have_unknown_nodes(&self) -> bool {
        match self {
            Self::Joint(joint) => joint.may_have_unknown_nodes(),
            Self::Apart(lanes) => lanes.iter().any(|lane| lane.contest.may_exist() && lane.contest.node().is_none()),
        }
    }
}

impl Lane {
    fn enter_again(&mut self) -> Step {
        self.owned = None;
        self.contest = Contest::new(self.id, self.session);
        self.contest.start(DRIVER)
    }
}

fn advance(lanes: &mut [Lane], mut each: impl FnMut(usize, &mut Lane) -> Option<Step>) -> JointStep {
    let mut sent = Vec::new();
    for (queue, lane) in lanes.iter_mut().enumerate() {
        let mut step = each(queue, lane);
        while let Some(Step::Restart(_)) = step {
            step = Some(lane.enter_again());
        }
        match step {
            Some(Step::Send { requests, .. }) => {
                lane.due = requests.len();
                sent.extend(requests.into_iter().map(|request| (queue, request)));
            }
            Some(Step::Owned(node)) => {
                lane.due = 1;
                sent.push((queue, Request::WatchOwn { name: node.name.clone() }));
                lane.owned = Some(node);
            }
            Some(Step::Failed(error)) => return JointStep::Failed { queue, error },
            Some(Step::Wait | Step::Restart(_)) | None => {}
        }
    }
    match lanes.iter().map(|lane| lane.owned.clone()).collect() {
        Some(nodes) => JointStep::Owned(nodes),
        None if sent.is_empty() => JointStep::Wait,
        None => JointStep::Send { requests: sent, pace: Pace::Now },
    }
}
