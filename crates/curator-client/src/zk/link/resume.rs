//! The same session, over another connection than the crate's own.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use zookeeper_client::{Error as ZkError, MultiWriteError};

use super::{Answer, Link, LinkOptions, LinkState, connector};
use crate::path::ZPath;
use crate::zk::error::is_word_of_the_server;
use crate::zk::started::start;
use crate::zk::task::{Parked, catch_task};

impl Link {
    /// Stops the crate's task.
    pub(crate) fn park(&self) -> Parked {
        self.task.park()
    }

    /// Opens another connection for the session of this link, once its own task is parked: one pass over the servers.
    ///
    /// Nothing may be waited for between the end of this and the use of the result: dropping that closes the session.
    pub(crate) async fn resume(&self, options: &LinkOptions) -> Result<Self, ZkError> {
        let connector =
            connector(options).with_session_timeout(self.session_timeout()).with_session(self.client.session().clone());
        let connected = catch_task(connector.connect(&options.servers.hosts_string())).await;
        Self::opened(connected, self.peers.clone(), false)
    }

    /// What a failed [`resume`](Self::resume) says of the session, if it says anything.
    pub(crate) fn end_of_session(error: &ZkError) -> Option<LinkState> {
        match error {
            ZkError::SessionExpired | ZkError::SessionMoved => Some(LinkState::Expired),
            ZkError::AuthFailed => Some(LinkState::AuthFailed),
            _ => None,
        }
    }

    /// A request that only the leader can answer.
    ///
    /// A server does not let a session in that has seen more than the server has; but a session that is resumed says that
    /// it has seen nothing. So the first probe of a resumed session has a write before it, which changes nothing: what was
    /// seen before had been confirmed by a quorum, so none confirms a write that does not come after it.
    pub(crate) fn probe(&self) -> Answer<()> {
        if self.caught_up.load(Ordering::Acquire) {
            return self.sync(&ZPath::root());
        }
        let (client, caught_up) = (self.client.clone(), Arc::clone(&self.caught_up));
        start(async move {
            let mut writer = client.new_multi_writer();
            writer.add_check_version(ZPath::root().as_str(), -1)?;
            // Polled in this order, and sent by that: one flight.
            let (written, synced) = futures_util::future::join(writer.commit(), client.sync("/")).await;
            match written {
                Err(MultiWriteError::RequestFailed { source }) if !is_word_of_the_leader(&source) => Err(source),
                _ => {
                    caught_up.store(true, Ordering::Release);
                    synced
                }
            }
        })
    }
}

/// A server that is overloaded says so by itself, and asks nobody.
fn is_word_of_the_leader(error: &ZkError) -> bool {
    is_word_of_the_server(error) && !matches!(error, ZkError::Throttled)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_server_says_by_itself_proves_nothing() {
        assert!(is_word_of_the_leader(&ZkError::NoAuth));
        assert!(!is_word_of_the_leader(&ZkError::Throttled));
        assert!(!is_word_of_the_leader(&ZkError::ConnectionLoss));
    }
}
