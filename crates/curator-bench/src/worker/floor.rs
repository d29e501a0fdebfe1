//! What any lock costs at least: a node is made, and deleted.

use super::session::{BenchLock, Failure, Session};
use crate::protocol::Play;

/// Locks nothing.
pub(super) struct Floor<S> {
    session: S,
    directory: String,
}

impl<S: Session> BenchLock for Floor<S> {
    type Session = S;
    type Guard = (S, String);

    fn new(session: &S, path: &str, _: &Play) -> Result<Self, Failure> {
        Ok(Self { session: session.clone(), directory: path.to_owned() })
    }

    async fn lock(&self) -> Result<Self::Guard, Failure> {
        Ok((self.session.clone(), self.session.create(&self.directory).await?))
    }

    async fn unlock((session, node): Self::Guard) -> Result<(), Failure> {
        session.delete(&node).await
    }
}
