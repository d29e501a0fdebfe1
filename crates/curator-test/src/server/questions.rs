//! What a server tells about itself.

use std::collections::BTreeMap;

use super::{ServerVersion, TestingServer};
use crate::{
    error::Error,
    four_letter::{self, Mode, SessionInfo},
};

impl TestingServer {
    /// Asks the server by a four-letter word, such as `mntr`, and returns its answer. Waits at most 5 s.
    ///
    /// # Errors
    ///
    /// [`Error::NotRunning`] when it is stopped. Others when it cannot be reached or does not answer in time; an embedded
    /// server that is paused is not waited for.
    pub async fn four_letter_word(&self, word: &str) -> Result<String, Error> {
        self.check_alive()?;
        self.words.ask(self.asked(), word).await
    }

    /// The release that the server says it is of; for an embedded one, that whose protocol it speaks. Nothing before it
    /// was seen to serve, or when it calls itself otherwise. Known without a question.
    #[must_use]
    pub fn version(&self) -> Option<ServerVersion> {
        self.version.get().copied()
    }

    /// What the server does in its ensemble; nothing while it does not serve or does not answer within a second.
    pub async fn mode(&self) -> Option<Mode> {
        self.words.srvr(self.asked()).await.map(|srvr| srvr.mode)
    }

    /// The number of packets that clients have sent to the server since it was started.
    ///
    /// ZooKeeper counts each request, each ping, each handshake and each four-letter word as one packet. The words
    /// that this value has sent, this one included, are taken off, so the difference of two calls is what clients
    /// sent in between. A word that got no answer may still count; so do words that did not come from here.
    ///
    /// # Errors
    ///
    /// As for [`four_letter_word`](Self::four_letter_word).
    pub async fn packets_received(&self) -> Result<u64, Error> {
        self.check_alive()?;
        self.words.packets_received(self.asked()).await
    }

    /// The number of watches on nodes that the server keeps. It tells nothing of watches on children.
    ///
    /// # Errors
    ///
    /// As for [`four_letter_word`](Self::four_letter_word).
    pub async fn watch_count(&self) -> Result<u64, Error> {
        let wchs = self.four_letter_word("wchs").await?;
        four_letter::watch_count(&wchs).ok_or(Error::Protocol(wchs))
    }

    /// For each path whose node is watched, the sessions that watch it. The server tells nothing of watches on children.
    ///
    /// # Errors
    ///
    /// As for [`four_letter_word`](Self::four_letter_word).
    pub async fn watches_by_path(&self) -> Result<BTreeMap<String, Vec<i64>>, Error> {
        Ok(four_letter::watches_by_path(&self.four_letter_word("wchp").await?))
    }

    /// The sessions that are connected to this server now.
    ///
    /// # Errors
    ///
    /// As for [`four_letter_word`](Self::four_letter_word).
    pub async fn sessions(&self) -> Result<Vec<SessionInfo>, Error> {
        Ok(four_letter::sessions(&self.four_letter_word("cons").await?))
    }
}
