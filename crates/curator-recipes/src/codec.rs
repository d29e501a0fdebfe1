//! How values of the user's types are stored in nodes.

use std::error::Error;
use std::fmt;
use std::num::{ParseFloatError, ParseIntError};
use std::str::{ParseBoolError, Utf8Error};
use std::string::FromUtf8Error;

/// Why data cannot be decoded.
///
/// Its text may quote the data, as an error of `serde_json` does. So logs and the texts of errors
/// include it only if it is a standard library type that never quotes data, such as
/// [`ParseIntError`]. It is always the [source](Error::source) of the error.
pub type CodecError = Box<dyn Error + Send + Sync>;

/// The data does not have the length that [`BigEndian`] needs.
#[derive(Debug, thiserror::Error)]
#[error("expected {expected} bytes, found {found}{}", if *is_gzip { GZIP_HINT } else { "" })]
struct WrongLength {
    expected: usize,
    found: usize,
    /// Whether the data begins with the magic number of gzip.
    is_gzip: bool,
}

const GZIP_HINT: &str =
    ", which begin like gzip data: has a Java client with compression written them?";

impl WrongLength {
    fn boxed(data: &[u8], expected: usize) -> CodecError {
        Self {
            expected,
            found: data.len(),
            is_gzip: data.starts_with(&[0x1f, 0x8b]),
        }
        .into()
    }
}

/// Returns the error if the text of its type never quotes data.
pub(crate) fn unquoting<'a>(
    error: &'a (dyn Error + Send + Sync + 'static),
) -> Option<&'a dyn fmt::Display> {
    let quotes_nothing = error.is::<WrongLength>()
        || error.is::<ParseIntError>()
        || error.is::<ParseFloatError>()
        || error.is::<ParseBoolError>()
        || error.is::<Utf8Error>()
        || error.is::<FromUtf8Error>();
    quotes_nothing.then_some(error as &dyn fmt::Display)
}

/// Displays a colon and the text of a codec's error; nothing if the text may quote data.
pub(crate) struct Suffix<'a>(pub(crate) &'a (dyn Error + Send + Sync + 'static));

impl fmt::Display for Suffix<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match unquoting(self.0) {
            Some(error) => write!(f, ": {error}"),
            None => Ok(()),
        }
    }
}

/// Encodes values of type `T` as the data of a node, and decodes them.
///
/// A pair of functions is a codec: `(|value: &String| value.clone().into_bytes(), |data: &[u8]|
/// String::from_utf8(data.to_vec()))`.
pub trait ValueCodec<T>: Send + Sync + 'static {
    /// Returns the node data that represents this value.
    fn encode(&self, value: &T) -> Vec<u8>;

    /// Returns the value that this node data represents.
    ///
    /// # Errors
    ///
    /// When the data does not represent a value.
    fn decode(&self, data: &[u8]) -> Result<T, CodecError>;
}

impl<T, E, D, F> ValueCodec<T> for (E, D)
where
    E: Fn(&T) -> Vec<u8> + Send + Sync + 'static,
    D: Fn(&[u8]) -> Result<T, F> + Send + Sync + 'static,
    F: Into<CodecError>,
{
    fn encode(&self, value: &T) -> Vec<u8> {
        self.0(value)
    }

    fn decode(&self, data: &[u8]) -> Result<T, CodecError> {
        self.1(data).map_err(Into::into)
    }
}

/// Encodes numbers as big-endian bytes, like Java's `ByteBuffer`.
#[derive(Debug, Clone, Copy, Default)]
#[expect(clippy::exhaustive_structs, reason = "a rule without parameters")]
pub struct BigEndian;

/// Four bytes. Decoding rejects data of any other length.
impl ValueCodec<i32> for BigEndian {
    fn encode(&self, value: &i32) -> Vec<u8> {
        value.to_be_bytes().to_vec()
    }

    fn decode(&self, data: &[u8]) -> Result<i32, CodecError> {
        data.try_into()
            .map(i32::from_be_bytes)
            .map_err(|_| WrongLength::boxed(data, 4))
    }
}

/// Eight bytes. As in Curator, empty data decodes to 0. Decoding rejects any other length; Curator
/// ignores bytes after the eighth.
impl ValueCodec<i64> for BigEndian {
    fn encode(&self, value: &i64) -> Vec<u8> {
        value.to_be_bytes().to_vec()
    }

    fn decode(&self, data: &[u8]) -> Result<i64, CodecError> {
        match data.try_into() {
            Ok(bytes) => Ok(i64::from_be_bytes(bytes)),
            Err(_) if data.is_empty() => Ok(0),
            Err(_) => Err(WrongLength::boxed(data, 8)),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn big_endian_encodes_numbers_as_java_does() {
        assert_eq!(BigEndian.encode(&1_i32), [0, 0, 0, 1]);
        assert_eq!(BigEndian.encode(&-2_i32), [0xff, 0xff, 0xff, 0xfe]);
        assert_eq!(BigEndian.encode(&0x0102_0304_i32), [1, 2, 3, 4]);
        assert_eq!(
            BigEndian.encode(&0x0102_0304_0506_0708_i64),
            [1, 2, 3, 4, 5, 6, 7, 8]
        );
    }

    #[test]
    fn a_long_decodes_empty_data_as_zero_and_rejects_other_lengths() {
        let decode = |data: &[u8]| -> Result<i64, CodecError> { BigEndian.decode(data) };
        assert_eq!(decode(b"").unwrap(), 0);
        assert_eq!(
            decode(&[1; 7]).unwrap_err().to_string(),
            "expected 8 bytes, found 7"
        );
        let gzip = decode(&[0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0])
            .unwrap_err()
            .to_string();
        assert!(
            gzip.starts_with("expected 8 bytes, found 10, which begin like gzip data"),
            "{gzip}"
        );
    }

    proptest! {
        #[test]
        fn numbers_round_trip_through_the_codec(long: i64, int: i32) {
            prop_assert_eq!(BigEndian.decode(&BigEndian.encode(&long)).ok(), Some(long));
            prop_assert_eq!(BigEndian.decode(&BigEndian.encode(&int)).ok(), Some(int));
        }

        #[test]
        fn an_int_decodes_from_exactly_four_bytes(data: Vec<u8>) {
            let decoded: Result<i32, _> = BigEndian.decode(&data);
            prop_assert_eq!(decoded.is_ok(), data.len() == 4);
        }

        #[test]
        fn a_long_decodes_from_zero_or_eight_bytes(data: Vec<u8>) {
            let decoded: Result<i64, _> = BigEndian.decode(&data);
            prop_assert_eq!(decoded.is_ok(), data.is_empty() || data.len() == 8);
        }
    }
}
