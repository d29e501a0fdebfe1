//! The first frame in each direction.

use super::{Malformed, Reader, Writer};

/// Requests a new session, or resumes one.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ConnectRequest {
    pub(crate) last_zxid_seen: i64,
    /// In milliseconds.
    pub(crate) timeout: i32,
    /// 0 for a new session.
    pub(crate) session_id: i64,
    pub(crate) password: Vec<u8>,
    /// `None` from clients that are older than this flag. Their response must omit it.
    pub(crate) read_only: Option<bool>,
}

/// The granted session, or a refusal.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ConnectResponse {
    pub(crate) timeout: i32,
    /// 0 if the requested session has ended.
    pub(crate) session_id: i64,
    pub(crate) password: [u8; 16],
    /// Whether the client knows the flag.
    pub(crate) read_only_known: bool,
}

impl ConnectRequest {
    pub(crate) fn parse(payload: &[u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(payload);
        let _protocol_version = reader.int()?;
        let (last_zxid_seen, timeout, session_id) = (reader.long()?, reader.int()?, reader.long()?);
        let password = reader.buffer()?.unwrap_or_default();
        let read_only = if reader.is_empty() { None } else { Some(reader.boolean()?) };
        Ok(Self { last_zxid_seen, timeout, session_id, password, read_only })
    }
}

impl ConnectRequest {
    pub(crate) fn frame(&self) -> Vec<u8> {
        let mut writer = Writer::new();
        writer.int(0).long(self.last_zxid_seen).int(self.timeout).long(self.session_id).buffer(Some(&self.password));
        if let Some(read_only) = self.read_only {
            writer.boolean(read_only);
        }
        writer.into_frame()
    }
}

impl ConnectResponse {
    /// The response for a session that has ended, or that the client may not use.
    pub(crate) fn refusal(read_only_known: bool) -> Self {
        Self { timeout: 0, session_id: 0, password: [0; 16], read_only_known }
    }

    pub(crate) fn frame(&self) -> Vec<u8> {
        let mut writer = Writer::new();
        writer.int(0).int(self.timeout).long(self.session_id).buffer(Some(&self.password));
        if self.read_only_known {
            writer.boolean(false);
        }
        writer.into_frame()
    }
}
