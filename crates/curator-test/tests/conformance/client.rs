//! A client that does what it is told and nothing else: no pings, no reconnect, no checks of its own.

use std::{
    cell::RefCell,
    collections::VecDeque,
    io::{ErrorKind, Read, Write},
    net::{Shutdown, SocketAddr, TcpStream},
    rc::Rc,
    time::Duration,
};

use crate::{
    hello,
    jute::{Malformed, Reader, Writer},
    names::{self, OPERATIONS},
    op::Op,
    reply,
    transcript::Transcript,
    words::Words,
};

/// How long an answer may take. It is long, as only a broken server lets a test wait for all of it.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(10);

/// One connection. It writes down what it sends and what it gets.
#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) name: String,
    stream: TcpStream,
    log: Rc<RefCell<Transcript>>,
    xid: i32,
    /// Whether a handshake was sent whose answer has not come.
    connects: bool,
    /// Whether the answer to a handshake has come, which is the first that comes.
    is_connected: bool,
    /// What was sent and not yet answered.
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
            connects: false,
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

    /// Reads until nothing is expected any more, or the connection has ended. Returns how many lines that gave.
    pub(crate) fn read_replies(&mut self) -> usize {
        let mut lines = 0;
        while (self.connects || !self.pending.is_empty()) && !self.closed {
            self.next();
            lines += 1;
        }
        lines
    }

    /// Sends what a transcript says in one write, and reads nothing: a handshake, which begins with `connect`; bytes as they are,
    /// which are in `<>`, and to which no reply is expected; or requests. Bytes are written apart.
    pub(crate) fn send(&mut self, texts: &[&str]) {
        let mut bytes = Vec::new();
        for text in texts {
            self.note(&format!("-> {text}"));
            if let Some(raw) = Words(text).bytes() {
                self.write(&raw);
            } else if text.starts_with("connect ") {
                self.connects = true;
                bytes.extend(hello::connect(text, &mut self.log.borrow_mut().normal).framed());
            } else {
                let op = self.op(text);
                let xid = self.xid_of(&op);
                bytes.extend(request(xid, &op));
                self.pending.push_back((xid, op));
            }
        }
        self.write(&bytes);
    }

    /// Sends a request of which nothing is written down, and returns its reply without the header. Nothing else may be on
    /// its way.
    pub(crate) fn ask(&mut self, text: &str) -> Vec<u8> {
        const HEADER: usize = 16;
        let op = self.op(text);
        let xid = self.xid_of(&op);
        self.write(&request(xid, &op));
        self.frame().and_then(|frame| frame.get(HEADER..).map(<[u8]>::to_vec)).unwrap_or_default()
    }

    /// Shows all events that were on their way, and that there is no other: the answer to a ping comes after them.
    pub(crate) fn settle(&mut self) {
        self.call("ping");
    }

    /// Reads one reply or event, or the connection's end. False when nothing can follow.
    pub(crate) fn next(&mut self) -> bool {
        let Some(frame) = self.frame() else { return false };
        let mut reader = Reader(&frame);
        let text = if self.is_connected { self.answer(&mut reader) } else { self.granted(&mut reader) };
        let text = text.unwrap_or_else(|Malformed| format!("malformed {frame:?}"));
        self.note(&format!("<- {text}"));
        true
    }

    /// Reads so many events, whose order the server chooses.
    pub(crate) fn in_any_order(&mut self, count: usize) {
        let before = self.log.borrow().text.len();
        for _ in 0..count {
            self.next();
        }
        let log = &mut self.log.borrow_mut();
        let mut lines: Vec<String> = log.text.split_off(before).lines().map(str::to_owned).collect();
        lines.sort();
        lines.iter().for_each(|line| log.line(line));
    }

    /// Reads until the connection is closed.
    pub(crate) fn wait_for_close(&mut self) {
        while self.next() {}
    }

    /// Reads until the connection is closed. What comes before that is left to chance, and not written down.
    pub(crate) fn skip_to_close(&mut self) {
        while self.frame().is_some() {}
    }

    /// Whether the server closes the connection within a time. Nothing else may come.
    pub(crate) fn is_closed_within(&mut self, time: Duration) -> bool {
        self.stream.set_read_timeout(Some(time)).unwrap();
        let closed = match self.stream.peek(&mut [0]) {
            Ok(read) => read == 0,
            Err(e) => !matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut),
        };
        self.stream.set_read_timeout(Some(DEFAULT_TIMEOUT)).unwrap();
        closed
    }

    /// Closes the connection, not the session. The server sees it at once.
    pub(crate) fn disconnect(&mut self) {
        self.note("-- disconnects");
        self.closed = true;
        // A server that was quicker is no failure.
        drop(self.stream.shutdown(Shutdown::Both));
    }

    /// No more bytes will be sent; the server's can still be read.
    pub(crate) fn end_of_requests(&mut self) {
        self.note("-- sends no more");
        self.stream.shutdown(Shutdown::Write).unwrap();
    }

    fn granted(&mut self, reader: &mut Reader<'_>) -> Result<String, Malformed> {
        (self.connects, self.is_connected) = (false, true);
        let log = &mut *self.log.borrow_mut();
        let (text, session) = hello::granted(reader, &mut log.normal)?;
        log.sessions.extend(session);
        Ok(text)
    }

    fn answer(&mut self, reader: &mut Reader<'_>) -> Result<String, Malformed> {
        let (xid, zxid, error) = (reader.int()?, reader.long()?, reader.int()?);
        let at = self.log.borrow().normal.zxid(zxid);
        if xid == -1 {
            let error = if error == 0 { String::new() } else { format!(" {}", names::error(error)) };
            return Ok(format!("event {}{error} at {at}", reply::event(reader.0)));
        }
        let Some(place) = self.pending.iter().position(|(sent, _)| *sent == xid) else {
            return Ok(format!("reply to nothing: xid={xid} {} at {at} {:?}", names::error(error), reader.0));
        };
        let order = if place == 0 { "" } else { "out of order, " };
        let Some((_, op)) = self.pending.remove(place) else { return Err(Malformed) };
        let body = reply::body(&op, error, reader.0, &mut self.log.borrow_mut().normal);
        let result = if error == 0 { "ok".to_owned() } else { names::error(error) };
        // The results of a multi begin a line of their own.
        let space = if body.is_empty() || body.starts_with('\n') { "" } else { " " };
        Ok(format!("{order}{} {result} at {at}{space}{body}", OPERATIONS.name(op.code)))
    }

    fn op(&self, text: &str) -> Op {
        Op::read(text, self.log.borrow().normal.base)
    }

    /// The fixed xids of clients, and numbers for the rest.
    fn xid_of(&mut self, op: &Op) -> i32 {
        match op.code {
            11 => -2,
            100 => -4,
            101 | 105 => -8,
            _ => {
                self.xid += 1;
                self.xid
            }
        }
    }

    fn write(&mut self, bytes: &[u8]) {
        // A server that has closed the connection is seen by the next read.
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
            let length = usize::try_from(i32::from_be_bytes(length)).map_err(|_| ErrorKind::InvalidData)?;
            let mut frame = vec![0; length];
            self.stream.read_exact(&mut frame)?;
            Ok::<_, std::io::Error>(frame)
        };
        let end = match read() {
            Ok(frame) => return Some(frame),
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                format!("-- no answer within {DEFAULT_TIMEOUT:?}")
            }
            Err(e) if e.kind() == ErrorKind::UnexpectedEof => "-- closed by the server".to_owned(),
            // A negative length, or a reset, which may take what was not read yet along with it: the server must
            // not cause one.
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
    Writer::default().int(xid).int(op.code).raw(&op.body).framed()
}
