//! Parses records.

use crate::embedded::acl::{Acl, Id};

/// What is wrong with a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Malformed {
    /// It ends too early, or contains something impossible.
    Torn,
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

    /// Bytes, or null, which is not the same as an empty buffer.
    pub(crate) fn buffer(&mut self) -> Result<Option<Vec<u8>>, Malformed> {
        match self.int()? {
            -1 => Ok(None),
            length => {
                let length = usize::try_from(length).map_err(|_| Malformed::Torn)?;
                let (bytes, rest) = self.0.split_at_checked(length).ok_or(Malformed::Torn)?;
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
        self.optional_string()?.ok_or(Malformed::Torn)
    }

    pub(crate) fn path(&mut self) -> Result<String, Malformed> {
        self.optional_string()?.ok_or(Malformed::NoPath)
    }

    pub(crate) fn strings(&mut self) -> Result<Vec<String>, Malformed> {
        self.list(Self::string)?.ok_or(Malformed::Torn)
    }

    /// `None` for a null list, which is not the same as an empty one.
    pub(crate) fn acl(&mut self) -> Result<Option<Vec<Acl>>, Malformed> {
        self.list(|reader| {
            let permissions = reader.int()?;
            // What is missing is nobody's.
            let mut part = || reader.optional_string().map(Option::unwrap_or_default);
            Ok(Acl { permissions, id: Id { scheme: part()?, id: part()? } })
        })
    }

    /// Whether everything has been read.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Memory is not allocated by a list's claimed length before the list has been read.
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
        let (bytes, rest) = self.0.split_first_chunk().ok_or(Malformed::Torn)?;
        self.0 = rest;
        Ok(*bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_in_order() {
        let bytes = b"\0\0\0\x07\x01\0\0\0\x02/a\xff\xff\xff\xff\0\0\0\x01\0\0\0\x01x";
        let mut reader = Reader::new(bytes);
        assert_eq!(reader.int(), Ok(7));
        assert_eq!(reader.boolean(), Ok(true));
        assert_eq!(reader.string().as_deref(), Ok("/a"));
        assert_eq!(reader.buffer(), Ok(None));
        assert_eq!(reader.strings(), Ok(vec!["x".to_owned()]));
        assert!(reader.is_empty());
        assert_eq!(reader.int(), Err(Malformed::Torn));
    }

    #[test]
    fn lengths_are_not_believed() {
        for length in [i32::MAX, -2, i32::MIN, 5] {
            let bytes = [&length.to_be_bytes()[..], b"abc"].concat();
            assert_eq!(Reader::new(&bytes).buffer(), Err(Malformed::Torn), "{length}");
        }
        let many = i32::MAX.to_be_bytes();
        assert_eq!(Reader::new(&many).strings(), Err(Malformed::Torn));
        assert_eq!(Reader::new(&(-5_i32).to_be_bytes()).strings(), Ok(vec![]));
    }
}
