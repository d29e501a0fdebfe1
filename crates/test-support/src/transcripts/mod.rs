//! Converts recorded transcripts back to bytes, for tests that mutate them.

pub mod names;
pub mod op;
pub mod words;

use std::{fs, path::Path};

use curator_client::{
    Stat,
    codec::{AclEntry, Encode, Event, OpCode, Reply, Writer, write_end, write_part},
};

use self::{
    names::{EVENTS, OPERATIONS},
    words::Words,
};

type Replies = Reply<Option<String>, Option<Vec<u8>>, AclEntry<String>>;

/// The indentation of a line that continues the line before it.
pub const INDENT: &str = "       ";

/// The transcripts that the conformance tests of `curator-test` have recorded.
pub fn transcripts() -> Vec<String> {
    let folder =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../curator-test/tests/conformance/transcripts");
    let mut files: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|file| file.unwrap().path())
        .collect();
    files.retain(|file| file.extension().is_some_and(|extension| extension == "txt"));
    files.sort();
    files
        .iter()
        .map(|file| fs::read_to_string(file).unwrap())
        .collect()
}

/// The lines of a transcript, each including the indented lines below it.
pub fn lines(transcript: &str) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for line in transcript.lines() {
        match lines.last_mut() {
            Some(last) if line.starts_with(INDENT) => *last += &format!("\n{line}"),
            _ => lines.push(line.to_owned()),
        }
    }
    lines
}

/// A message that a client has received.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Recorded {
    Event(Vec<u8>),
    /// The reply to a request of this kind, without its header.
    Reply {
        op: OpCode,
        error: i32,
        body: Vec<u8>,
    },
}

/// The messages that the clients of a transcript have received, except handshakes and messages
/// whose bytes are not all recorded.
pub fn recorded(transcript: &str) -> Vec<Recorded> {
    // The multi requests that have no reply yet, each with its client's name.
    let mut asked: Vec<(&str, &str)> = Vec::new();
    let mut received = Vec::new();
    let lines = lines(transcript);
    for line in &lines {
        if let Some((client, request)) = line
            .split_once(" -> ")
            .filter(|(_, request)| request.starts_with("multi"))
        {
            asked.push((client, request));
        }
        let Some((client, text)) = line.split_once(" <- ") else {
            continue;
        };
        let text = text.strip_prefix("out of order, ").unwrap_or(text);
        let place = asked
            .iter()
            .position(|(its, _)| text.starts_with("multi") && *its == client);
        let request = place.map(|place| asked.remove(place).1);
        received.extend(Recorded::read(text, request.unwrap_or_default()));
    }
    received
}

impl Recorded {
    fn read(received: &str, request: &str) -> Option<Self> {
        let (first, results) = received.split_once('\n').unwrap_or((received, ""));
        let mut words = Words(first);
        let name = words.next();
        if name == "event" {
            let kind = EVENTS.number(words.next());
            return Some(Self::Event(encoded(&Event {
                kind,
                state: 3,
                path: text(&mut words),
            })));
        }
        if name.starts_with("protocol=") || name == "reply" {
            return None;
        }
        let op = OpCode::from(OPERATIONS.number(name));
        let error = if words.next() == "ok" {
            0
        } else {
            words.next().trim_matches(['(', ')']).parse().ok()?
        };
        assert_eq!(words.next(), "at", "{received}");
        words.next();
        let body = match op {
            _ if error != 0 => Vec::new(),
            OpCode::Multi | OpCode::MultiRead => parts(request, results)?,
            _ => encoded(&reply(op, &mut words)?),
        };
        Some(Self::Reply { op, error, body })
    }
}

/// Encodes the results of a multi or a multi-read.
fn parts(request: &str, results: &str) -> Option<Vec<u8>> {
    let mut writer = Writer::default();
    for (part, result) in request.lines().skip(1).zip(results.lines()) {
        let (_, part) = part.split_once(": ")?;
        let result = result.split_once(':')?.1.trim_start();
        if let Some((_, code)) = result.split_once(" header=") {
            let code = code.parse().ok()?;
            write_part(&mut writer, code, &Replies::Error { code });
            continue;
        }
        let mut words = Words(result);
        let name = match result.strip_prefix("as ") {
            Some(result) => {
                words = Words(result);
                words.next()
            }
            None => Words(part).next(),
        };
        write_part(
            &mut writer,
            0,
            &reply(OpCode::from(OPERATIONS.number(name)), &mut words)?,
        );
    }
    write_end(&mut writer);
    Some(writer.into_frame())
}

fn encoded(value: &impl Encode) -> Vec<u8> {
    let mut writer = Writer::default();
    writer.write(value);
    writer.into_frame()
}

/// Parses a reply. `None` for a kind that is not handled here, or whose bytes are not all recorded.
fn reply(op: OpCode, words: &mut Words<'_>) -> Option<Replies> {
    Some(match op {
        OpCode::Create => Reply::Create { path: text(words) },
        OpCode::Create2 => Reply::Create2 {
            path: text(words),
            stat: stat(words)?,
        },
        OpCode::CreateContainer => Reply::CreateContainer {
            path: text(words),
            stat: stat(words)?,
        },
        OpCode::CreateTtl => Reply::CreateTtl {
            path: text(words),
            stat: stat(words)?,
        },
        OpCode::Delete => Reply::Delete {},
        OpCode::Check => Reply::Check {},
        OpCode::SetData => Reply::SetData { stat: stat(words)? },
        OpCode::SetAcl => Reply::SetAcl { stat: stat(words)? },
        OpCode::Exists => Reply::Exists { stat: stat(words)? },
        OpCode::GetData if !words.0.starts_with(['"', 'n']) => return None,
        OpCode::GetData => Reply::GetData {
            data: words.data(),
            stat: stat(words)?,
        },
        OpCode::GetChildren => Reply::GetChildren {
            children: texts(words),
        },
        OpCode::GetChildren2 => Reply::GetChildren2 {
            children: texts(words),
            stat: stat(words)?,
        },
        OpCode::GetEphemerals => Reply::GetEphemerals {
            paths: texts(words),
        },
        OpCode::GetAcl => Reply::GetAcl {
            acl: Some(acl(words)?),
            stat: stat(words)?,
        },
        OpCode::GetAllChildrenNumber => Reply::GetAllChildrenNumber {
            number: words.next().parse().ok()?,
        },
        OpCode::Sync => Reply::Sync { path: text(words) },
        OpCode::AddWatch => Reply::AddWatch {
            error: i32::try_from(words.number("result")?).ok()?,
        },
        _ => return None,
    })
}

fn text(words: &mut Words<'_>) -> Option<String> {
    words.data().and_then(|data| String::from_utf8(data).ok())
}

/// Takes the text between two delimiters.
fn enclosed<'a>(words: &mut Words<'a>, (open, close): (char, char)) -> Option<&'a str> {
    let (inside, rest) = words.0.strip_prefix(open)?.split_once(close)?;
    words.0 = rest.trim_start();
    Some(inside)
}

fn texts(words: &mut Words<'_>) -> Option<Vec<Option<String>>> {
    let mut names = Words(enclosed(words, ('[', ']'))?);
    Some(std::iter::from_fn(|| names.0.starts_with('"').then(|| text(&mut names))).collect())
}

fn acl(words: &mut Words<'_>) -> Option<Vec<AclEntry<String>>> {
    enclosed(words, ('[', ']'))?
        .split(' ')
        .map(|entry| {
            let ((scheme, rest), (_, permissions)) =
                (entry.split_once(':')?, entry.rsplit_once(':')?);
            let id = rest.rsplit_once(':')?.0.to_owned();
            Some(AclEntry {
                permissions: names::bits(permissions),
                scheme: scheme.to_owned(),
                id,
            })
        })
        .collect()
}

/// Times and owners are not recorded, so these fields get arbitrary values.
fn stat(words: &mut Words<'_>) -> Option<Stat> {
    let mut stat = Stat::default();
    for (name, value) in enclosed(words, ('{', '}'))?
        .split(' ')
        .filter_map(|field| field.split_once('='))
    {
        let number: i64 = value.trim_start_matches("z+").parse().unwrap_or(1);
        let small = i32::try_from(number).ok()?;
        match name {
            "czxid" => stat.czxid = number,
            "mzxid" => stat.mzxid = number,
            "pzxid" => stat.pzxid = number,
            "version" => stat.version = small,
            "cversion" => stat.cversion = small,
            "aversion" => stat.aversion = small,
            "owner" => stat.ephemeral_owner = number,
            "length" => stat.data_length = small,
            "children" => stat.num_children = small,
            _ => {}
        }
    }
    Some(stat)
}
