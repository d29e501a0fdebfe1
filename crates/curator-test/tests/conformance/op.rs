//! Encodes requests: from a transcript's notation to the wire format.

use crate::{
    jute::Writer,
    names::{self, MODES, OPERATIONS, WATCH_MODES, WATCHES},
    words::Words,
};

/// A request, except its xid.
#[derive(Debug, Clone)]
pub(crate) struct Op {
    pub(crate) code: i32,
    /// In wire format.
    pub(crate) body: Vec<u8>,
    /// The kinds of its parts: the operations of a `multi` or `multiRead`.
    pub(crate) parts: Vec<i32>,
}

impl Op {
    /// Parses a request in a transcript of a scenario that began with the zxid `base`.
    ///
    /// Its name is followed by the words that [`encode`] expects, or the bytes of its body, in hexadecimal digits. The
    /// parts of a `multi` follow, one per line, indented and with their numbers.
    pub(crate) fn read(text: &str, base: i64) -> Self {
        let (first, rest) = text.split_once('\n').unwrap_or((text, ""));
        let mut words = Words(first);
        let code = OPERATIONS.number(words.next());
        let parts = parts(rest, base);
        let body = words.bytes().unwrap_or_else(|| encode(code, &mut words, &parts, base).0);
        Self { code, body, parts: parts.iter().map(|part| part.code).collect() }
    }
}

/// The indentation of parts.
pub(crate) const INDENT: &str = "       ";

/// Parses the parts of a request. Lines with more indentation belong to the part before them.
fn parts(lines: &str, base: i64) -> Vec<Op> {
    let mut parts: Vec<String> = Vec::new();
    for line in lines.lines().filter_map(|line| line.strip_prefix(INDENT)) {
        match parts.last_mut() {
            Some(last) if line.starts_with(' ') => *last += &format!("\n{line}"),
            _ => parts.push(line.split_once(": ").expect("a number before each part").1.to_owned()),
        }
    }
    parts.iter().map(|part| Op::read(part, base)).collect()
}

fn encode(code: i32, words: &mut Words<'_>, parts: &[Op], base: i64) -> Writer {
    let writer = Writer::default();
    match code {
        // `"/path" "data" mode`, optionally `ttl=` and `acl=`; open to all without an ACL.
        1 | 15 | 19 | 21 => {
            let writer = writer.string(&words.text()).buffer(words.data().as_deref());
            let flags = MODES.number(words.next());
            let ttl = words.number("ttl");
            let writer = acl(writer, words.value("acl").unwrap_or("[world:anyone:cdrwa]")).int(flags);
            ttl.iter().fold(writer, |writer, ttl| writer.long(*ttl))
        }
        2 | 13 => writer.string(&words.text()).int(version(words)),
        3 | 4 | 8 | 12 => writer.string(&words.text()).bool(words.next() == "watch"),
        5 => writer.string(&words.text()).buffer(words.data().as_deref()).int(version(words)),
        7 => {
            let writer = writer.string(&words.text());
            acl(writer, words.value("acl").expect("a list")).int(version(words))
        }
        6 | 9 | 20 | 103 | 104 => writer.string(&words.text()),
        14 | 22 => {
            let part = |writer: Writer, part: &Op| writer.int(part.code).bool(false).int(-1).raw(&part.body);
            parts.iter().fold(writer, part).int(-1).bool(true).int(-1)
        }
        17 | 18 => writer.string(&words.text()).int(WATCHES.number(words.next())),
        106 => writer.string(&words.text()).int(WATCH_MODES.number(words.next())),
        100 => writer.int(0).string(words.next()).buffer(words.data().as_deref()),
        // `since=z+3`, and a list for each kind of watch.
        101 | 105 => {
            let kinds = ["data", "exist", "child", "persistent", "persistent_recursive"];
            let since = words.zxid("since").expect("a zxid");
            let mut list = |writer: Writer, kind: &&str| writer.strings(&texts(words.value(kind).unwrap_or_default()));
            kinds[..if code == 101 { 3 } else { 5 }].iter().fold(writer.long(base + since), &mut list)
        }
        // The other operations have no body.
        _ => writer,
    }
}

fn version(words: &mut Words<'_>) -> i32 {
    words.number("version").and_then(|version| version.try_into().ok()).expect("a version")
}

/// A list such as `[world:anyone:cdrwa ip:127.0.0.1:r]`.
fn acl(writer: Writer, list: &str) -> Writer {
    let entries: Vec<&str> = list.trim_matches(['[', ']']).split_whitespace().collect();
    entries.iter().fold(writer.count(entries.len()), |writer, entry| {
        let (scheme, rest) = entry.split_once(':').expect("a scheme");
        let (id, permissions) = rest.rsplit_once(':').expect("permissions");
        writer.int(names::bits(permissions)).string(scheme).string(id)
    })
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
