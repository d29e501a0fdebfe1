//! Performs the hostile acts on a server's replies.

use std::io;
use std::sync::MutexGuard;
use std::time::Duration;

use rustix::net::sockopt::set_socket_linger;
use tokio::io::AsyncWriteExt as _;

use super::act::Act;
use super::reply::{BODY, CODE, EVENT, PING, ZXID, event, framed, int, set_int, spoil, tame};
use super::server::{Connection, Requests};

/// The most bytes that an endless stream sends at once. A stream of events sends a tenth of it at
/// once, or 2 MB/s.
const STREAM: usize = 100 * 1024;
/// The pause of an endless stream between two sends.
const STREAM_PAUSE: Duration = Duration::from_millis(5);

/// Whether the connection continues after an act.
pub(super) enum Then {
    Continue,
    /// Nothing more is sent.
    StaySilent,
}

impl Connection {
    /// Performs a hostile act instead of only sending this reply, which answers a request of the
    /// kind `op`.
    pub(super) async fn act(
        &mut self,
        act: Act,
        mut reply: Vec<u8>,
        op: Option<i32>,
    ) -> io::Result<Then> {
        let is_handshake = op.is_none() && self.before.is_empty();
        match act {
            Act::Spoiled if is_handshake => self.spoil_handshake(&mut reply),
            Act::Spoiled => {
                spoil(&mut self.script.numbers, &mut reply);
            }
            Act::WrongXid => set_int(&mut reply, 0, self.wrong_xid()),
            Act::WrongZxid => {
                let zxid = [i64::MIN, -1, 0, i64::MAX, 1][self.script.numbers.below(5)];
                if let Some(place) = reply.get_mut(ZXID..CODE) {
                    place.copy_from_slice(&zxid.to_be_bytes());
                }
            }
            Act::WrongCode => {
                let any = self.script.numbers.next() as i32;
                let known = -(self.script.numbers.below(130) as i32);
                let code = if self.script.numbers.below(3) == 0 {
                    any
                } else {
                    known
                };
                set_int(&mut reply, CODE, code);
            }
            Act::OtherBody => {
                let index = self.script.numbers.below(self.before.len().max(1));
                if let Some(body) = self.before.get(index).and_then(|other| other.get(BODY..)) {
                    reply.truncate(BODY);
                    reply.extend_from_slice(body);
                }
            }
            Act::LongList => set_int(&mut reply, BODY, i32::MAX),
            Act::WrongLength => return self.lie_about_the_length(&reply).await,
            Act::Twice => self.send(&framed(&reply)).await?,
            Act::OutOfOrder => {
                self.late = Some(reply);
                return Ok(Then::Continue);
            }
            Act::Events => {
                for _ in 0..self.script.numbers.below(300) {
                    let event = self.wild_event();
                    self.send(&framed(&event)).await?;
                }
            }
            Act::Unrequested => {
                let xid = self.wrong_xid();
                let mut other = reply.clone();
                set_int(&mut other, 0, xid);
                self.send(&framed(&other)).await?;
            }
            Act::Garbage => {
                let garbage = self.garbage();
                self.send(&garbage).await?;
            }
            Act::Partial => {
                let frame = framed(&reply);
                let part = self.script.numbers.below(frame.len());
                self.send(&frame[..part]).await?;
                return Ok(Then::StaySilent);
            }
            Act::Silence => return Ok(Then::StaySilent),
            Act::EndlessFrame => {
                self.send(&i32::MAX.to_be_bytes()).await?;
                // The client buffers all of it. The rate is low enough for all concurrent cases to
                // stay within the process's memory limit.
                return self.stream(&[0; STREAM / 4]).await;
            }
            Act::EndlessEvents => {
                let events: Vec<_> = (0..100).flat_map(|_| framed(&self.calm_event())).collect();
                let events = events.repeat(STREAM / 10 / events.len() + 1);
                return self.stream(&events).await;
            }
            Act::Close => return Err(io::ErrorKind::ConnectionAborted.into()),
            Act::Reset => {
                set_socket_linger(self.to_client.as_ref(), Some(Duration::ZERO))?;
                return Err(io::ErrorKind::ConnectionReset.into());
            }
        }
        if let Some(op) = op {
            tame(op, &mut reply);
        }
        self.send(&framed(&reply)).await?;
        Ok(Then::Continue)
    }

    /// Corrupts the reply to a handshake: timeout, session id, password, the length of the
    /// password, or random bytes.
    fn spoil_handshake(&mut self, reply: &mut Vec<u8>) {
        let numbers = &mut self.script.numbers;
        match numbers.below(6) {
            0 => set_int(
                reply,
                4,
                [0, -1, i32::MIN, i32::MAX, 1, 50, 100_000][numbers.below(7)],
            ),
            1 => {
                let id = [0, -1, i64::MIN, 4711][numbers.below(4)];
                reply.splice(8..16, id.to_be_bytes());
            }
            2 => {
                let password = vec![7; [0, 1, 15, 17, 1000, 100_000][numbers.below(6)]];
                reply.splice(16.., [framed(&password), vec![0]].concat());
            }
            3 => set_int(reply, 16, [-1, 0, 15, 17, i32::MAX][numbers.below(5)]),
            4 => reply.truncate(numbers.below(reply.len())),
            _ => spoil(numbers, reply),
        }
    }

    async fn lie_about_the_length(&mut self, reply: &[u8]) -> io::Result<Then> {
        let length = reply.len() as i32;
        let lies = [
            length + 1,
            length - 1,
            0,
            1,
            -1,
            i32::MIN,
            i32::MAX,
            2 * length,
            0x0010_0000,
        ];
        let lie = lies[self.script.numbers.below(lies.len())];
        self.send(&lie.to_be_bytes()).await?;
        self.send(reply).await?;
        Ok(Then::Continue)
    }

    /// An unknown xid, the xid of a pending or an answered request, or a reserved xid.
    fn wrong_xid(&mut self) -> i32 {
        let waiting = self.requests().pending.keys().copied().min();
        let any = self.script.numbers.next() as i32;
        let answered = self.before.last().and_then(|reply| int(reply, 0));
        let reserved = [EVENT, PING, -4, -8, 0, i32::MAX, i32::MIN];
        match self.script.numbers.below(4) {
            0 => waiting.unwrap_or(any),
            1 => answered.unwrap_or(any),
            2 => reserved[self.script.numbers.below(reserved.len())],
            _ => any,
        }
    }

    /// An event that may have an unknown type, an unknown state, or an invalid path.
    fn wild_event(&mut self) -> Vec<u8> {
        let numbers = &mut self.script.numbers;
        let kind = if numbers.below(10) == 0 {
            numbers.next() as i32
        } else {
            1 + numbers.below(4) as i32
        };
        let state = if numbers.below(10) == 0 {
            numbers.next() as i32
        } else {
            3
        };
        let odd_paths: [&[u8]; 9] = [
            b"",
            b"/",
            b"//",
            b"no slash",
            "é".as_bytes(),
            b"/\0",
            b"/\xff\xfe",
            b"/a/../b",
            &[b'/'; 5000],
        ];
        let odd_path = odd_paths[numbers.below(odd_paths.len())].to_vec();
        let has_requested_path = numbers.below(3) > 0;
        let path = if has_requested_path {
            self.requested_path().unwrap_or(odd_path)
        } else {
            odd_path
        };
        event(kind, state, &path)
    }

    /// An event that a server could send.
    fn calm_event(&mut self) -> Vec<u8> {
        let kind = 1 + self.script.numbers.below(4) as i32;
        let path = self.requested_path().unwrap_or_else(|| b"/calm".to_vec());
        event(kind, 3, &path)
    }

    /// A path from the client's requests.
    fn requested_path(&mut self) -> Option<Vec<u8>> {
        let requests = self.requests.lock().unwrap();
        let index = self.script.numbers.below(requests.paths.len().max(1));
        requests.paths.get(index).cloned()
    }

    /// Bytes of another protocol, or random bytes.
    fn garbage(&mut self) -> Vec<u8> {
        let numbers = &mut self.script.numbers;
        match numbers.below(3) {
            0 => b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n".to_vec(),
            1 => b"\x15\x03\x01\x00\x02\x02\x0a".to_vec(),
            _ => (0..numbers.below(300))
                .map(|_| numbers.next() as u8)
                .collect(),
        }
    }

    /// Sends the bytes repeatedly until the client disconnects.
    async fn stream(&mut self, bytes: &[u8]) -> io::Result<Then> {
        loop {
            self.send(bytes).await?;
            tokio::time::sleep(STREAM_PAUSE).await;
        }
    }

    pub(super) async fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.to_client.write_all(bytes).await
    }

    pub(super) fn requests(&self) -> MutexGuard<'_, Requests> {
        self.requests.lock().unwrap()
    }
}
