//! Parses the start of a frame.

use curator_client::codec::{Decode, PartHeader, Reader, RequestHeader};

use crate::OpCode;

/// The values at the start of a payload; `None` if it does not begin with such values.
pub(super) fn parse<'a, T: Decode<'a>>(payload: &'a [u8]) -> Option<T> {
    Reader::lenient(payload).read("the start of a frame").ok()
}

/// The path of a request; for a request with several operations, the path of the first. `None` without a path.
pub(super) fn path(op: OpCode, payload: &[u8]) -> Option<&[u8]> {
    match op {
        OpCode::Multi | OpCode::MultiRead => {
            parse(payload).map(|(_, (_, path)): (RequestHeader, (PartHeader, &[u8]))| path)
        }
        _ => parse(payload).map(|(_, path): (RequestHeader, &[u8])| path),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_length_that_is_negative_or_exceeds_the_frame_is_not_that_of_a_path() {
        assert_eq!(path(OpCode::Sync, b"\0\0\0\x01\0\0\0\x09\0\0\0\x01/"), Some(&b"/"[..]));
        assert_eq!(path(OpCode::Sync, b"\0\0\0\x01\0\0\0\x09\xff\xff\xff\xff/"), None);
        assert_eq!(path(OpCode::Sync, b"\0\0\0\x01\0\0\0\x09\0\0\0\x02/"), None);
    }
}
