//! Sends four-letter words to a server, and counts the packets that they add.

use std::{net::SocketAddr, time::Duration};

use tokio::sync::Mutex;

use super::in_process::InProcess;
use crate::{
    error::Error,
    four_letter::{self, Mode, TIMEOUT},
};

/// The timeout for a server that may not be ready yet.
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

    /// `None` while the server is not ready, or does not reply within a second.
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

    /// The packets that the server has counted, without these words.
    pub(crate) async fn packets_received(&self, word_target: WordTarget<'_>) -> Result<u64, Error> {
        let mut answered = self.answered.lock().await;
        let mntr = word_target.ask("mntr", TIMEOUT).await?;
        *answered += word_target.packets();
        let all = four_letter::metric(&mntr, "zk_packets_received").ok_or(Error::Protocol(mntr))?;
        Ok(all.saturating_sub(*answered))
    }
}
