//! A client without pings, reconnects or checks.

use std::{collections::VecDeque, future::poll_fn};

use curator_client::{
    Acl, AuthId, Permission,
    codec::{
        ConnectRequest, ConnectResponse, EVENT_XID, Event, NewNode, PING_XID, Reader, ReplyHeader,
        RequestHeader, Writer,
    },
    simulation::{Network, Socket},
};

use super::*;

/// One connection.
pub(super) struct Client {
    socket: Box<dyn Socket>,
    pub(super) session: i64,
    pub(super) password: Vec<u8>,
    pub(super) timeout: i32,
    xid: i32,
    /// The events so far, as kind and path.
    pub(super) events: VecDeque<(i32, String)>,
}

/// A reply without its xid.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Reply {
    pub(super) zxid: i64,
    pub(super) error: i32,
    pub(super) body: Vec<u8>,
}

impl Client {
    /// Connects with a new session.
    pub(super) async fn new(process: &Process, server: usize) -> Option<Self> {
        Self::connect(process, server, 1000, 0, 0, &[0; 16]).await
    }

    /// Connects with the session of another client.
    pub(super) async fn resume(&self, process: &Process, server: usize, seen: i64) -> Option<Self> {
        Self::connect(process, server, 1000, seen, self.session, &self.password).await
    }

    /// Connects, and requests a session. `None` if the connection ends before the handshake is
    /// answered. If the session is refused, its id is 0.
    pub(super) async fn connect(
        process: &Process,
        server: usize,
        timeout: i32,
        last_zxid_seen: i64,
        session_id: i64,
        password: &[u8],
    ) -> Option<Self> {
        let connected = process.network.connect(&format!("zk{server}"), 2181);
        let socket = tokio::time::timeout(ms(5000), connected).await.ok()?.ok()?;
        let request = ConnectRequest {
            last_zxid_seen,
            ..ConnectRequest::new(timeout, session_id, password)
        };
        socket.send(request.frame());
        let frame = tokio::time::timeout(ms(5000), poll_fn(|context| socket.poll_receive(context)))
            .await
            .ok()??;
        let granted: ConnectResponse<Vec<u8>> = Reader::new(&frame).read("a session").unwrap();
        let ConnectResponse {
            session_id: session,
            password,
            timeout,
            ..
        } = granted;
        Some(Self {
            socket,
            session,
            password,
            timeout,
            xid: 0,
            events: VecDeque::new(),
        })
    }

    /// Sends a request, and returns its xid.
    pub(super) fn send(
        &mut self,
        op: OpCode,
        body: impl FnOnce(&mut Writer) -> &mut Writer,
    ) -> i32 {
        let mut writer = Writer::default();
        let xid = if op == OpCode::Ping {
            PING_XID
        } else {
            self.xid += 1;
            self.xid
        };
        writer.write(&RequestHeader { xid, op });
        body(&mut writer);
        self.socket.send(writer.into_frame());
        xid
    }

    /// The next frame; `None` at the end of the connection.
    pub(super) async fn frame(&mut self) -> Option<Vec<u8>> {
        poll_fn(|context| self.socket.poll_receive(context)).await
    }

    /// The next reply, with its xid; `None` at the end of the connection.
    pub(super) async fn reply(&mut self) -> Option<(i32, Reply)> {
        loop {
            let frame = self.frame().await?;
            let mut reader = Reader::new(&frame);
            let ReplyHeader { xid, zxid, error } = reader.read("a reply").unwrap();
            if xid == EVENT_XID {
                let event: Event<String> = reader.read("an event").unwrap();
                self.events.push_back((event.kind, event.path));
                continue;
            }
            return Some((
                xid,
                Reply {
                    zxid,
                    error,
                    body: reader.rest().to_vec(),
                },
            ));
        }
    }

    /// Sends a request and waits for its reply, at most 5 s.
    pub(super) async fn call(
        &mut self,
        op: OpCode,
        body: impl FnOnce(&mut Writer) -> &mut Writer,
    ) -> Option<Reply> {
        let xid = self.send(op, body);
        let (its, reply) = tokio::time::timeout(ms(5000), self.reply()).await.ok()??;
        assert_eq!(its, xid, "{op:?}");
        Some(reply)
    }

    pub(super) async fn create(&mut self, path: &str, ephemeral: bool) -> Option<Reply> {
        self.call(OpCode::Create, |writer| create(writer, path, ephemeral))
            .await
    }

    pub(super) async fn exists(&mut self, path: &str, watch: bool) -> Option<bool> {
        let reply = self
            .call(OpCode::Exists, |writer| writer.string(path).boolean(watch))
            .await?;
        Some(reply.error == 0)
    }

    pub(super) async fn sync(&mut self) -> Option<Reply> {
        self.call(OpCode::Sync, |writer| writer.string("/")).await
    }

    pub(super) async fn ping(&mut self) -> Option<Reply> {
        self.call(OpCode::Ping, |writer| writer).await
    }

    /// Whether the connection ends within this many milliseconds.
    pub(super) async fn ends_within(&mut self, millis: u64) -> bool {
        let end = async { while self.frame().await.is_some() {} };
        tokio::time::timeout(ms(millis), end).await.is_ok()
    }
}

/// Writes the body of a create with an ACL that is open to all.
pub(super) fn create<'a>(writer: &'a mut Writer, path: &str, ephemeral: bool) -> &'a mut Writer {
    let acl = &[Acl::new(Permission::ALL, AuthId::anyone())][..];
    writer.write(&NewNode {
        path,
        data: &b"data"[..],
        acl,
        flags: i32::from(ephemeral),
    })
}
