//! Clients, processes and handshakes that the tests of this package share.
#![allow(dead_code, reason = "each test program uses only a part")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a failure here is the test's failure"
)]

use std::{
    fs, io,
    io::{Read, Write},
    net::{Shutdown, SocketAddr, TcpStream},
    path::PathBuf,
    time::Duration,
};

use curator_client::codec::{ConnectRequest, RequestHeader, Writer, framed};
use curator_test::{DEFAULT_TIMEOUT, OpCode};
use zookeeper_client::{Acls, Client, CreateMode, CreateOptions};

pub(crate) const PERSISTENT: CreateOptions<'static> =
    CreateMode::Persistent.with_acls(Acls::anyone_all());
pub(crate) const EPHEMERAL: CreateOptions<'static> =
    CreateMode::Ephemeral.with_acls(Acls::anyone_all());

/// A client of a server or of a proxy.
pub(crate) async fn client(address: SocketAddr) -> Client {
    let connector = Client::connector().with_session_timeout(Duration::from_secs(20));
    connector.connect(&address.to_string()).await.unwrap()
}

/// The working directory of a server, by the process id of its JVM.
pub(crate) fn folder_of(id: u32) -> PathBuf {
    fs::read_link(format!("/proc/{id}/cwd")).unwrap()
}

/// A client that decides which requests share a packet.
pub(crate) struct RawClient(TcpStream);

impl RawClient {
    /// Connects, and sends nothing.
    pub(crate) fn silent(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(DEFAULT_TIMEOUT)).unwrap();
        Self(stream)
    }

    /// Connects and opens a session.
    pub(crate) fn connect(address: SocketAddr) -> Self {
        let mut client = Self::silent(address);
        client.send_handshake();
        client.receive(1);
        client
    }

    /// Requests a session.
    pub(crate) fn send_handshake(&mut self) {
        let request = ConnectRequest::new(20_000, 0, vec![0; 16]);
        self.0.write_all(&framed(&request.frame())).unwrap();
    }

    /// Sends requests that take a path (and perhaps a flag) in one packet.
    pub(crate) fn send(&mut self, ops: &[OpCode]) {
        let request = |op: &OpCode| {
            let mut writer = Writer::default();
            writer
                .write(&RequestHeader { xid: 1, op: *op })
                .string("/")
                .boolean(false);
            framed(&writer.into_frame())
        };
        self.0
            .write_all(&ops.iter().flat_map(request).collect::<Vec<_>>())
            .unwrap();
    }

    /// Sends these bytes and closes the sending half. The server may have closed the connection
    /// already.
    pub(crate) fn send_last(&mut self, bytes: &[u8]) {
        let _sent = self
            .0
            .write_all(bytes)
            .and_then(|()| self.0.shutdown(Shutdown::Write));
    }

    /// Reads this many replies.
    pub(crate) fn receive(&mut self, count: usize) {
        for _ in 0..count {
            let mut length = [0; 4];
            self.0.read_exact(&mut length).unwrap();
            let mut payload = vec![0; u32::from_be_bytes(length) as usize];
            self.0.read_exact(&mut payload).unwrap();
        }
    }

    /// Reads until the server closes the connection.
    pub(crate) fn receive_end(&mut self) {
        let end = self.0.read_to_end(&mut Vec::new());
        // The system resets a connection that is closed with unread data.
        assert!(
            end.as_ref()
                .map_or_else(|e| e.kind() == io::ErrorKind::ConnectionReset, |_| true),
            "{end:?}"
        );
    }

    /// Whether the connection is still open.
    pub(crate) fn is_open(&self) -> bool {
        self.0.set_nonblocking(true).unwrap();
        let peeked = self.0.peek(&mut [0]);
        self.0.set_nonblocking(false).unwrap();
        peeked.is_err_and(|e| e.kind() == io::ErrorKind::WouldBlock)
    }
}
