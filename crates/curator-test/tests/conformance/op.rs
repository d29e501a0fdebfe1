//! Requests: what they look like on the wire and in a transcript.

use std::fmt;

use crate::{jute::Writer, names};

pub(crate) const EPHEMERAL: i32 = 1;
pub(crate) const SEQUENTIAL: i32 = 2;
pub(crate) const EPHEMERAL_SEQUENTIAL: i32 = 3;
pub(crate) const CONTAINER: i32 = 4;
pub(crate) const TTL: i32 = 5;
pub(crate) const TTL_SEQUENTIAL: i32 = 6;

/// An entry of an access list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Acl {
    pub(crate) permissions: i32,
    pub(crate) scheme: String,
    pub(crate) id: String,
}

pub(crate) const READ: i32 = 1;
pub(crate) const WRITE: i32 = 2;
pub(crate) const CREATE: i32 = 4;
pub(crate) const DELETE: i32 = 8;
pub(crate) const ADMIN: i32 = 16;
pub(crate) const ALL: i32 = 31;

/// An entry of an access list.
pub(crate) fn acl(scheme: &str, id: &str, permissions: i32) -> Acl {
    Acl { permissions, scheme: scheme.to_owned(), id: id.to_owned() }
}

/// What everybody may do, `world:anyone:cdrwa`. It is left out in transcripts.
pub(crate) fn open() -> Vec<Acl> {
    vec![acl("world", "anyone", ALL)]
}

impl fmt::Display for Acl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.scheme, self.id, names::permissions(self.permissions))
    }
}

/// A request, except its xid.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Op {
    pub(crate) code: i32,
    pub(crate) body: Body,
}

/// What a request says besides its kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Body {
    Empty,
    Create {
        path: String,
        data: Option<Vec<u8>>,
        acl: Vec<Acl>,
        flags: i32,
        ttl: Option<i64>,
    },
    Path(String),
    Versioned {
        path: String,
        version: i32,
    },
    Watched {
        path: String,
        watch: bool,
    },
    SetData {
        path: String,
        data: Option<Vec<u8>>,
        version: i32,
    },
    SetAcl {
        path: String,
        acl: Vec<Acl>,
        version: i32,
    },
    Operations(Vec<Op>),
    Auth {
        scheme: String,
        auth: String,
    },
    /// The zxid is relative to the start of the scenario until it is sent.
    Watches {
        zxid: i64,
        paths: Vec<Vec<String>>,
    },
    Numbered {
        path: String,
        number: i32,
    },
    /// Bytes, and what to call them.
    Raw {
        bytes: Vec<u8>,
        text: String,
    },
}

impl Op {
    pub(crate) fn new(code: i32, body: Body) -> Self {
        Self { code, body }
    }

    /// The body as it goes over the wire. `base` is the zxid at the start of the scenario.
    pub(crate) fn encode(&self, writer: Writer, base: i64) -> Writer {
        match &self.body {
            Body::Empty => writer,
            Body::Create { path, data, acl, flags, ttl } => {
                let writer = encode_acl(writer.string(path).buffer(data.as_deref()), acl).int(*flags);
                ttl.iter().fold(writer, |writer, ttl| writer.long(*ttl))
            }
            Body::Path(path) => writer.string(path),
            Body::Versioned { path, version } => writer.string(path).int(*version),
            Body::Watched { path, watch } => writer.string(path).bool(*watch),
            Body::SetData { path, data, version } => writer.string(path).buffer(data.as_deref()).int(*version),
            Body::SetAcl { path, acl, version } => encode_acl(writer.string(path), acl).int(*version),
            Body::Operations(ops) => {
                let each = |writer: Writer, op: &Self| op.encode(writer.int(op.code).bool(false).int(-1), base);
                ops.iter().fold(writer, each).int(-1).bool(true).int(-1)
            }
            Body::Auth { scheme, auth } => writer.int(0).string(scheme).buffer(Some(auth.as_bytes())),
            Body::Watches { zxid, paths } => {
                paths.iter().fold(writer.long(base + zxid), |writer, paths| writer.strings(paths))
            }
            Body::Numbered { path, number } => writer.string(path).int(*number),
            Body::Raw { bytes, .. } => writer.raw(bytes),
        }
    }

    // What follows changes one part of a request.

    pub(crate) fn code(mut self, code: i32) -> Self {
        self.code = code;
        self
    }

    pub(crate) fn data(mut self, new: &str) -> Self {
        if let Body::Create { data, .. } | Body::SetData { data, .. } = &mut self.body {
            *data = Some(new.as_bytes().to_vec());
        }
        self
    }

    pub(crate) fn null(mut self) -> Self {
        if let Body::Create { data, .. } | Body::SetData { data, .. } = &mut self.body {
            *data = None;
        }
        self
    }

    pub(crate) fn flags(mut self, new: i32) -> Self {
        if let Body::Create { flags, .. } = &mut self.body {
            *flags = new;
        }
        self
    }

    pub(crate) fn acl(mut self, new: Vec<Acl>) -> Self {
        if let Body::Create { acl, .. } = &mut self.body {
            *acl = new;
        }
        self
    }

    pub(crate) fn version(mut self, new: i32) -> Self {
        if let Body::Versioned { version, .. } | Body::SetData { version, .. } | Body::SetAcl { version, .. } =
            &mut self.body
        {
            *version = new;
        }
        self
    }

    pub(crate) fn watch(mut self) -> Self {
        if let Body::Watched { watch, .. } = &mut self.body {
            *watch = true;
        }
        self
    }
}

fn encode_acl(writer: Writer, acl: &[Acl]) -> Writer {
    let count = i32::try_from(acl.len()).expect("a short list");
    acl.iter().fold(writer.int(count), |writer, acl| writer.int(acl.permissions).string(&acl.scheme).string(&acl.id))
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = names::operation(self.code);
        match &self.body {
            Body::Empty => write!(f, "{name}"),
            Body::Create { path, data, acl, flags, ttl } => {
                write!(f, "{name} {} {} {}", quote(path), bytes(data.as_deref()), names::mode(*flags))?;
                ttl.iter().try_for_each(|ttl| write!(f, " ttl={ttl}"))?;
                if *acl != open() { write!(f, " acl={}", list(acl)) } else { Ok(()) }
            }
            Body::Path(path) => write!(f, "{name} {}", quote(path)),
            Body::Versioned { path, version } => write!(f, "{name} {} version={version}", quote(path)),
            Body::Watched { path, watch } => {
                write!(f, "{name} {}{}", quote(path), if *watch { " watch" } else { "" })
            }
            Body::SetData { path, data, version } => {
                write!(f, "{name} {} {} version={version}", quote(path), bytes(data.as_deref()))
            }
            Body::SetAcl { path, acl, version } => {
                write!(f, "{name} {} acl={} version={version}", quote(path), list(acl))
            }
            Body::Operations(ops) => {
                write!(f, "{name}")?;
                ops.iter().enumerate().try_for_each(|(i, op)| write!(f, "\n       {i}: {op}"))
            }
            Body::Auth { scheme, auth } => write!(f, "{name} {scheme} {}", quote(auth)),
            Body::Watches { zxid, paths } => {
                let kinds = ["data", "exist", "child", "persistent", "persistent_recursive"];
                write!(f, "{name} since=z+{zxid}")?;
                kinds.iter().zip(paths).try_for_each(|(kind, paths)| {
                    if paths.is_empty() { Ok(()) } else { write!(f, " {kind}={paths:?}") }
                })
            }
            Body::Numbered { path, number } => {
                let number =
                    if self.code == 106 { names::add_watch_mode(*number) } else { names::watcher_type(*number) };
                write!(f, "{name} {} {number}", quote(path))
            }
            Body::Raw { text, .. } => write!(f, "{name} {text}"),
        }
    }
}

/// Text in quotes, its middle left out where it is long.
pub(crate) fn quote(text: &str) -> String {
    if text.len() <= 80 {
        return format!("{text:?}");
    }
    format!("{:?}…({} bytes)", text.chars().take(10).collect::<String>(), text.len())
}

/// Data, as text where it is text.
pub(crate) fn bytes(data: Option<&[u8]>) -> String {
    match data.map(std::str::from_utf8) {
        None => "null".to_owned(),
        Some(Ok(text)) => quote(text),
        Some(Err(_)) => format!("{data:?}"),
    }
}

/// A list in brackets.
pub(crate) fn list<T: fmt::Display>(items: &[T]) -> String {
    format!("[{}]", items.iter().map(ToString::to_string).collect::<Vec<_>>().join(" "))
}
