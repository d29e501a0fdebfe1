//! Encodes requests: from a transcript's notation to the wire format.

use curator_client::codec::{
    self, AclEntry, Control, NewNode, OpCode, PartHeader, SetWatches, Writer, write_end,
};

use super::{
    INDENT,
    names::{self, MODES, OPERATIONS, WATCH_MODES, WATCHES},
    words::Words,
};

type Write = codec::Write<String, Option<Vec<u8>>, Vec<AclEntry<String>>>;
type About = Control<String, String, Option<Vec<u8>>>;

/// A request, except its xid.
#[derive(Debug, Clone)]
pub struct Op {
    pub code: OpCode,
    /// In wire format.
    pub body: Vec<u8>,
    /// The operations of a `multi` or `multiRead`.
    pub parts: Vec<OpCode>,
}

impl Op {
    /// Parses a request in a transcript of a scenario that began with the zxid `base`.
    ///
    /// The request's name is followed by the words that `encode` expects, or by the bytes of the
    /// body in hexadecimal. The operations of a `multi` follow, one per line, indented and
    /// numbered.
    pub fn read(text: &str, base: i64) -> Self {
        let (first, rest) = text.split_once('\n').unwrap_or((text, ""));
        let mut words = Words(first);
        let code = OPERATIONS.number(words.next()).into();
        let parts = parts(rest, base);
        let body = words
            .bytes()
            .unwrap_or_else(|| encode(code, &mut words, &parts, base));
        Self {
            code,
            body,
            parts: parts.iter().map(|part| part.code).collect(),
        }
    }
}

/// Parses the operations of a `multi`. A line with more indentation continues the operation before
/// it.
fn parts(lines: &str, base: i64) -> Vec<Op> {
    let mut parts: Vec<String> = Vec::new();
    for line in lines.lines().filter_map(|line| line.strip_prefix(INDENT)) {
        match parts.last_mut() {
            Some(last) if line.starts_with(' ') => *last += &format!("\n{line}"),
            _ => parts.push(
                line.split_once(": ")
                    .expect("a number before each part")
                    .1
                    .to_owned(),
            ),
        }
    }
    parts.iter().map(|part| Op::read(part, base)).collect()
}

/// Encodes the body of a request. A create is `"/path" "data" mode`, then optionally `ttl=` and
/// `acl=`; without `acl=`, all clients have all permissions. In other requests, the words after the
/// path are `watch`, data, a version, or a name such as `persistent`.
fn encode(op: OpCode, words: &mut Words<'_>, parts: &[Op], base: i64) -> Vec<u8> {
    let mut writer = Writer::default();
    match op {
        OpCode::Create | OpCode::Create2 | OpCode::CreateContainer | OpCode::CreateTtl => {
            let path = words.text();
            let data = words.data();
            let flags = MODES.number(words.next());
            let ttl = words.number("ttl");
            let acl = acl(words.value("acl").unwrap_or("[world:anyone:cdrwa]"));
            writer.write(&NewNode {
                path,
                data,
                acl,
                flags,
            });
            ttl.iter()
                .fold(&mut writer, |writer, ttl| writer.write(ttl))
        }
        OpCode::Delete | OpCode::Check => writer.write(&(words.text(), version(words))),
        OpCode::SetData => writer.write(&Write::SetData {
            path: words.text(),
            data: words.data(),
            version: version(words),
        }),
        OpCode::SetAcl => {
            let path = words.text();
            let acl = acl(words.value("acl").expect("a list"));
            writer.write(&Write::SetAcl {
                path,
                acl,
                version: version(words),
            })
        }
        OpCode::Exists | OpCode::GetData | OpCode::GetChildren | OpCode::GetChildren2 => {
            writer.write(&(words.text(), words.next() == "watch"))
        }
        OpCode::GetAcl | OpCode::GetAllChildrenNumber | OpCode::GetEphemerals => {
            writer.write(&words.text())
        }
        OpCode::Sync | OpCode::DeleteContainer => writer.write(&words.text()),
        OpCode::CheckWatches | OpCode::RemoveWatches => {
            writer.write(&(words.text(), WATCHES.number(words.next())))
        }
        OpCode::AddWatch => writer.write(&(words.text(), WATCH_MODES.number(words.next()))),
        OpCode::Auth => writer.write(&About::Auth {
            kind: 0,
            scheme: words.next().to_owned(),
            auth: words.data(),
        }),
        // `since=z+3`, and a list for each kind of watch.
        OpCode::SetWatches | OpCode::SetWatches2 => {
            let since = words.zxid("since").expect("a zxid");
            let [data, exists, children, persistent, recursive] = [
                "data",
                "exist",
                "child",
                "persistent",
                "persistent_recursive",
            ]
            .map(|kind| texts(words.value(kind).unwrap_or_default()));
            let watches = SetWatches {
                relative_zxid: base + since,
                data,
                exists,
                children,
            };
            match op {
                OpCode::SetWatches => writer.write(&About::SetWatches { watches }),
                _ => writer.write(&About::SetWatches2 {
                    watches,
                    persistent,
                    recursive,
                }),
            }
        }
        OpCode::Multi | OpCode::MultiRead => {
            for part in parts {
                writer
                    .write(&PartHeader {
                        op: part.code,
                        is_end: false,
                        error: -1,
                    })
                    .raw(&part.body);
            }
            write_end(&mut writer);
            &mut writer
        }
        // The other operations have no body.
        _ => &mut writer,
    };
    writer.into_frame()
}

fn version(words: &mut Words<'_>) -> i32 {
    words
        .number("version")
        .and_then(|version| version.try_into().ok())
        .expect("a version")
}

/// A list such as `[world:anyone:cdrwa ip:127.0.0.1:r]`.
fn acl(list: &str) -> Vec<AclEntry<String>> {
    list.trim_matches(['[', ']'])
        .split_whitespace()
        .map(|entry| {
            let (scheme, rest) = entry.split_once(':').expect("a scheme");
            let (id, permissions) = rest.rsplit_once(':').expect("permissions");
            AclEntry {
                permissions: names::bits(permissions),
                scheme: scheme.to_owned(),
                id: id.to_owned(),
            }
        })
        .collect()
}

/// A list such as `["/a", "/b"]`.
fn texts(list: &str) -> Vec<String> {
    let mut words = Words(list.trim_start_matches('['));
    std::iter::from_fn(|| {
        let text = words.0.starts_with('"').then(|| words.text())?;
        words.0 = words.0.trim_start_matches([',', ' ']);
        Some(text)
    })
    .collect()
}
