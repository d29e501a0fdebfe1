//! Decodes replies and events into the notation of transcripts.

use curator_client::{
    Stat,
    codec::{AclEntry, Event, Malformed, OpCode, PartHeader, Reader, Reply},
};

use test_support::transcripts::{
    INDENT,
    names::{self, EVENTS, OPERATIONS},
    op::Op,
};

use crate::transcript::Normal;

/// Decodes the body of a reply to `op`.
pub(crate) fn body(op: &Op, error: i32, body: &[u8], normal: &mut Normal) -> String {
    let mut reader = Reader::new(body);
    if error != 0 && reader.is_at_end() {
        return String::new();
    }
    match decode(op.code, &op.parts, &mut reader, normal) {
        Ok(text) if reader.is_at_end() => text,
        Ok(text) => format!("{text} and then {:?}", reader.rest()),
        Err(_) => format!("malformed {body:?}"),
    }
}

fn decode(
    op: OpCode,
    parts: &[OpCode],
    reader: &mut Reader<'_>,
    normal: &mut Normal,
) -> Result<String, Malformed> {
    if matches!(op, OpCode::Multi | OpCode::MultiRead) {
        return results(parts, reader, normal);
    }
    // The body of a SASL reply is not decoded, so it is shown as bytes.
    let reply = if op == OpCode::Sasl {
        None
    } else {
        Reply::decode(op, reader)?
    };
    Ok(reply.map(|reply| text(reply, normal)).unwrap_or_default())
}

/// A decoded reply as text. Null differs from empty.
fn text(
    reply: Reply<Option<String>, Option<&[u8]>, AclEntry<Option<String>>>,
    normal: &mut Normal,
) -> String {
    match reply {
        Reply::Create { path } | Reply::Sync { path } => quoted(path),
        Reply::Create2 { path, stat }
        | Reply::CreateContainer { path, stat }
        | Reply::CreateTtl { path, stat } => {
            format!("{} {}", quoted(path), fields(&stat, normal))
        }
        Reply::Exists { stat } | Reply::SetData { stat } | Reply::SetAcl { stat } => {
            fields(&stat, normal)
        }
        Reply::GetData { data, stat } => format!("{} {}", bytes(data), fields(&stat, normal)),
        Reply::GetAcl { acl, stat } => {
            let entry = |AclEntry {
                             permissions,
                             scheme,
                             id,
                         }| {
                let [scheme, id] = [scheme, id].map(Option::unwrap_or_default);
                format!("{scheme}:{id}:{}", names::permissions(permissions))
            };
            format!("{} {}", list(acl, entry), fields(&stat, normal))
        }
        Reply::GetChildren { children } | Reply::GetEphemerals { paths: children } => {
            sorted(children, quoted)
        }
        Reply::GetChildren2 { children, stat } => {
            format!("{} {}", sorted(children, quoted), fields(&stat, normal))
        }
        Reply::GetAllChildrenNumber { number } => number.to_string(),
        Reply::AddWatch { error } => format!("result={error}"),
        Reply::WhoAmI { identities } => sorted(identities, |identity| {
            format!("{}:{}", quoted(identity.scheme), quoted(identity.user))
        }),
        Reply::Error { code } => names::error(code),
        Reply::Delete {} | Reply::Check {} | Reply::Sasl { .. } => String::new(),
    }
}

fn quoted(path: Option<String>) -> String {
    path.map_or("null".to_owned(), |path| quote(&path))
}

/// A list in brackets, sorted because the server chooses the order of a set.
fn sorted<T>(items: Option<Vec<T>>, item: impl Fn(T) -> String) -> String {
    let mut texts: Option<Vec<_>> = items.map(|items| items.into_iter().map(item).collect());
    texts.iter_mut().for_each(|texts| texts.sort());
    list(texts, |text| text)
}

/// A list in brackets.
fn list<T>(items: Option<Vec<T>>, item: impl Fn(T) -> String) -> String {
    let text = |items: Vec<T>| {
        format!(
            "[{}]",
            items.into_iter().map(item).collect::<Vec<_>>().join(" ")
        )
    };
    items.map_or("null".to_owned(), text)
}

/// All fields of a stat.
fn fields(stat: &Stat, normal: &mut Normal) -> String {
    let Stat {
        version,
        cversion,
        aversion,
        data_length,
        num_children,
        ..
    } = stat;
    format!(
        "{{czxid={} mzxid={} pzxid={} {} version={version} cversion={cversion} aversion={aversion} owner={} \
         length={data_length} children={num_children}}}",
        normal.zxid(stat.czxid),
        normal.zxid(stat.mzxid),
        normal.zxid(stat.pzxid),
        normal.times(stat.ctime, stat.mtime, *version),
        normal.owner(stat.ephemeral_owner),
    )
}

/// The results of a `multi` or `multiRead`, one per line.
fn results(
    parts: &[OpCode],
    reader: &mut Reader<'_>,
    normal: &mut Normal,
) -> Result<String, Malformed> {
    let mut text = String::new();
    for index in 0.. {
        let PartHeader { op, is_end, error } = reader.read("the header of a result")?;
        if is_end {
            let is_usual = (op, error) == (OpCode::Error, -1);
            return Ok(if is_usual {
                text
            } else {
                format!("{text} end {} {error}", op.number())
            });
        }
        let decoded = decode(op, &[], reader, normal)?;
        let result = if op == OpCode::Error {
            format!("{decoded} header={error}")
        } else {
            // A result contains the kind of its operation, which is recorded if it differs from the
            // requested kind.
            let is_requested = parts.get(index) == Some(&op);
            let name = if is_requested {
                ""
            } else {
                &format!("as {} ", OPERATIONS.name(op.number()))
            };
            let error = if error == 0 {
                String::new()
            } else {
                format!("header={error} ")
            };
            format!("{name}{error}{decoded}")
        };
        text += format!("\n{INDENT}{index}: {result}").trim_end();
    }
    Ok(text)
}

/// The content of a notification.
pub(crate) fn event(body: &[u8]) -> String {
    match Reader::new(body).read("an event") {
        Ok(Event { kind, state, path }) => {
            // 3 is SyncConnected, the usual state.
            let state = if state == 3 {
                String::new()
            } else {
                format!(" state={state}")
            };
            format!("{} {}{state}", EVENTS.name(kind), quoted(path))
        }
        Err(_) => format!("malformed {body:?}"),
    }
}

/// Text in quotes; the middle of a long text is left out.
fn quote(text: &str) -> String {
    if text.len() <= 80 {
        return format!("{text:?}");
    }
    format!(
        "{:?}…({} bytes)",
        text.chars().take(10).collect::<String>(),
        text.len()
    )
}

/// Data, as text if it is UTF-8.
fn bytes(data: Option<&[u8]>) -> String {
    match data.map(std::str::from_utf8) {
        None => "null".to_owned(),
        Some(Ok(text)) => quote(text),
        Some(Err(_)) => format!("{data:?}"),
    }
}
