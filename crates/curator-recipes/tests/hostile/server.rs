//! A hostile server: a proxy in front of a good server that corrupts its replies.

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use tokio::io::AsyncWriteExt as _;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Handle;
use tokio::task::{JoinHandle, JoinSet};

use super::Numbers;
use super::act::{Act, Script};
use super::lies::Then;
use super::reply::{framed, int, read_frame};

/// Accepts connections until it is dropped, and closes them on drop.
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
    /// Starts the server in `runtime`, in front of `upstream`. The first `hostile` connections are
    /// hostile.
    pub(crate) async fn start(
        runtime: &Handle,
        upstream: SocketAddr,
        seed: u64,
        hostile: usize,
    ) -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?.into_std()?;
        let address = listener.local_addr()?;
        let done = Arc::default();
        let acts = Arc::clone(&done);
        let task = runtime.spawn(async move {
            let Ok(listener) = TcpListener::from_std(listener) else {
                return;
            };
            let mut connections = JoinSet::new();
            let mut count = 0;
            while let Ok((client, _)) = listener.accept().await {
                let script =
                    (count < hostile).then(|| Script::new(Numbers(seed ^ (count as u64) << 32)));
                count += 1;
                let acts = Arc::clone(&acts);
                connections.spawn(async move {
                    // Any end is expected: the client or the proxy closes the connection.
                    let _ended = Connection::serve(client, upstream, script, acts).await;
                });
                while connections.try_join_next().is_some() {}
            }
        });
        Ok(Self {
            address,
            done,
            task,
        })
    }

    pub(crate) fn connect_string(&self) -> String {
        self.address.to_string()
    }

    /// The acts so far.
    pub(crate) fn acts(&self) -> Vec<Act> {
        self.done.lock().unwrap().clone()
    }
}

/// The client's requests, for the acts on their replies.
#[derive(Debug, Default)]
pub(super) struct Requests {
    /// The kinds of the unanswered requests, by xid.
    pub(super) pending: HashMap<i32, i32>,
    pub(super) paths: Vec<Vec<u8>>,
}

impl Requests {
    fn record(&mut self, request: &[u8]) {
        let (Some(xid), Some(op)) = (int(request, 0), int(request, 4)) else {
            return;
        };
        self.pending.insert(xid, op);
        let path =
            int(request, 8).and_then(|length| request.get(12..12 + usize::try_from(length).ok()?));
        if let Some(path) = path
            && path.first() == Some(&b'/')
            && self.paths.len() < 100
        {
            self.paths.push(path.to_vec());
        }
    }
}

pub(super) struct Connection {
    pub(super) to_client: OwnedWriteHalf,
    pub(super) script: Script,
    pub(super) requests: Arc<Mutex<Requests>>,
    acts: Arc<Mutex<Vec<Act>>>,
    /// Earlier replies.
    pub(super) before: Vec<Vec<u8>>,
    /// A reply that is held back until after the next reply.
    pub(super) late: Option<Vec<u8>>,
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
        let requests = Arc::default();
        let forwarding = forward_requests(from_client, to_server, Arc::clone(&requests));
        let replies = async {
            let Some(script) = script else {
                let mut to_client = to_client;
                tokio::io::copy(&mut from_server, &mut to_client).await?;
                return Ok(());
            };
            Self {
                to_client,
                script,
                requests,
                acts,
                before: Vec::new(),
                late: None,
            }
            .forward_replies(from_server)
            .await
        };
        tokio::select! {
            ended = forwarding => ended,
            ended = replies => ended,
        }
    }

    async fn forward_replies(mut self, mut from_server: OwnedReadHalf) -> io::Result<()> {
        let mut count = 0;
        loop {
            let reply = read_frame(&mut from_server).await?;
            let op = if count == 0 {
                None
            } else {
                int(&reply, 0).and_then(|xid| self.requests().pending.remove(&xid))
            };
            if count == self.script.act_at {
                let act = self.script.act;
                self.acts.lock().unwrap().push(act);
                match self.act(act, reply.clone(), op).await? {
                    Then::Continue => {}
                    Then::StaySilent => std::future::pending().await,
                }
                self.script.next();
            } else {
                self.send(&framed(&reply)).await?;
            }
            // Not this reply, if it is the reply that was just held back.
            if let Some(late) = self.late.take_if(|late| *late != reply) {
                self.send(&framed(&late)).await?;
            }
            if self.before.len() < 50 {
                self.before.push(reply);
            }
            count += 1;
        }
    }
}

/// Forwards the client's requests until it disconnects.
async fn forward_requests(
    mut from_client: OwnedReadHalf,
    mut to_server: OwnedWriteHalf,
    requests: Arc<Mutex<Requests>>,
) -> io::Result<()> {
    let mut is_handshake = true;
    loop {
        let request = read_frame(&mut from_client).await?;
        if !std::mem::take(&mut is_handshake) {
            requests.lock().unwrap().record(&request);
        }
        to_server.write_all(&framed(&request)).await?;
    }
}
