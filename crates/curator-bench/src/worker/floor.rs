//! What any lock costs at least: a node is made, and deleted.

use tokio::sync::OnceCell;

use super::session::{BenchLock, Failure, Session};
use crate::protocol::Play;

/// Locks nothing.
pub(super) struct Floor<S: Session> {
    session: S,
    directory: String,
    prefix: String,
    /// From the first use on, by when the directory is there.
    raw: OnceCell<S::Raw>,
}

impl<S: Session> BenchLock for Floor<S> {
    type Session = S;
    type Guard = (S::Raw, String);

    fn new(session: &S, path: &str, _: &Play) -> Result<Self, Failure> {
        let prefix = format!("{path}/node-");
        Ok(Self { session: session.clone(), directory: path.to_owned(), prefix, raw: OnceCell::new() })
    }

    async fn lock(&self) -> Result<Self::Guard, Failure> {
        let prepare = || async {
            self.session.make_directory(&self.directory).await?;
            self.session.raw().await
        };
        let raw = self.raw.get_or_try_init(prepare).await?;
        Ok((raw.clone(), S::create(raw, &self.prefix).await?))
    }

    async fn unlock((raw, node): Self::Guard) -> Result<(), Failure> {
        S::delete(&raw, &node).await
    }
}
