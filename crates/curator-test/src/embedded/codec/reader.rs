//! Parses records.

use crate::embedded::acl::{Acl, Id};

/// Why a record cannot be parsed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Malformed {
    /// The record ends too early, or contains an impossible value or an operation that is not allowed.
    Invalid,
    /// A path is missing.
    NoPath,
    /// An access list is missing.
    NoAcl,
}

/// Reads values one after another. Anything left at the end is ignored, as on the real server.
#[derive(Debug)]
pub(crate) struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    pub(crate) fn int(&mut self) -> Result<i32, Malformed> {
        self.array().map(i32::from_be_bytes)
    }

    pub(crate) fn long(&mut self) -> Result<i64, Malformed> {
        self.array().map(i64::from_be_bytes)
    }

    pub(crate) fn boolean(&mut self) -> Result<bool, Malformed> {
        self.array().map(|[byte]| byte != 0)
    }

    /// A buffer, or null, which is different from an empty buffer.
    pub(crate) fn buffer(&mut self) -> Result<Option<Vec<u8>>, Malformed> {
        match self.int()? {
            -1 => Ok(None),
            length => {
                let length = usize::try_from(length).map_err(|_| Malformed::Invalid)?;
                let (bytes, rest) = self.0.split_at_checked(length).ok_or(Malformed::Invalid)?;
                self.0 = rest;
                Ok(Some(bytes.to_vec()))
            }
        }
    }

    pub(crate) fn optional_string(&mut self) -> Result<Option<String>, Malformed> {
        // As in Java, invalid UTF-8 becomes U+FFFD.
        Ok(self.buffer()?.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()))
    }

    pub(crate) fn string(&mut self) -> Result<String, Malformed> {
        self.optional_string()?.ok_or(Malformed::Invalid)
    }

    pub(crate) fn path(&mut self) -> Result<String, Malformed> {
        self.optional_string()?.ok_or(Malformed::NoPath)
    }

    pub(crate) fn strings(&mut self) -> Result<Vec<String>, Malformed> {
        self.list(Self::string)?.ok_or(Malformed::Invalid)
    }

    /// `None` for a null list, which is different from an empty one.
    pub(crate) fn acl(&mut self) -> Result<Option<Vec<Acl>>, Malformed> {
        self.list(|reader| {
            let permissions = reader.int()?;
            // A missing scheme or id is empty, and matches no client.
            let mut part = || reader.optional_string().map(Option::unwrap_or_default);
            Ok(Acl { permissions, id: Id { scheme: part()?, id: part()? } })
        })
    }

    /// Whether everything has been read.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// A list is allocated while it is read, not by its claimed length.
    fn list<T>(
        &mut self,
        mut item: impl FnMut(&mut Self) -> Result<T, Malformed>,
    ) -> Result<Option<Vec<T>>, Malformed> {
        match self.int()? {
            -1 => Ok(None),
            length => (0..length).map(|_| item(self)).collect::<Result<_, _>>().map(Some),
        }
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (bytes, rest) = self.0.split_first_chunk().ok_or(Malformed::Invalid)?;
        self.0 = rest;
        Ok(*bytes)
    }
}
