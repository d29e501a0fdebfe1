//! Decodes replies and events into the notation of transcripts.

use crate::{
    jute::{Malformed, Reader},
    names::{self, EVENTS, OPERATIONS},
    normal::Normal,
    op::{INDENT, Op},
};

/// The body of a reply to `op`.
pub(crate) fn body(op: &Op, error: i32, body: &[u8], normal: &mut Normal) -> String {
    let mut reader = Reader(body);
    if error != 0 && reader.is_empty() {
        return String::new();
    }
    match decode(op.code, &op.parts, &mut reader, normal) {
        Ok(text) if reader.is_empty() => text,
        Ok(text) => format!("{text} and then {:?}", reader.0),
        Err(Malformed) => format!("malformed {body:?}"),
    }
}

fn decode(code: i32, parts: &[i32], reader: &mut Reader<'_>, normal: &mut Normal) -> Result<String, Malformed> {
    Ok(match code {
        // `create` and `sync`.
        1 | 9 => path(reader)?,
        15 | 19 | 21 => format!("{} {}", path(reader)?, stat(reader, normal)?),
        3 | 5 | 7 => stat(reader, normal)?,
        4 => format!("{} {}", bytes(reader.buffer()?), stat(reader, normal)?),
        6 => format!("{} {}", acl(reader)?, stat(reader, normal)?),
        // The order of a set is the server's choice.
        8 | 103 => sorted(reader)?,
        12 => format!("{} {}", sorted(reader)?, stat(reader, normal)?),
        14 | 22 => results(parts, reader, normal)?,
        104 => reader.int()?.to_string(),
        // An error code that repeats that of the header.
        106 => format!("result={}", reader.int()?),
        107 => {
            let id = |reader: &mut Reader<'_>| Ok(format!("{}:{}", path(reader)?, path(reader)?));
            // A set, as above.
            reader.vector(id)?.map_or("null".to_owned(), |mut ids: Vec<String>| {
                ids.sort();
                list(&ids)
            })
        }
        _ => String::new(),
    })
}

fn path(reader: &mut Reader<'_>) -> Result<String, Malformed> {
    Ok(reader.string()?.map_or("null".to_owned(), |path| quote(&path)))
}

fn sorted(reader: &mut Reader<'_>) -> Result<String, Malformed> {
    let names = reader.vector(path)?;
    Ok(names.map_or("null".to_owned(), |mut names| {
        names.sort();
        list(&names)
    }))
}

fn acl(reader: &mut Reader<'_>) -> Result<String, Malformed> {
    let entry = |reader: &mut Reader<'_>| {
        let permissions = reader.int()?;
        let mut text = || reader.string().map(Option::unwrap_or_default);
        Ok(format!("{}:{}:{}", text()?, text()?, names::permissions(permissions)))
    };
    Ok(reader.vector(entry)?.map_or("null".to_owned(), |acl| list(&acl)))
}

/// All fields of a stat.
fn stat(reader: &mut Reader<'_>, normal: &mut Normal) -> Result<String, Malformed> {
    let [czxid, mzxid] = [reader.long()?, reader.long()?];
    let [ctime, mtime] = [reader.long()?, reader.long()?];
    let [version, cversion, aversion] = [reader.int()?, reader.int()?, reader.int()?];
    let owner = reader.long()?;
    let [length, children] = [reader.int()?, reader.int()?];
    let pzxid = reader.long()?;
    Ok(format!(
        "{{czxid={} mzxid={} pzxid={} {} version={version} cversion={cversion} aversion={aversion} owner={} \
         length={length} children={children}}}",
        normal.zxid(czxid),
        normal.zxid(mzxid),
        normal.zxid(pzxid),
        normal.times(ctime, mtime, version),
        normal.owner(owner),
    ))
}

/// The results of a `multi` or `multiRead`, one per line.
fn results(parts: &[i32], reader: &mut Reader<'_>, normal: &mut Normal) -> Result<String, Malformed> {
    let mut text = String::new();
    for index in 0.. {
        let [kind, done, error] = [reader.int()?, i32::from(reader.bool()?), reader.int()?];
        if done == 1 {
            let end = if (kind, error) == (-1, -1) { String::new() } else { format!(" end {kind} {error}") };
            return Ok(text + &end);
        }
        let result = if kind == -1 {
            format!("{} header={error}", names::error(reader.int()?))
        } else {
            // A result contains the kind of its operation, which is recorded if it differs from the requested kind.
            let name = if parts.get(index) == Some(&kind) { "" } else { &format!("as {} ", OPERATIONS.name(kind)) };
            let error = if error == 0 { String::new() } else { format!("header={error} ") };
            format!("{name}{error}{}", decode(kind, &[], reader, normal)?)
        };
        text += format!("\n{INDENT}{index}: {result}").trim_end();
    }
    Ok(text)
}

/// The content of a notification.
pub(crate) fn event(body: &[u8]) -> String {
    let mut reader = Reader(body);
    let mut decode = || {
        let [kind, state] = [reader.int()?, reader.int()?];
        // 3 is SyncConnected, the usual state.
        let state = if state == 3 { String::new() } else { format!(" state={state}") };
        Ok::<_, Malformed>(format!("{} {}{state}", EVENTS.name(kind), path(&mut reader)?))
    };
    decode().unwrap_or_else(|_| format!("malformed {body:?}"))
}

/// Text in quotes; the middle of a long text is left out.
fn quote(text: &str) -> String {
    if text.len() <= 80 {
        return format!("{text:?}");
    }
    format!("{:?}…({} bytes)", text.chars().take(10).collect::<String>(), text.len())
}

/// Data, as text where it is text.
fn bytes(data: Option<&[u8]>) -> String {
    match data.map(std::str::from_utf8) {
        None => "null".to_owned(),
        Some(Ok(text)) => quote(text),
        Some(Err(_)) => format!("{data:?}"),
    }
}

/// A list in brackets.
fn list(items: &[String]) -> String {
    format!("[{}]", items.join(" "))
}
