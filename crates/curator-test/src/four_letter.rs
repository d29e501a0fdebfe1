//! Sends ZooKeeper's four-letter words, and parses the replies.

use std::{collections::BTreeMap, net::SocketAddr, time::Duration};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use crate::{error::Error, wait::timeout};

/// A running server replies in milliseconds; a paused one never does.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(5);

/// The role of a server in its ensemble.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Mode {
    /// Runs without an ensemble.
    Standalone,
    /// Leads an ensemble.
    Leader,
    /// Follows a leader.
    Follower,
    /// Follows a leader, without a vote.
    Observer,
}

/// A session that is connected to a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct SessionInfo {
    /// ZooKeeper's id of the session.
    pub session_id: i64,
    /// The client's address.
    pub client: SocketAddr,
}

/// Sends a four-letter word to a server and returns the whole reply. Waits at most 5 s.
///
/// # Errors
///
/// When the server cannot be reached or does not reply in time.
pub async fn four_letter_word(address: SocketAddr, word: &str) -> Result<String, Error> {
    ask(address, word, TIMEOUT).await
}

/// Like [`four_letter_word`], but waits at most `limit`.
pub(crate) async fn ask(address: SocketAddr, word: &str, limit: Duration) -> Result<String, Error> {
    let exchange = async {
        let mut stream = TcpStream::connect(address).await?;
        stream.write_all(word.as_bytes()).await?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await?;
        Ok(answer)
    };
    let what = || format!("a reply from {address} to `{word}`");
    let answer = timeout(limit, exchange)
        .await
        .map_err(|_| Error::timeout(what(), limit))?;
    let answer = answer.map_err(Error::io(format!("get {}", what())))?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

/// The mode in a reply to `srvr`; `None` while the server does not serve.
pub(crate) fn mode(srvr: &str) -> Option<Mode> {
    match srvr
        .lines()
        .find_map(|line| line.strip_prefix("Mode: "))?
        .trim()
    {
        "standalone" => Some(Mode::Standalone),
        "leader" => Some(Mode::Leader),
        "follower" => Some(Mode::Follower),
        "observer" => Some(Mode::Observer),
        _ => None,
    }
}

/// The names in the line of the version, of ZooKeeper and of other servers.
const VERSION_LINES: [&str; 3] = [
    "Zookeeper version: ",
    "ClickHouse Keeper version: v",
    "RaftKeeper version: ",
];

/// The version in a reply to `srvr`, without the build id.
pub(crate) fn version(srvr: &str) -> Option<&str> {
    let text = srvr.lines().find_map(|line| {
        let mut names = VERSION_LINES.iter();
        names.find_map(|name| line.strip_prefix(name))
    })?;
    text.split(['-', ',', ' ']).next()
}

/// A number in a reply to `mntr`.
pub(crate) fn metric(mntr: &str, name: &str) -> Option<u64> {
    let value = mntr
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix('\t'))?;
    value.trim().parse().ok()
}

/// The sessions in a reply to `cons`. Connections without a session, such as the one that sent
/// `cons`, are left out.
pub(crate) fn sessions(cons: &str) -> Vec<SessionInfo> {
    cons.lines().filter_map(session).collect()
}

/// Parses a line such as ` /127.0.0.1:41234[1](queued=0,recved=1,sent=1,sid=0x100…,…)`
fn session(line: &str) -> Option<SessionInfo> {
    let client = line
        .trim()
        .strip_prefix('/')?
        .split('[')
        .next()?
        .parse()
        .ok()?;
    let id = line.split("sid=0x").nth(1)?.split([',', ')']).next()?;
    let session_id = u64::from_str_radix(id, 16).ok()?.cast_signed();
    Some(SessionInfo { session_id, client })
}

/// The total in a reply to `wchs`.
pub(crate) fn watch_count(wchs: &str) -> Option<u64> {
    wchs.lines()
        .find_map(|line| line.strip_prefix("Total watches:"))?
        .trim()
        .parse()
        .ok()
}

/// The number of watches of all kinds, from a reply to `mntr`.
pub(crate) fn total_watch_count(mntr: &str) -> Option<u64> {
    mntr.lines()
        .find_map(|line| line.strip_prefix("zk_watch_count\t"))?
        .trim()
        .parse()
        .ok()
}

/// The sessions that watch each path, from a reply to `wchp`.
pub(crate) fn watches_by_path(wchp: &str) -> BTreeMap<String, Vec<i64>> {
    let mut watches = BTreeMap::<String, Vec<i64>>::new();
    let mut path = None;
    for line in wchp.lines() {
        match line.strip_prefix("\t0x") {
            Some(id) => {
                let id = u64::from_str_radix(id.trim(), 16).map(u64::cast_signed);
                if let (Some(path), Ok(id)) = (&path, id) {
                    watches.entry(String::clone(path)).or_default().push(id);
                }
            }
            None => path = Some(line.to_owned()),
        }
    }
    watches
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cons_reply_is_parsed() {
        let cons = " /127.0.0.1:56906[0](queued=0,recved=1,sent=0)\n \
                    /127.0.0.1:40000[1](queued=0,recved=3,sent=3,sid=0xf00000000000000a,lop=PING,to=30000)\n\n";
        let client = "127.0.0.1:40000".parse().unwrap();
        let expected = SessionInfo {
            session_id: 0xf000_0000_0000_000a_u64.cast_signed(),
            client,
        };
        assert_eq!(sessions(cons), [expected]);
    }
}
