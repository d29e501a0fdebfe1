//! What has happened in a simulation, as text.

use std::{collections::VecDeque, fmt, fmt::Write};

use curator_client::codec::{ConnectResponse, EVENT_XID, Event, EventKind, Reader, ReplyHeader};

use crate::{OpCode, embedded::Millis};

/// The last lines of a trace, and a hash of all its lines.
#[derive(Debug)]
pub(crate) struct Trace {
    text: String,
    /// How many lines the text has.
    lines: usize,
    /// How many of the last lines are kept, at least.
    limit: usize,
    hash: u64,
}

/// A text within a line: its line breaks and other control characters are escaped.
pub(crate) struct OneLine<'a>(pub(crate) &'a str);

impl fmt::Display for OneLine<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.chars().try_for_each(|c| match c {
            c if c.is_control() => write!(f, "{}", c.escape_default()),
            '\u{2028}' | '\u{2029}' => write!(f, "{}", c.escape_unicode()),
            c => f.write_char(c),
        })
    }
}

/// The parameters of FNV-1a.
const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
const PRIME: u64 = 0x0000_0100_0000_01b3;

impl Trace {
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            text: String::new(),
            lines: 0,
            limit,
            hash: OFFSET,
        }
    }

    /// Adds a line.
    pub(crate) fn line(&mut self, now: Millis, line: fmt::Arguments<'_>) {
        let start = self.text.len();
        // Writing to a string cannot fail.
        let _: fmt::Result = writeln!(self.text, "{:>6}.{:03} {line}", now / 1000, now % 1000);
        for byte in self.text[start..].bytes() {
            self.hash = (self.hash ^ u64::from(byte)).wrapping_mul(PRIME);
        }
        self.lines += 1;
        if self.lines / 2 > self.limit {
            let end = last_lines(&self.text, self.limit).len();
            self.text.drain(..self.text.len() - end);
            self.lines = self.limit;
        }
    }

    /// Adds a line for a frame that arrives at a client. `None` is the end of the connection.
    pub(crate) fn received(
        &mut self,
        now: Millis,
        process: &str,
        server: &str,
        asked: &mut VecDeque<(i32, OpCode)>,
        frame: Option<&[u8]>,
    ) {
        let Some(frame) = frame else {
            return self.line(now, format_args!("{process} <- {server} the end"));
        };
        let mut reader = Reader::lenient(frame);
        if let Some((_, OpCode::CreateSession)) = asked.front() {
            asked.pop_front();
            return match reader.read::<ConnectResponse<&[u8]>>("a session") {
                Ok(ConnectResponse {
                    session_id,
                    timeout,
                    ..
                }) => {
                    self.line(
                        now,
                        format_args!(
                            "{process} <- {server} session {session_id:x} for {timeout} ms"
                        ),
                    );
                }
                Err(malformed) => self.line(now, format_args!("{process} <- {server} {malformed}")),
            };
        }
        let ReplyHeader { xid, zxid, error } = match reader.read("a reply") {
            Ok(header) => header,
            Err(malformed) => {
                return self.line(now, format_args!("{process} <- {server} {malformed}"));
            }
        };
        if xid == EVENT_XID {
            let event = reader.read::<Event<String>>("an event").ok();
            let kind = match event
                .as_ref()
                .and_then(|event| EventKind::of_number(event.kind))
            {
                Some(EventKind::NodeCreated) => "created",
                Some(EventKind::NodeDeleted) => "deleted",
                Some(EventKind::NodeDataChanged) => "changed",
                Some(EventKind::NodeChildrenChanged) | None => "children",
            };
            let path = event.map(|event| event.path).unwrap_or_default();
            return self.line(
                now,
                format_args!("{process} <- {server} event {kind} {path}"),
            );
        }
        let op = asked
            .iter()
            .position(|(its, _)| *its == xid)
            .and_then(|index| asked.remove(index));
        let op = Op(op.map_or(OpCode::Other(0), |(_, op)| op));
        if error == 0 {
            self.line(
                now,
                format_args!("{process} <- {server} #{xid} {op} ok, zxid {zxid:x}"),
            );
        } else {
            self.line(
                now,
                format_args!("{process} <- {server} #{xid} {op} error {error}, zxid {zxid:x}"),
            );
        }
    }

    pub(crate) fn text(&self) -> &str {
        last_lines(&self.text, self.limit)
    }

    pub(crate) fn hash(&self) -> u64 {
        self.hash
    }
}

/// The last lines of a text, at most `lines`.
pub(crate) fn last_lines(text: &str, lines: usize) -> &str {
    let start = text
        .rmatch_indices('\n')
        .nth(lines)
        .map_or(0, |(index, _)| index + 1);
    &text[start..]
}

/// A kind of request, as text in a line.
pub(crate) struct Op(pub(crate) OpCode);

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}
