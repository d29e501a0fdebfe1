//! Reads and writes *jute*, ZooKeeper's serialization: big-endian numbers, and strings, buffers and
//! lists prefixed with their length, where -1 means null.

use crate::text::debug_as_text;

/// A value that can be written.
pub trait Encode {
    /// Appends the value.
    fn encode(&self, writer: &mut Writer);
}

/// A value that can be read.
pub trait Decode<'a>: Sized {
    /// The smallest size of such a value, in bytes.
    const SHORTEST: usize;

    /// Reads the value. `expected` names it for the error; a record names its fields.
    ///
    /// # Errors
    ///
    /// [`Malformed`] if the bytes are not such a value.
    fn decode(reader: &mut Reader<'a>, expected: &'static str) -> Result<Self, Malformed>;
}

/// The size of the length before a frame in a stream.
const PREFIX: usize = 4;

/// Appends values to a frame.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Writer {
    bytes: Vec<u8>,
    /// The number of bytes before the frame: 0, or 4 that are kept for its length.
    start: usize,
}

impl Writer {
    /// A writer that keeps room for the length of the frame, so that
    /// [`into_framed`](Self::into_framed) moves no bytes.
    #[must_use]
    pub fn for_stream() -> Self {
        Self {
            bytes: vec![0; PREFIX],
            start: PREFIX,
        }
    }

    /// Appends a value.
    pub fn write(&mut self, value: &(impl Encode + ?Sized)) -> &mut Self {
        value.encode(self);
        self
    }

    /// Appends an `int`.
    pub fn int(&mut self, value: i32) -> &mut Self {
        self.raw(&value.to_be_bytes())
    }

    /// Appends a `long`.
    pub fn long(&mut self, value: i64) -> &mut Self {
        self.raw(&value.to_be_bytes())
    }

    /// Appends a `boolean`.
    pub fn boolean(&mut self, value: bool) -> &mut Self {
        self.raw(&[u8::from(value)])
    }

    /// Appends bytes with their length.
    pub fn buffer(&mut self, value: &[u8]) -> &mut Self {
        self.length(value.len()).raw(value)
    }

    /// Appends text with its length.
    pub fn string(&mut self, value: &str) -> &mut Self {
        self.buffer(value.as_bytes())
    }

    /// Appends the number of bytes or elements that follow.
    pub fn length(&mut self, length: usize) -> &mut Self {
        self.int(to_int(length))
    }

    /// Appends bytes as they are.
    pub fn raw(&mut self, bytes: &[u8]) -> &mut Self {
        self.bytes.extend_from_slice(bytes);
        self
    }

    /// The frame so far, without its length.
    #[must_use]
    pub fn frame(&self) -> &[u8] {
        self.bytes.get(self.start..).unwrap_or_default()
    }

    /// The frame, without its length.
    #[must_use]
    pub fn into_frame(mut self) -> Vec<u8> {
        self.bytes.drain(..self.start);
        self.bytes
    }

    /// The frame with its length, as in a stream. Moves the frame, except from a writer [for a
    /// stream](Self::for_stream).
    #[must_use]
    pub fn into_framed(mut self) -> Vec<u8> {
        let length = to_int(self.frame().len()).to_be_bytes();
        self.bytes.splice(..self.start, length);
        self.bytes
    }
}

/// Appends a frame with its length to a stream.
pub fn append(frame: &[u8], stream: &mut Vec<u8>) {
    stream.reserve(PREFIX + frame.len());
    stream.extend_from_slice(&to_int(frame.len()).to_be_bytes());
    stream.extend_from_slice(frame);
}

/// A frame with its length.
#[must_use]
pub fn framed(frame: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    append(frame, &mut bytes);
    bytes
}

/// No length reaches the limit of the protocol: both sides refuse larger requests before they are
/// encoded.
fn to_int(length: usize) -> i32 {
    i32::try_from(length).unwrap_or(i32::MAX)
}

/// A frame that cannot be read.
#[derive(Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("expected {expected} at byte {at} of {length}")]
pub struct Malformed {
    /// The expected value.
    pub expected: &'static str,
    /// The byte where this value should begin.
    pub at: usize,
    /// The length of the frame.
    pub length: usize,
    /// Whether there is null in place of the value.
    pub is_null: bool,
}

debug_as_text!(Malformed);

/// Reads the values of a frame, one after another.
#[derive(Debug, Clone, Copy)]
pub struct Reader<'a> {
    rest: &'a [u8],
    /// The length of the frame.
    length: usize,
    is_lenient: bool,
}

impl<'a> Reader<'a> {
    /// Accepts only what ZooKeeper writes.
    #[must_use]
    pub fn new(frame: &'a [u8]) -> Self {
        Self {
            rest: frame,
            length: frame.len(),
            is_lenient: false,
        }
    }

    /// Accepts what ZooKeeper's servers accept: any byte but 0 is true, invalid UTF-8 becomes
    /// U+FFFD, and a negative number of elements is 0.
    #[must_use]
    pub fn lenient(frame: &'a [u8]) -> Self {
        Self {
            is_lenient: true,
            ..Self::new(frame)
        }
    }

    /// Reads a value. `expected` names it for the error.
    ///
    /// # Errors
    ///
    /// [`Malformed`] if the bytes are not such a value.
    pub fn read<T: Decode<'a>>(&mut self, expected: &'static str) -> Result<T, Malformed> {
        T::decode(self, expected)
    }

    /// Whether this reader is [lenient](Self::lenient).
    #[must_use]
    pub fn is_lenient(&self) -> bool {
        self.is_lenient
    }

    /// The bytes that are not read yet.
    #[must_use]
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Whether everything is read.
    #[must_use]
    pub fn is_at_end(&self) -> bool {
        self.rest.is_empty()
    }

    /// Checks that everything is read.
    ///
    /// # Errors
    ///
    /// [`Malformed`] if bytes are left.
    pub fn end(&self) -> Result<(), Malformed> {
        if self.is_at_end() {
            Ok(())
        } else {
            Err(self.malformed("the end"))
        }
    }

    /// The error if `expected` is not at this position.
    #[must_use]
    pub fn malformed(&self, expected: &'static str) -> Malformed {
        Malformed {
            expected,
            at: self.length - self.rest.len(),
            length: self.length,
            is_null: false,
        }
    }

    /// The next `length` bytes, or the error `malformed` if there are fewer.
    pub(super) fn bytes(
        &mut self,
        length: i32,
        malformed: Malformed,
    ) -> Result<&'a [u8], Malformed> {
        let length = usize::try_from(length).map_err(|_| malformed)?;
        let (bytes, rest) = self.rest.split_at_checked(length).ok_or(malformed)?;
        self.rest = rest;
        Ok(bytes)
    }

    /// The next `length` elements. A length that does not fit into the rest of the frame is refused
    /// before anything is allocated.
    pub(super) fn list<T: Decode<'a>>(
        &mut self,
        length: i32,
        malformed: Malformed,
    ) -> Result<Vec<T>, Malformed> {
        let length = if self.is_lenient {
            length.max(0)
        } else {
            length
        };
        let length = usize::try_from(length).map_err(|_| malformed)?;
        if length > self.rest.len() / T::SHORTEST.max(1) {
            return Err(malformed);
        }
        (0..length).map(|_| self.read(malformed.expected)).collect()
    }

    pub(super) fn array<const N: usize>(
        &mut self,
        expected: &'static str,
    ) -> Result<[u8; N], Malformed> {
        let malformed = self.malformed(expected);
        let (bytes, rest) = self.rest.split_first_chunk().ok_or(malformed)?;
        self.rest = rest;
        Ok(*bytes)
    }
}
