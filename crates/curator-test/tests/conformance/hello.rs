//! The handshake: what a connection says of itself, and what it is granted.

use crate::{
    handshake::Handshake,
    jute::{Malformed, Reader},
    normal::Normal,
};

/// A session of which a client knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Session {
    pub(crate) id: i64,
    pub(crate) password: Vec<u8>,
}

/// How a connection presents itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Hello {
    pub(crate) protocol: i32,
    /// Relative to the scenario's start; 0 if nothing was seen.
    pub(crate) last_zxid: Option<i64>,
    pub(crate) timeout: i32,
    pub(crate) session: Option<Session>,
    /// Clients before 3.4 do not send it.
    pub(crate) read_only: Option<bool>,
}

impl Default for Hello {
    fn default() -> Self {
        Self { protocol: 0, last_zxid: None, timeout: 30_000, session: None, read_only: Some(false) }
    }
}

impl Hello {
    pub(crate) fn framed(&self, normal: &Normal) -> Vec<u8> {
        let Self { protocol, timeout, read_only, .. } = *self;
        let last_zxid = self.last_zxid.map_or(0, |zxid| normal.base + zxid);
        let handshake = Handshake { protocol, last_zxid, timeout, read_only, ..Handshake::default() };
        match self.session.clone() {
            None => handshake,
            Some(Session { id, password }) => Handshake { session_id: id, password, ..handshake },
        }
        .framed()
    }

    pub(crate) fn describe(&self, normal: &mut Normal) -> String {
        let mut text = format!("connect timeout={}", self.timeout);
        if let Some(Session { id, password }) = &self.session {
            text += &format!(" session={} password={}", normal.session(*id), normal.password(Some(password)));
        }
        if let Some(zxid) = self.last_zxid {
            text += &format!(" last_zxid=z+{zxid}");
        }
        if self.protocol != 0 {
            text += &format!(" protocol={}", self.protocol);
        }
        match self.read_only {
            None => text + " without the read-only flag",
            Some(true) => text + " read_only",
            Some(false) => text,
        }
    }
}

/// The answer to a handshake in words, and the session if one is granted.
pub(crate) fn granted(reader: &mut Reader<'_>, normal: &mut Normal) -> Result<(String, Option<Session>), Malformed> {
    let [protocol, timeout] = [reader.int()?, reader.int()?];
    let (id, password) = (reader.long()?, reader.buffer()?);
    let read_only = if reader.is_empty() { "none".to_owned() } else { reader.bool()?.to_string() };
    let text = format!(
        "protocol={protocol} timeout={timeout} session={} password={} read_only={read_only}",
        normal.session(id),
        normal.password(password),
    );
    let session = Session { id, password: password.unwrap_or_default().to_vec() };
    reader.is_empty().then_some((text, Some(session).filter(|s| s.id != 0))).ok_or(Malformed)
}
