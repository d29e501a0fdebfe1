//! Serializes records.

use super::Stat;
use crate::embedded::acl::Acl;

/// The size of a frame's length field.
const LENGTH: usize = 4;

/// Appends values to a frame.
#[derive(Debug)]
pub(crate) struct Writer(Vec<u8>);

impl Writer {
    pub(crate) fn new() -> Self {
        Self(vec![0; LENGTH])
    }

    pub(crate) fn int(&mut self, value: i32) -> &mut Self {
        self.raw(&value.to_be_bytes())
    }

    pub(crate) fn long(&mut self, value: i64) -> &mut Self {
        self.raw(&value.to_be_bytes())
    }

    pub(crate) fn boolean(&mut self, value: bool) -> &mut Self {
        self.raw(&[u8::from(value)])
    }

    pub(crate) fn buffer(&mut self, value: Option<&[u8]>) -> &mut Self {
        match value {
            Some(bytes) => self.length(bytes.len()).raw(bytes),
            None => self.int(-1),
        }
    }

    pub(crate) fn string(&mut self, value: &str) -> &mut Self {
        self.buffer(Some(value.as_bytes()))
    }

    pub(crate) fn strings(&mut self, values: &[String]) -> &mut Self {
        values.iter().fold(self.length(values.len()), |writer, value| writer.string(value))
    }

    pub(crate) fn acl(&mut self, acl: &[Acl]) -> &mut Self {
        self.length(acl.len());
        for Acl { permissions, id } in acl {
            self.int(*permissions).string(&id.scheme).string(&id.id);
        }
        self
    }

    pub(crate) fn stat(&mut self, stat: &Stat) -> &mut Self {
        self.long(stat.czxid)
            .long(stat.mzxid)
            .long(stat.ctime)
            .long(stat.mtime)
            .int(stat.version)
            .int(stat.cversion)
            .int(stat.aversion)
            .long(stat.ephemeral_owner)
            .int(stat.data_length)
            .int(stat.num_children)
            .long(stat.pzxid)
    }

    /// The frame, including its length.
    pub(crate) fn into_frame(mut self) -> Vec<u8> {
        let length = int_of(self.0.len() - LENGTH);
        self.0[..LENGTH].copy_from_slice(&length.to_be_bytes());
        self.0
    }

    pub(crate) fn length(&mut self, length: usize) -> &mut Self {
        self.int(int_of(length))
    }

    fn raw(&mut self, bytes: &[u8]) -> &mut Self {
        self.0.extend_from_slice(bytes);
        self
    }
}

/// A length on the wire. None reaches the limit: the contents have arrived in frames of at most `jute.maxbuffer`.
fn int_of(length: usize) -> i32 {
    i32::try_from(length).unwrap_or(i32::MAX)
}
