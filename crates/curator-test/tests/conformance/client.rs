//! A client that sends only what a transcript contains: without pings, reconnects or checks.

use std::{
    cell::RefCell,
    collections::VecDeque,
    io::{ErrorKind, Read, Write},
    net::{Shutdown, SocketAddr, TcpStream},
    rc::Rc,
    time::Duration,
};

use curator_client::codec::{
    AUTH_XID, EVENT_XID, Malformed, OpCode, PING_XID, Reader, ReplyHeader, RequestHeader, Writer,
    framed,
};

use test_support::transcripts::{
    names::{self, OPERATIONS},
    op::Op,
    words::Words,
};

use crate::{hello, reply, transcript::Transcript};

/// The longest wait for a reply. A test waits that long only for a broken server, and for one
/// request to 3.8, whose transcript records the missing reply.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(10);

/// The xid that clients use to register watches again.
const SET_WATCHES_XID: i32 = -8;

/// One connection. Records all frames that it sends and receives.
#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) name: String,
    stream: TcpStream,
    log: Rc<RefCell<Transcript>>,
    xid: i32,
    /// Whether a handshake was sent and not yet answered.
    is_connecting: bool,
    /// Whether the handshake was answered. Its answer is the first reply.
    is_connected: bool,
    /// The requests that are not yet answered.
    pending: VecDeque<(i32, Op)>,
    pub(crate) closed: bool,
}

impl Client {
    pub(crate) fn open(name: &str, address: SocketAddr, log: &Rc<RefCell<Transcript>>) -> Self {
        let stream = TcpStream::connect(address).expect("a server that listens");
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(DEFAULT_TIMEOUT)).unwrap();
        stream.set_write_timeout(Some(DEFAULT_TIMEOUT)).unwrap();
        Self {
            name: name.to_owned(),
            stream,
            log: Rc::clone(log),
            xid: 0,
            is_connecting: false,
            is_connected: false,
            pending: VecDeque::new(),
            closed: false,
        }
    }

    /// Sends a handshake or a request, and reads up to its reply.
    pub(crate) fn call(&mut self, text: &str) {
        self.send(&[text]);
        self.read_replies();
    }

    /// Reads until no reply is expected, or the connection has ended. Returns the number of lines
    /// recorded.
    pub(crate) fn read_replies(&mut self) -> usize {
        let mut lines = 0;
        while (self.is_connecting || !self.pending.is_empty()) && !self.closed {
            self.next();
            lines += 1;
        }
        lines
    }

    /// Sends texts of a transcript in one write, and reads nothing: a handshake, which begins with
    /// `connect`; raw bytes in `<>`, which get no reply; or requests. Bytes are written
    /// separately.
    pub(crate) fn send(&mut self, texts: &[&str]) {
        let mut bytes = Vec::new();
        for text in texts {
            self.note(&format!("-> {text}"));
            if let Some(raw) = Words(text).bytes() {
                self.write(&raw);
            } else if text.starts_with("connect ") {
                self.is_connecting = true;
                bytes.extend(framed(
                    &hello::connect(text, &mut self.log.borrow_mut().normal).frame(),
                ));
            } else {
                let op = self.op(text);
                let xid = self.xid_of(&op);
                bytes.extend(request(xid, &op));
                self.pending.push_back((xid, op));
            }
        }
        self.write(&bytes);
    }

    /// Sends a request without recording it, and returns its reply without the header. No other
    /// request may be in flight.
    pub(crate) fn ask(&mut self, text: &str) -> Vec<u8> {
        const HEADER: usize = 16;
        let op = self.op(text);
        let xid = self.xid_of(&op);
        self.write(&request(xid, &op));
        self.frame()
            .and_then(|frame| frame.get(HEADER..).map(<[u8]>::to_vec))
            .unwrap_or_default()
    }

    /// Records all events in flight, and a ping and its reply, which arrives after them.
    pub(crate) fn settle(&mut self) {
        self.call("ping");
    }

    /// Reads one reply or event, or the connection's end. Returns false when nothing can follow.
    pub(crate) fn next(&mut self) -> bool {
        let Some(frame) = self.frame() else {
            return false;
        };
        let mut reader = Reader::new(&frame);
        let text = if self.is_connected {
            self.answer(&mut reader)
        } else {
            self.granted(&mut reader)
        };
        let text = text.unwrap_or_else(|_| format!("malformed {frame:?}"));
        self.note(&format!("<- {text}"));
        true
    }

    /// Reads this many events, whose order the server chooses, and records them sorted.
    pub(crate) fn in_any_order(&mut self, count: usize) {
        let before = self.log.borrow().text.len();
        for _ in 0..count {
            self.next();
        }
        let log = &mut self.log.borrow_mut();
        let mut lines: Vec<String> = log
            .text
            .split_off(before)
            .lines()
            .map(str::to_owned)
            .collect();
        lines.sort();
        lines.iter().for_each(|line| log.line(line));
    }

    /// Reads until the connection is closed.
    pub(crate) fn wait_for_close(&mut self) {
        while self.next() {}
    }

    /// Reads until the connection is closed. Which frames arrive before that varies, so they are
    /// not recorded.
    pub(crate) fn skip_to_close(&mut self) {
        while self.frame().is_some() {}
    }

    /// Whether the server closes the connection within `time`. Nothing else must arrive meanwhile.
    pub(crate) fn is_closed_within(&mut self, time: Duration) -> bool {
        self.stream.set_read_timeout(Some(time)).unwrap();
        let closed = match self.stream.peek(&mut [0]) {
            Ok(read) => read == 0,
            Err(e) => !matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut),
        };
        self.stream.set_read_timeout(Some(DEFAULT_TIMEOUT)).unwrap();
        closed
    }

    /// Closes the connection, not the session. The server detects that immediately.
    pub(crate) fn disconnect(&mut self) {
        self.note("-- disconnects");
        self.closed = true;
        // The server may have closed it first.
        drop(self.stream.shutdown(Shutdown::Both));
    }

    /// Closes the sending half; replies can still be read.
    pub(crate) fn end_of_requests(&mut self) {
        self.note("-- sends no more");
        self.stream.shutdown(Shutdown::Write).unwrap();
    }

    fn granted(&mut self, reader: &mut Reader<'_>) -> Result<String, Malformed> {
        (self.is_connecting, self.is_connected) = (false, true);
        let log = &mut *self.log.borrow_mut();
        let (text, session) = hello::granted(reader, &mut log.normal)?;
        log.sessions.extend(session);
        Ok(text)
    }

    fn answer(&mut self, reader: &mut Reader<'_>) -> Result<String, Malformed> {
        let ReplyHeader { xid, zxid, error } = reader.read("the header of a reply")?;
        let at = self.log.borrow().normal.zxid(zxid);
        if xid == EVENT_XID {
            let error = if error == 0 {
                String::new()
            } else {
                format!(" {}", names::error(error))
            };
            return Ok(format!(
                "event {}{error} at {at}",
                reply::event(reader.rest())
            ));
        }
        let Some(place) = self.pending.iter().position(|(sent, _)| *sent == xid) else {
            return Ok(format!(
                "reply to nothing: xid={xid} {} at {at} {:?}",
                names::error(error),
                reader.rest()
            ));
        };
        let order = if place == 0 { "" } else { "out of order, " };
        let Some((_, op)) = self.pending.remove(place) else {
            return Err(reader.malformed("a reply"));
        };
        let body = reply::body(&op, error, reader.rest(), &mut self.log.borrow_mut().normal);
        let result = if error == 0 {
            "ok".to_owned()
        } else {
            names::error(error)
        };
        // The results of a multi begin on a new line.
        let space = if body.is_empty() || body.starts_with('\n') {
            ""
        } else {
            " "
        };
        Ok(format!(
            "{order}{} {result} at {at}{space}{body}",
            OPERATIONS.name(op.code.number())
        ))
    }

    fn op(&self, text: &str) -> Op {
        Op::read(text, self.log.borrow().normal.base)
    }

    /// The reserved xid for this kind of request, or the next number.
    fn xid_of(&mut self, op: &Op) -> i32 {
        match op.code {
            OpCode::Ping => PING_XID,
            OpCode::Auth => AUTH_XID,
            OpCode::SetWatches | OpCode::SetWatches2 => SET_WATCHES_XID,
            _ => {
                self.xid += 1;
                self.xid
            }
        }
    }

    fn write(&mut self, bytes: &[u8]) {
        // If the server has closed the connection, the next read shows it.
        drop(self.stream.write_all(bytes));
    }

    /// The next frame, without its length.
    fn frame(&mut self) -> Option<Vec<u8>> {
        if self.closed {
            return None;
        }
        let mut read = || {
            let mut length = [0; 4];
            self.stream.read_exact(&mut length)?;
            let length =
                usize::try_from(i32::from_be_bytes(length)).map_err(|_| ErrorKind::InvalidData)?;
            let mut frame = vec![0; length];
            self.stream.read_exact(&mut frame)?;
            Ok::<_, std::io::Error>(frame)
        };
        let end = match read() {
            Ok(frame) => return Some(frame),
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                format!("-- no reply within {DEFAULT_TIMEOUT:?}")
            }
            Err(e) if e.kind() == ErrorKind::UnexpectedEof => "-- closed by the server".to_owned(),
            // A negative length, or a reset. The server must not cause a reset, which may discard
            // unread data.
            Err(e) => format!("-- broken: {:?}", e.kind()),
        };
        self.closed = true;
        self.note(&end);
        None
    }

    fn note(&self, text: &str) {
        self.log.borrow_mut().line(&format!("{} {text}", self.name));
    }
}

fn request(xid: i32, op: &Op) -> Vec<u8> {
    let mut writer = Writer::default();
    writer
        .write(&RequestHeader { xid, op: op.code })
        .raw(&op.body);
    framed(&writer.into_frame())
}
