//! A server that lies: a good one, behind a proxy that does hostile things to its answers.

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rustix::net::sockopt::set_socket_linger;
use tokio::io::AsyncWriteExt as _;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Handle;
use tokio::task::{JoinHandle, JoinSet};

use super::Numbers;
use super::act::{Act, Script};
use super::answer::{BODY, CODE, EVENT, PING, ZXID, event, framed, int, read_frame, set_int, spoil, tame};

/// How much an endless stream sends at a time, and how often: about 20 MB a second.
const STREAM: usize = 100 * 1024;
const STREAM_PAUSE: Duration = Duration::from_millis(5);

/// Listens until it is dropped, which closes its connections.
#[derive(Debug)]
pub(crate) struct HostileServer {
    address: SocketAddr,
    done: Arc<Mutex<Vec<Act>>>,
    task: JoinHandle<()>,
}

impl Drop for HostileServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl HostileServer {
    /// The first `hostile` connections are.
    pub(crate) async fn start(runtime: &Handle, upstream: SocketAddr, seed: u64, hostile: usize) -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?.into_std()?;
        let (address, done) = (listener.local_addr()?, Arc::default());
        let acts = Arc::clone(&done);
        let task = runtime.spawn(async move {
            let Ok(listener) = TcpListener::from_std(listener) else { return };
            let mut connections = JoinSet::new();
            let mut count = 0;
            while let Ok((client, _)) = listener.accept().await {
                let script = (count < hostile).then(|| Script::new(Numbers(seed ^ (count as u64) << 32)));
                count += 1;
                let acts = Arc::clone(&acts);
                connections.spawn(async move {
                    // However it ends: the client has hung up, or is hung up on.
                    let _ended = Connection::serve(client, upstream, script, acts).await;
                });
                while connections.try_join_next().is_some() {}
            }
        });
        Ok(Self { address, done, task })
    }

    pub(crate) fn connect_string(&self) -> String {
        self.address.to_string()
    }

    /// What it has done so far.
    pub(crate) fn acts(&self) -> Vec<Act> {
        self.done.lock().unwrap().clone()
    }
}

/// What the client has asked for.
#[derive(Debug, Default)]
struct Asked {
    /// The kinds of the requests that are not answered, by xid.
    pending: HashMap<i32, i32>,
    paths: Vec<Vec<u8>>,
}

impl Asked {
    fn note(&mut self, request: &[u8]) {
        let (Some(xid), Some(op)) = (int(request, 0), int(request, 4)) else { return };
        self.pending.insert(xid, op);
        let path = int(request, 8).and_then(|length| request.get(12..12 + usize::try_from(length).ok()?));
        if let Some(path) = path.filter(|path| path.first() == Some(&b'/') && self.paths.len() < 100) {
            self.paths.push(path.to_vec());
        }
    }
}

struct Connection {
    to_client: OwnedWriteHalf,
    script: Script,
    asked: Arc<Mutex<Asked>>,
    acts: Arc<Mutex<Vec<Act>>>,
    /// Answers that were given before.
    before: Vec<Vec<u8>>,
    /// One that waits for the next.
    late: Option<Vec<u8>>,
}

/// Whether the connection goes on after an act.
enum Then {
    GoOn,
    /// Nothing more is said.
    BeSilent,
}

impl Connection {
    async fn serve(
        client: TcpStream,
        upstream: SocketAddr,
        script: Option<Script>,
        acts: Arc<Mutex<Vec<Act>>>,
    ) -> io::Result<()> {
        let server = TcpStream::connect(upstream).await?;
        client.set_nodelay(true)?;
        server.set_nodelay(true)?;
        let (from_client, to_client) = client.into_split();
        let (mut from_server, to_server) = server.into_split();
        let asked = Arc::default();
        let requests = requests(from_client, to_server, Arc::clone(&asked));
        let answers = async {
            let Some(script) = script else {
                let mut to_client = to_client;
                tokio::io::copy(&mut from_server, &mut to_client).await?;
                return Ok(());
            };
            Self { to_client, script, asked, acts, before: Vec::new(), late: None }.answers(from_server).await
        };
        tokio::select! {
            ended = requests => ended,
            ended = answers => ended,
        }
    }

    async fn answers(mut self, mut from_server: OwnedReadHalf) -> io::Result<()> {
        let mut count = 0;
        loop {
            let answer = read_frame(&mut from_server).await?;
            let op = if count == 0 { None } else { int(&answer, 0).and_then(|xid| self.asked().pending.remove(&xid)) };
            if count == self.script.at {
                let act = self.script.act;
                self.acts.lock().unwrap().push(act);
                match self.act(act, answer.clone(), op).await? {
                    Then::GoOn => {}
                    Then::BeSilent => std::future::pending().await,
                }
                self.script.next();
            } else {
                self.say(&framed(&answer)).await?;
            }
            if let Some(late) = self.late.take_if(|late| *late != answer) {
                self.say(&framed(&late)).await?;
            }
            if self.before.len() < 50 {
                self.before.push(answer);
            }
            count += 1;
        }
    }

    async fn act(&mut self, act: Act, mut answer: Vec<u8>, op: Option<i32>) -> io::Result<Then> {
        let is_handshake = op.is_none() && self.before.is_empty();
        match act {
            Act::Spoiled if is_handshake => self.spoil_handshake(&mut answer),
            Act::Spoiled => {
                spoil(&mut self.script.numbers, &mut answer);
            }
            Act::WrongXid => set_int(&mut answer, 0, self.wrong_xid()),
            Act::WrongZxid => {
                let zxid = [i64::MIN, -1, 0, i64::MAX, 1][self.script.numbers.below(5)];
                if let Some(place) = answer.get_mut(ZXID..CODE) {
                    place.copy_from_slice(&zxid.to_be_bytes());
                }
            }
            Act::WrongCode => {
                let any = self.script.numbers.next() as i32;
                let known = -(self.script.numbers.below(130) as i32);
                set_int(&mut answer, CODE, if self.script.numbers.below(3) == 0 { any } else { known });
            }
            Act::OtherBody => {
                let other = self.script.numbers.below(self.before.len().max(1));
                if let Some(other) = self.before.get(other).and_then(|other| other.get(BODY..)) {
                    answer.truncate(BODY);
                    answer.extend_from_slice(other);
                }
            }
            Act::LongList => set_int(&mut answer, BODY, i32::MAX),
            Act::WrongLength => return self.lie_about_the_length(&answer).await,
            Act::Twice => self.say(&framed(&answer)).await?,
            Act::OutOfOrder => {
                self.late = Some(answer);
                return Ok(Then::GoOn);
            }
            Act::Events => {
                for _ in 0..self.script.numbers.below(300) {
                    let event = self.wild_event();
                    self.say(&framed(&event)).await?;
                }
            }
            Act::Unrequested => {
                let xid = self.wrong_xid();
                let mut other = answer.clone();
                set_int(&mut other, 0, xid);
                self.say(&framed(&other)).await?;
            }
            Act::Garbage => {
                let garbage = self.garbage();
                self.say(&garbage).await?;
            }
            Act::Partial => {
                let frame = framed(&answer);
                let part = self.script.numbers.below(frame.len());
                self.say(&frame[..part]).await?;
                return Ok(Then::BeSilent);
            }
            Act::Silence => return Ok(Then::BeSilent),
            Act::EndlessFrame => {
                self.say(&i32::MAX.to_be_bytes()).await?;
                return self.stream(&[0; STREAM]).await;
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
            tame(op, &mut answer);
        }
        self.say(&framed(&answer)).await?;
        Ok(Then::GoOn)
    }

    /// Version, timeout, session id, password, and whether the server is read-only.
    fn spoil_handshake(&mut self, answer: &mut Vec<u8>) {
        let numbers = &mut self.script.numbers;
        match numbers.below(6) {
            0 => set_int(answer, 4, [0, -1, i32::MIN, i32::MAX, 1, 50, 100_000][numbers.below(7)]),
            1 => {
                let id = [0, -1, i64::MIN, 4711][numbers.below(4)];
                answer.splice(8..16, id.to_be_bytes());
            }
            2 => {
                let password = vec![7; [0, 1, 15, 17, 1000, 100_000][numbers.below(6)]];
                answer.splice(16.., [framed(&password), vec![0]].concat());
            }
            3 => set_int(answer, 16, [-1, 0, 15, 17, i32::MAX][numbers.below(5)]),
            4 => answer.truncate(numbers.below(answer.len())),
            _ => spoil(numbers, answer),
        }
    }

    async fn lie_about_the_length(&mut self, answer: &[u8]) -> io::Result<Then> {
        let length = answer.len() as i32;
        let lies = [length + 1, length - 1, 0, 1, -1, i32::MIN, i32::MAX, 2 * length, 0x0010_0000];
        let lie = lies[self.script.numbers.below(lies.len())];
        self.say(&lie.to_be_bytes()).await?;
        self.say(answer).await?;
        Ok(Then::GoOn)
    }

    /// The xid of nobody, of a request that waits, of one that does not any more, or one that means something else.
    fn wrong_xid(&mut self) -> i32 {
        let waiting = self.asked().pending.keys().copied().min();
        let any = self.script.numbers.next() as i32;
        let answered = self.before.last().and_then(|answer| int(answer, 0));
        let special = [EVENT, PING, -4, -8, 0, i32::MAX, i32::MIN];
        match self.script.numbers.below(4) {
            0 => waiting.unwrap_or(any),
            1 => answered.unwrap_or(any),
            2 => special[self.script.numbers.below(special.len())],
            _ => any,
        }
    }

    fn wild_event(&mut self) -> Vec<u8> {
        let numbers = &mut self.script.numbers;
        let kind = if numbers.below(10) == 0 { numbers.next() as i32 } else { 1 + numbers.below(4) as i32 };
        let state = if numbers.below(10) == 0 { numbers.next() as i32 } else { 3 };
        let wild: [&[u8]; 9] =
            [b"", b"/", b"//", b"no slash", "é".as_bytes(), b"/\0", b"/\xff\xfe", b"/a/../b", &[b'/'; 5000]];
        let path = wild[numbers.below(wild.len())].to_vec();
        let is_real = numbers.below(3) > 0;
        let path = if is_real { self.a_path().unwrap_or(path) } else { path };
        event(kind, state, &path)
    }

    /// One that a server could send.
    fn calm_event(&mut self) -> Vec<u8> {
        let kind = 1 + self.script.numbers.below(4) as i32;
        let path = self.a_path().unwrap_or_else(|| b"/calm".to_vec());
        event(kind, 3, &path)
    }

    /// A path that the client has named.
    fn a_path(&mut self) -> Option<Vec<u8>> {
        let asked = self.asked.lock().unwrap();
        let at = self.script.numbers.below(asked.paths.len().max(1));
        asked.paths.get(at).cloned()
    }

    fn garbage(&mut self) -> Vec<u8> {
        let numbers = &mut self.script.numbers;
        match numbers.below(3) {
            0 => b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n".to_vec(),
            1 => b"\x15\x03\x01\x00\x02\x02\x0a".to_vec(),
            _ => (0..numbers.below(300)).map(|_| numbers.next() as u8).collect(),
        }
    }

    /// Goes on until the client hangs up.
    async fn stream(&mut self, bytes: &[u8]) -> io::Result<Then> {
        loop {
            self.say(bytes).await?;
            tokio::time::sleep(STREAM_PAUSE).await;
        }
    }

    async fn say(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.to_client.write_all(bytes).await
    }

    fn asked(&self) -> std::sync::MutexGuard<'_, Asked> {
        self.asked.lock().unwrap()
    }
}

/// Passes the client's requests on, until it hangs up.
async fn requests(
    mut from_client: OwnedReadHalf,
    mut to_server: OwnedWriteHalf,
    asked: Arc<Mutex<Asked>>,
) -> io::Result<()> {
    let mut is_handshake = true;
    loop {
        let request = read_frame(&mut from_client).await?;
        if !std::mem::take(&mut is_handshake) {
            asked.lock().unwrap().note(&request);
        }
        to_server.write_all(&framed(&request)).await?;
    }
}
