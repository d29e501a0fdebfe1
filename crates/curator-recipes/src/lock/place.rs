//! What a contest that was won leaves in hand.

use curator_client::{CuratorClient, ReadResult, Session, ZPath};

use super::contender::Contender;
use super::hold::{Hold, Owned};
use super::watches::Watches;
use crate::fencing::FencingToken;

/// First in all the queues. Dropped, it gives its nodes up.
pub(crate) struct Place {
    pub(crate) client: CuratorClient,
    pub(crate) session: Session,
    pub(crate) contender: Contender,
    /// In the order of the queues. All were created by one transaction.
    pub(crate) first: ZPath,
    pub(crate) others: Vec<ZPath>,
    pub(crate) token: FencingToken,
    pub(crate) watches: Watches,
    /// What was read beside the lists that showed that the place is the first; `None` if it was reached in another way.
    pub(crate) beside: Option<Vec<curator_client::Result<ReadResult>>>,
}

impl Place {
    /// The lock is held.
    pub(crate) fn into_hold(self) -> Hold {
        let Self { client, session, contender, first, others, token, watches, .. } = self;
        contender.disarm();
        let mut watches = watches.into_own().into_iter().map(Some);
        let mut watched = |path| (path, watches.next().flatten().flatten());
        let (first, others) = (watched(first), others.into_iter().map(watched).collect());
        Hold::new(&client, &session, Owned { token, first, others, finder: None })
    }
}
