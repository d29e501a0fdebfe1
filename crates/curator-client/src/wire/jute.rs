//! Reads and writes *jute*, ZooKeeper's serialization: big-endian numbers, and strings, buffers and lists prefixed with
//! their length, where -1 means null.

use crate::acl::{Acl, AuthId, Permission};
use crate::debug::debug_as_text;
use crate::operation::Stat;
use crate::path::ZPath;

/// Appends values to a frame.
#[derive(Default)]
pub(crate) struct Writer(Vec<u8>);

impl Writer {
    pub(super) fn int(&mut self, value: i32) -> &mut Self {
        self.raw(&value.to_be_bytes())
    }

    pub(super) fn long(&mut self, value: i64) -> &mut Self {
        self.raw(&value.to_be_bytes())
    }

    pub(super) fn boolean(&mut self, value: bool) -> &mut Self {
        self.raw(&[u8::from(value)])
    }

    pub(super) fn buffer(&mut self, value: &[u8]) -> &mut Self {
        self.length(value.len()).raw(value)
    }

    pub(super) fn string(&mut self, value: &str) -> &mut Self {
        self.buffer(value.as_bytes())
    }

    pub(super) fn path(&mut self, value: &ZPath) -> &mut Self {
        self.string(value.as_str())
    }

    pub(super) fn acl(&mut self, value: &[Acl]) -> &mut Self {
        value.iter().fold(self.length(value.len()), |writer, entry| {
            writer.int(bits_of(entry.permission())).string(entry.scheme()).string(entry.id())
        })
    }

    pub(super) fn into_frame(self) -> Vec<u8> {
        self.0
    }

    /// No length reaches the limit of the protocol: the client refuses larger requests before they are encoded.
    pub(super) fn length(&mut self, length: usize) -> &mut Self {
        self.int(i32::try_from(length).unwrap_or(i32::MAX))
    }

    fn raw(&mut self, bytes: &[u8]) -> &mut Self {
        self.0.extend_from_slice(bytes);
        self
    }
}

/// A frame that cannot be read.
#[derive(Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("expected {expected} at byte {at} of {length}")]
pub(crate) struct Malformed {
    /// What should be there.
    pub(crate) expected: &'static str,
    /// Where it should begin.
    pub(crate) at: usize,
    /// The length of the frame.
    pub(crate) length: usize,
}

debug_as_text!(Malformed);

/// Reads the values of a frame, one after another. `expected` names them for the error.
#[derive(Clone, Copy)]
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
    /// The length of the frame.
    length: usize,
}

/// The bytes of the shortest string, and of the shortest entry of an ACL.
const SHORTEST_STRING: usize = 4;
const SHORTEST_ENTRY: usize = 12;

impl<'a> Reader<'a> {
    pub(super) fn new(frame: &'a [u8]) -> Self {
        Self { rest: frame, length: frame.len() }
    }

    pub(super) fn int(&mut self, expected: &'static str) -> Result<i32, Malformed> {
        self.array(expected).map(i32::from_be_bytes)
    }

    pub(super) fn long(&mut self, expected: &'static str) -> Result<i64, Malformed> {
        self.array(expected).map(i64::from_be_bytes)
    }

    pub(super) fn boolean(&mut self, expected: &'static str) -> Result<bool, Malformed> {
        let malformed = self.malformed(expected);
        match self.array(expected)? {
            [0] => Ok(false),
            [1] => Ok(true),
            [_] => Err(malformed),
        }
    }

    /// Null is empty here: a node without data has either.
    pub(super) fn buffer(&mut self, expected: &'static str) -> Result<&'a [u8], Malformed> {
        self.optional_buffer(expected).map(Option::unwrap_or_default)
    }

    pub(super) fn string(&mut self, expected: &'static str) -> Result<&'a str, Malformed> {
        let malformed = self.malformed(expected);
        let bytes = self.optional_buffer(expected)?.ok_or(malformed)?;
        std::str::from_utf8(bytes).map_err(|_| malformed)
    }

    pub(super) fn path(&mut self, expected: &'static str) -> Result<ZPath, Malformed> {
        let malformed = self.malformed(expected);
        ZPath::on_server(self.string(expected)?).map_err(|_| malformed)
    }

    pub(super) fn strings(&mut self, expected: &'static str) -> Result<Vec<String>, Malformed> {
        self.list(expected, SHORTEST_STRING, |reader| reader.string(expected).map(str::to_owned))
    }

    /// Omits bits without a meaning in ZooKeeper.
    pub(super) fn acl(&mut self) -> Result<Vec<Acl>, Malformed> {
        self.list("the entries of an ACL", SHORTEST_ENTRY, |reader| {
            let permission = permission_of(reader.int("permissions")?);
            Ok(Acl::new(permission, AuthId::new(reader.string("a scheme")?, reader.string("an identity")?)))
        })
    }

    pub(super) fn stat(&mut self) -> Result<Stat, Malformed> {
        // In the order on the wire, which is another one than that of the type.
        Ok(Stat {
            czxid: self.long("czxid")?,
            mzxid: self.long("mzxid")?,
            ctime: self.long("ctime")?,
            mtime: self.long("mtime")?,
            version: self.int("version")?,
            cversion: self.int("cversion")?,
            aversion: self.int("aversion")?,
            ephemeral_owner: self.long("ephemeralOwner")?,
            data_length: self.int("dataLength")?,
            num_children: self.int("numChildren")?,
            pzxid: self.long("pzxid")?,
        })
    }

    pub(super) fn is_at_end(&self) -> bool {
        self.rest.is_empty()
    }

    pub(super) fn end(&self) -> Result<(), Malformed> {
        if self.is_at_end() { Ok(()) } else { Err(self.malformed("the end")) }
    }

    /// The error if `expected` is not at this position.
    pub(super) fn malformed(&self, expected: &'static str) -> Malformed {
        Malformed { expected, at: self.length - self.rest.len(), length: self.length }
    }

    fn optional_buffer(&mut self, expected: &'static str) -> Result<Option<&'a [u8]>, Malformed> {
        let malformed = self.malformed(expected);
        let Some(length) = self.optional_length(expected)? else { return Ok(None) };
        let (bytes, rest) = self.rest.split_at_checked(length).ok_or(malformed)?;
        self.rest = rest;
        Ok(Some(bytes))
    }

    /// Null is empty here. A list with more elements than the rest of the frame can hold, each of at least `shortest`
    /// bytes, is refused before it is allocated.
    fn list<T>(
        &mut self,
        expected: &'static str,
        shortest: usize,
        mut item: impl FnMut(&mut Self) -> Result<T, Malformed>,
    ) -> Result<Vec<T>, Malformed> {
        let malformed = self.malformed(expected);
        let length = self.optional_length(expected)?.unwrap_or_default();
        if length > self.rest.len() / shortest {
            return Err(malformed);
        }
        (0..length).map(|_| item(self)).collect()
    }

    fn optional_length(&mut self, expected: &'static str) -> Result<Option<usize>, Malformed> {
        let malformed = self.malformed(expected);
        match self.int(expected)? {
            -1 => Ok(None),
            length => usize::try_from(length).map(Some).map_err(|_| malformed),
        }
    }

    fn array<const N: usize>(&mut self, expected: &'static str) -> Result<[u8; N], Malformed> {
        let malformed = self.malformed(expected);
        let (bytes, rest) = self.rest.split_first_chunk().ok_or(malformed)?;
        self.rest = rest;
        Ok(*bytes)
    }
}

const PERMISSIONS: [(Permission, i32); 5] = [
    (Permission::READ, 1),
    (Permission::WRITE, 2),
    (Permission::CREATE, 4),
    (Permission::DELETE, 8),
    (Permission::ADMIN, 16),
];

fn bits_of(permission: Permission) -> i32 {
    PERMISSIONS.iter().filter(|(one, _)| permission.has(*one)).map(|(_, bit)| bit).sum()
}

fn permission_of(bits: i32) -> Permission {
    let set = PERMISSIONS.iter().filter(|(_, bit)| bits & bit != 0);
    set.fold(Permission::NONE, |all, (one, _)| all | *one)
}
