//! Queries a server with four-letter words, and counts the packets that these add.

use std::{collections::BTreeMap, fmt, net::SocketAddr, time::Duration};

use tokio::sync::Mutex;

use super::{TestingServer, in_process::InProcess};
use crate::{
    error::Error,
    four_letter::{self, Mode, SessionInfo, TIMEOUT},
};

impl TestingServer {
    /// Sends a four-letter word, such as `mntr`, to the server and returns the reply. Waits at most
    /// 5 s.
    ///
    /// # Errors
    ///
    /// [`Error::NotRunning`] when the server is stopped. Other errors when it cannot be reached or
    /// does not reply in time. A paused embedded server fails immediately.
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
    /// without a reply may still be counted, and the words of other programs are counted.
    ///
    /// # Errors
    ///
    /// See [`four_letter_word`](Self::four_letter_word).
    pub async fn packets_received(&self) -> Result<u64, Error> {
        self.check_alive()?;
        self.words.packets_received(self.word_target()).await
    }

    /// How many watches on nodes the server has, without watches on children: see
    /// [`total_watch_count`](Self::total_watch_count).
    ///
    /// # Errors
    ///
    /// See [`four_letter_word`](Self::four_letter_word).
    pub async fn watch_count(&self) -> Result<u64, Error> {
        let wchs = self.four_letter_word("wchs").await?;
        four_letter::watch_count(&wchs).ok_or(Error::Protocol(wchs))
    }

    /// How many watches the server has, including watches on children.
    ///
    /// # Errors
    ///
    /// See [`four_letter_word`](Self::four_letter_word).
    pub async fn total_watch_count(&self) -> Result<u64, Error> {
        let mntr = self.four_letter_word("mntr").await?;
        four_letter::total_watch_count(&mntr).ok_or(Error::Protocol(mntr))
    }

    /// The sessions that watch each node, by path. The server does not report watches on children.
    ///
    /// # Errors
    ///
    /// See [`four_letter_word`](Self::four_letter_word).
    pub async fn watches_by_path(&self) -> Result<BTreeMap<String, Vec<i64>>, Error> {
        Ok(four_letter::watches_by_path(
            &self.four_letter_word("wchp").await?,
        ))
    }

    /// The sessions that are connected to this server.
    ///
    /// # Errors
    ///
    /// See [`four_letter_word`](Self::four_letter_word).
    pub async fn sessions(&self) -> Result<Vec<SessionInfo>, Error> {
        Ok(four_letter::sessions(&self.four_letter_word("cons").await?))
    }
}

/// The timeout for a server that might not be ready yet.
const SRVR_TIMEOUT: Duration = Duration::from_secs(1);

/// The four-letter words that the server has counted as packets since its start. Locked while a
/// word is in flight, so that this number matches the server's.
#[derive(Debug, Default)]
pub(crate) struct Words {
    answered: Mutex<u64>,
}

/// A ready server's reply to `srvr`.
#[derive(Debug)]
pub(crate) struct Srvr {
    pub(crate) mode: Mode,
    pub(crate) version: Option<String>,
}

/// The receiver of the words.
#[derive(Clone, Copy)]
pub(crate) enum WordTarget<'a> {
    Address(SocketAddr),
    /// Replies immediately or not at all, and counts no packet.
    InProcess(&'a dyn InProcess),
}

impl WordTarget<'_> {
    async fn ask(self, word: &str, limit: Duration) -> Result<String, Error> {
        if word.len() != 4 {
            return Err(Error::Protocol(format!(
                "`{word}` is not a four-letter word"
            )));
        }
        match self {
            Self::Address(address) => four_letter::ask(address, word, limit).await,
            Self::InProcess(server) => server.four_letter_word(word),
        }
    }

    /// How many packets a word adds to the server's count.
    fn packets(self) -> u64 {
        match self {
            Self::Address(_) => 1,
            Self::InProcess(_) => 0,
        }
    }
}

impl Words {
    /// Resets the count, for a restarted server.
    pub(crate) fn forget(&self) {
        // A caller that holds the lock sent its word before the restart. The count is not reset
        // then.
        if let Ok(mut answered) = self.answered.try_lock() {
            *answered = 0;
        }
    }

    pub(crate) async fn ask(
        &self,
        word_target: WordTarget<'_>,
        word: &str,
    ) -> Result<String, Error> {
        let mut answered = self.answered.lock().await;
        let answer = word_target.ask(word, TIMEOUT).await?;
        *answered += word_target.packets();
        Ok(answer)
    }

    /// Queries the server with `srvr`. `None` while the server is not ready, or does not reply
    /// within a second.
    pub(crate) async fn srvr(&self, word_target: WordTarget<'_>) -> Option<Srvr> {
        let mut answered = self.answered.lock().await;
        let srvr = word_target.ask("srvr", SRVR_TIMEOUT).await.ok()?;
        let mode = four_letter::mode(&srvr)?;
        *answered += word_target.packets();
        Some(Srvr {
            mode,
            version: four_letter::version(&srvr).map(str::to_owned),
        })
    }

    /// The packets that the server has counted, without these four-letter words.
    pub(crate) async fn packets_received(&self, word_target: WordTarget<'_>) -> Result<u64, Error> {
        let mut answered = self.answered.lock().await;
        let mntr = word_target.ask("mntr", TIMEOUT).await?;
        *answered += word_target.packets();
        let all = four_letter::metric(&mntr, "zk_packets_received").ok_or(Error::Protocol(mntr))?;
        Ok(all.saturating_sub(*answered))
    }
}

/// A release of ZooKeeper, such as `3.8.0`. Later ones are greater.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(
    clippy::exhaustive_structs,
    reason = "a release of ZooKeeper has three numbers"
)]
pub struct ServerVersion {
    /// The first number.
    pub major: u32,
    /// The second number.
    pub minor: u32,
    /// The third number.
    pub patch: u32,
}

impl ServerVersion {
    /// The release with these numbers.
    #[must_use]
    pub const fn new(major: u32, minor: u32, patch: u32) -> Self {
        Self {
            major,
            minor,
            patch,
        }
    }

    /// Whether the reply to a transaction contains the stats of created nodes. Other releases
    /// return only the paths (ZOOKEEPER-4026), except for containers and nodes with a time to live.
    #[must_use]
    pub fn returns_stats_in_transactions(self) -> bool {
        self >= Self::new(3, 8, 2) || (self >= Self::new(3, 7, 2) && self < Self::new(3, 8, 0))
    }

    /// Parses the version that a server reports, without the build id.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mut numbers = text.split('.').map(|number| number.parse().ok());
        let version = Self::new(numbers.next()??, numbers.next()??, numbers.next()??);
        numbers.next().is_none().then_some(version)
    }
}

impl fmt::Display for ServerVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)
    }
}
