//! The nodes of one contender, and the one way in which they are given up.

use curator_client::node::find::NodeFinder;
use curator_client::{CuratorClient, Session, ZPath};

/// Armed *before* the nodes' create is sent; dropped while armed, it makes sure that the nodes go.
///
/// This is what makes every acquire cancel-safe: whichever await the future is dropped at, the contender is dropped with
/// it. The delete is sent by the drop itself if the nodes' names are known. Otherwise the client's janitor looks for the
/// nodes first: the list that it asks for is answered after the create, because a session is first in, first out. It looks
/// for them too when there is no node of the name that the answer to the create has told: an answer can be wrong, and a node
/// that stays would block everybody for as long as the session lives.
///
/// The idea of cleaning up under the client's own care, and not the cancelled caller's, is from etcd's
/// `concurrency/mutex.go`.
#[derive(Debug)]
pub(crate) struct Contender {
    client: CuratorClient,
    session: Session,
    /// One for each queue.
    leftovers: Vec<Leftover>,
}

/// What may be left in one queue.
#[derive(Debug)]
struct Leftover {
    finder: NodeFinder,
    state: State,
}

#[derive(Debug)]
enum State {
    /// No create has been sent.
    Idle,
    /// A create has been sent; what became of it is not known.
    Created,
    /// These nodes are known, by what the answer to their create has said.
    Told(Vec<ZPath>),
    /// These nodes are known, and a list has shown them.
    Listed(Vec<ZPath>),
}

impl Contender {
    /// `finders` describe the nodes, one for each queue.
    pub(crate) fn new(
        client: &CuratorClient,
        session: &Session,
        finders: impl IntoIterator<Item = NodeFinder>,
    ) -> Self {
        let leftovers = finders.into_iter().map(|finder| Leftover { finder, state: State::Idle }).collect();
        Self { client: client.clone(), session: session.clone(), leftovers }
    }

    /// A create is about to be sent.
    pub(crate) fn arm(&mut self) {
        for leftover in self.leftovers.iter_mut().filter(|leftover| matches!(leftover.state, State::Idle)) {
            leftover.state = State::Created;
        }
    }

    /// The nodes in this queue have these paths, by the answer to their create.
    pub(crate) fn found(&mut self, queue: usize, paths: Vec<ZPath>) {
        if let Some(leftover) = self.leftovers.get_mut(queue) {
            leftover.state = State::Told(paths);
        }
    }

    /// A list has shown that the nodes have the paths that were told.
    pub(crate) fn listed(&mut self) {
        for leftover in &mut self.leftovers {
            if let State::Told(paths) = &mut leftover.state {
                leftover.state = State::Listed(std::mem::take(paths));
            }
        }
    }

    /// There are no nodes of the paths that were told: they were deleted, or the answer was wrong, and they have others. So
    /// the janitor looks for them.
    pub(crate) fn mislaid(mut self) {
        for leftover in &mut self.leftovers {
            if matches!(leftover.state, State::Told(_) | State::Listed(_)) {
                leftover.state = State::Created;
            }
        }
    }

    /// The nodes belong to a guard now, or are known to be gone.
    pub(crate) fn disarm(mut self) {
        self.leftovers.clear();
    }

    /// Whether `data` is that of a node of ours in this queue.
    pub(crate) fn matches_data(&self, queue: usize, data: &[u8]) -> bool {
        self.leftovers.get(queue).is_some_and(|leftover| leftover.finder.matches_data(data))
    }
}

impl Drop for Contender {
    fn drop(&mut self) {
        let mut known = Vec::new();
        for Leftover { finder, state } in self.leftovers.drain(..) {
            match state {
                State::Idle => {}
                State::Created => self.client.janitor().find_and_delete(&self.session, finder),
                State::Told(paths) => known.extend(paths.into_iter().map(|path| (path, Some(finder.clone())))),
                State::Listed(paths) => known.extend(paths.into_iter().map(|path| (path, None))),
            }
        }
        self.client.janitor().delete_owned_or_find(&self.session, known, None);
    }
}
