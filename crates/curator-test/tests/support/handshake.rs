//! The first frame of a connection.

/// Requests a session. By default a new one, as clients since 3.4 do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Handshake {
    pub(crate) protocol: i32,
    /// The last transaction that the client has seen.
    pub(crate) last_zxid: i64,
    /// In milliseconds.
    pub(crate) timeout: i32,
    /// 0 for a new session.
    pub(crate) session_id: i64,
    pub(crate) password: Vec<u8>,
    /// Clients before 3.4 do not send it.
    pub(crate) read_only: Option<bool>,
}

impl Default for Handshake {
    fn default() -> Self {
        Self {
            protocol: 0,
            last_zxid: 0,
            timeout: 20_000,
            session_id: 0,
            password: vec![0; 16],
            read_only: Some(false),
        }
    }
}

impl Handshake {
    /// The frame, as sent over the wire.
    pub(crate) fn framed(&self) -> Vec<u8> {
        let read_only = self.read_only.map(u8::from);
        let parts = [
            &self.protocol.to_be_bytes()[..],
            &self.last_zxid.to_be_bytes(),
            &self.timeout.to_be_bytes(),
            &self.session_id.to_be_bytes(),
            &framed(&self.password),
            read_only.as_slice(),
        ];
        framed(&parts.concat())
    }
}

/// Prepends the length.
pub(crate) fn framed(bytes: &[u8]) -> Vec<u8> {
    let length = u32::try_from(bytes.len()).expect("a length that fits into the protocol");
    [&length.to_be_bytes(), bytes].concat()
}
