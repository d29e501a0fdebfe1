//! ZooKeeper's serialization: big-endian numbers, and strings, buffers and vectors with a length prefix.

/// A length of -1 stands for null.
const NULL: i32 = -1;

/// The bytes to send.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Writer(pub(crate) Vec<u8>);

impl Writer {
    pub(crate) fn int(mut self, value: i32) -> Self {
        self.0.extend(value.to_be_bytes());
        self
    }

    pub(crate) fn long(mut self, value: i64) -> Self {
        self.0.extend(value.to_be_bytes());
        self
    }

    pub(crate) fn bool(mut self, value: bool) -> Self {
        self.0.push(u8::from(value));
        self
    }

    pub(crate) fn buffer(self, value: Option<&[u8]>) -> Self {
        let Some(bytes) = value else { return self.int(NULL) };
        self.count(bytes.len()).raw(bytes)
    }

    pub(crate) fn string(self, value: &str) -> Self {
        self.buffer(Some(value.as_bytes()))
    }

    pub(crate) fn strings(self, values: &[String]) -> Self {
        values.iter().fold(self.count(values.len()), |writer, value| writer.string(value))
    }

    /// The number of elements that follow.
    pub(crate) fn count(self, of: usize) -> Self {
        self.int(i32::try_from(of).expect("a length that fits into the protocol"))
    }

    pub(crate) fn raw(mut self, bytes: &[u8]) -> Self {
        self.0.extend(bytes);
        self
    }

    /// The bytes with a length prefix, as sent over the wire.
    pub(crate) fn framed(self) -> Vec<u8> {
        Self::default().buffer(Some(&self.0)).0
    }
}

/// The bytes do not have the expected format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Malformed;

/// The received bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reader<'a>(pub(crate) &'a [u8]);

impl<'a> Reader<'a> {
    pub(crate) fn int(&mut self) -> Result<i32, Malformed> {
        self.array().map(i32::from_be_bytes)
    }

    pub(crate) fn long(&mut self) -> Result<i64, Malformed> {
        self.array().map(i64::from_be_bytes)
    }

    pub(crate) fn bool(&mut self) -> Result<bool, Malformed> {
        match self.array()? {
            [0] => Ok(false),
            [1] => Ok(true),
            [_] => Err(Malformed),
        }
    }

    pub(crate) fn buffer(&mut self) -> Result<Option<&'a [u8]>, Malformed> {
        match self.int()? {
            NULL => Ok(None),
            length => self.take(usize::try_from(length).map_err(|_| Malformed)?).map(Some),
        }
    }

    /// Null and the empty string differ on the wire; `None` is null.
    pub(crate) fn string(&mut self) -> Result<Option<String>, Malformed> {
        let Some(bytes) = self.buffer()? else { return Ok(None) };
        String::from_utf8(bytes.to_vec()).map(Some).map_err(|_| Malformed)
    }

    /// A vector, each element read by `read`; `None` is null.
    pub(crate) fn vector<T>(
        &mut self,
        mut read: impl FnMut(&mut Self) -> Result<T, Malformed>,
    ) -> Result<Option<Vec<T>>, Malformed> {
        match self.int()? {
            NULL => Ok(None),
            count => (0..count).map(|_| read(self)).collect::<Result<_, _>>().map(Some),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], Malformed> {
        let (head, tail) = self.0.split_at_checked(length).ok_or(Malformed)?;
        self.0 = tail;
        Ok(head)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        self.take(N)?.try_into().map_err(|_| Malformed)
    }
}
