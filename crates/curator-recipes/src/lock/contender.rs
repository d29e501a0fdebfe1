//! One place in a queue, and the one way in which it is given up.

use curator_client::node::find::NodeFinder;
use curator_client::{CuratorClient, Session, ZPath};

/// Armed *before* the node's create is sent; dropped while armed, it makes sure that the node goes.
///
/// This is what makes every acquire cancel-safe: whichever await the future is dropped at, the contender is dropped with
/// it. The delete is sent by the drop itself if the node's name is known. Otherwise the client's janitor looks for the
/// node first: the list that it asks for is answered after the create, because a session is first in, first out.
///
/// The idea of cleaning up under the client's own care, and not the cancelled caller's, is from etcd's
/// `concurrency/mutex.go`.
#[derive(Debug)]
pub(crate) struct Contender {
    client: CuratorClient,
    session: Session,
    finder: NodeFinder,
    state: State,
}

#[derive(Debug)]
enum State {
    /// No create has been sent.
    Idle,
    /// A create has been sent; what became of it is not known.
    Created,
    /// The node is known.
    Known(ZPath),
}

impl Contender {
    pub(crate) fn new(client: &CuratorClient, session: &Session, finder: NodeFinder) -> Self {
        Self { client: client.clone(), session: session.clone(), finder, state: State::Idle }
    }

    /// A create is about to be sent.
    pub(crate) fn arm(&mut self) {
        if matches!(self.state, State::Idle) {
            self.state = State::Created;
        }
    }

    /// The node has this path.
    pub(crate) fn found(&mut self, path: ZPath) {
        self.state = State::Known(path);
    }

    /// The node belongs to a guard now.
    pub(crate) fn disarm(mut self) {
        self.state = State::Idle;
    }

    pub(crate) fn finder(&self) -> &NodeFinder {
        &self.finder
    }
}

impl Drop for Contender {
    fn drop(&mut self) {
        match &self.state {
            State::Idle => {}
            State::Created => self.client.janitor().find_and_delete(&self.session, self.finder.clone()),
            State::Known(path) => self.client.janitor().delete_owned(&self.session, path),
        }
    }
}
