//! Queries a server with four-letter words.

use std::collections::BTreeMap;

use super::{ServerVersion, TestingServer};
use crate::{
    error::Error,
    four_letter::{self, Mode, SessionInfo},
};

impl TestingServer {
    /// Sends a four-letter word, such as `mntr`, to the server and returns the reply. Waits at most
    /// 5 s.
    ///
    /// # Errors
    ///
    /// [`Error::NotRunning`] when the server is stopped. Other errors when it cannot be reached or
    /// does not reply in time; for a paused embedded server, immediately.
    pub async fn four_letter_word(&self, word: &str) -> Result<String, Error> {
        self.check_alive()?;
        self.words.ask(self.word_target(), word).await
    }

    /// The release that the server reports; for an embedded one, the release whose protocol it
    /// implements. `None` before the server is known to be ready, or if the version cannot be
    /// parsed. Sends no request.
    #[must_use]
    pub fn version(&self) -> Option<ServerVersion> {
        self.version.get().copied()
    }

    /// The server's role in its ensemble; `None` while it is not ready or does not reply within a
    /// second.
    pub async fn mode(&self) -> Option<Mode> {
        self.words
            .srvr(self.word_target())
            .await
            .map(|srvr| srvr.mode)
    }

    /// How many packets clients have sent to the server since it was started.
    ///
    /// ZooKeeper counts each request, each ping, each handshake and each four-letter word as one
    /// packet. Words sent by methods of this `TestingServer`, including this one, are subtracted,
    /// so the difference of two calls is the number of packets from clients in between. A word
    /// without a reply may still be counted, and other programs' words are.
    ///
    /// # Errors
    ///
    /// As for [`four_letter_word`](Self::four_letter_word).
    pub async fn packets_received(&self) -> Result<u64, Error> {
        self.check_alive()?;
        self.words.packets_received(self.word_target()).await
    }

    /// How many watches on nodes the server has, without those on children: see
    /// [`total_watch_count`](Self::total_watch_count).
    ///
    /// # Errors
    ///
    /// As for [`four_letter_word`](Self::four_letter_word).
    pub async fn watch_count(&self) -> Result<u64, Error> {
        let wchs = self.four_letter_word("wchs").await?;
        four_letter::watch_count(&wchs).ok_or(Error::Protocol(wchs))
    }

    /// How many watches the server has, including those on children.
    ///
    /// # Errors
    ///
    /// As for [`four_letter_word`](Self::four_letter_word).
    pub async fn total_watch_count(&self) -> Result<u64, Error> {
        let mntr = self.four_letter_word("mntr").await?;
        four_letter::total_watch_count(&mntr).ok_or(Error::Protocol(mntr))
    }

    /// The sessions that watch each node, by path. The server does not report watches on children.
    ///
    /// # Errors
    ///
    /// As for [`four_letter_word`](Self::four_letter_word).
    pub async fn watches_by_path(&self) -> Result<BTreeMap<String, Vec<i64>>, Error> {
        Ok(four_letter::watches_by_path(
            &self.four_letter_word("wchp").await?,
        ))
    }

    /// The sessions that are connected to this server.
    ///
    /// # Errors
    ///
    /// As for [`four_letter_word`](Self::four_letter_word).
    pub async fn sessions(&self) -> Result<Vec<SessionInfo>, Error> {
        Ok(four_letter::sessions(&self.four_letter_word("cons").await?))
    }
}
