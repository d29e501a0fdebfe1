//! What has an op code: requests, replies, and the parts of transactions.

use super::jute::{Decode, Encode, Malformed, Reader, Writer};
use super::session::{OpCode, RequestHeader};
use super::value::records;

/// A value of a kind that an op code names, outside of its bytes.
pub trait Operation: Encode {
    /// The op code.
    fn op(&self) -> OpCode;
}

/// Defines an enum whose variants are kinds with an op code of the same name, and whose fields
/// follow each other on the wire.
macro_rules! operations {
    ($(#[$docs:meta])* $name:ident<$($parameter:ident),+> {
        $($(#[$variant_docs:meta])* $variant:ident { $($(#[$field_docs:meta])* $field:ident: $type:ty),* },)+
    }) => {
        $(#[$docs])*
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub enum $name<$($parameter),+> {
            $($(#[$variant_docs])* $variant { $($(#[$field_docs])* $field: $type),* },)+
        }

        impl<$($parameter: $crate::codec::Encode),+> $crate::codec::Operation for $name<$($parameter),+> {
            fn op(&self) -> $crate::codec::OpCode {
                match self {
                    $(Self::$variant { .. } => $crate::codec::OpCode::$variant,)+
                }
            }
        }

        impl<$($parameter: $crate::codec::Encode),+> $crate::codec::Encode for $name<$($parameter),+> {
            fn encode(&self, writer: &mut $crate::codec::Writer) {
                match self {
                    $(Self::$variant { $($field),* } => { $(writer.write($field);)* })+
                }
            }
        }

        impl<'a, $($parameter: $crate::codec::Decode<'a>),+> $name<$($parameter),+> {
            /// Decodes the fields of this kind; `None` if it is none of these.
            ///
            /// # Errors
            ///
            /// [`Malformed`](crate::codec::Malformed) if the bytes are no such fields.
            pub fn decode(
                op: $crate::codec::OpCode,
                reader: &mut $crate::codec::Reader<'a>,
            ) -> Result<Option<Self>, $crate::codec::Malformed> {
                Ok(Some(match op {
                    $($crate::codec::OpCode::$variant => {
                        Self::$variant { $($field: reader.read(stringify!($field))?),* }
                    })+
                    _ => return Ok(None),
                }))
            }
        }
    };
}

pub(super) use operations;

/// The frame of a request.
#[must_use]
pub fn frame(xid: i32, request: &impl Operation) -> Vec<u8> {
    let mut writer = Writer::default();
    writer
        .write(&RequestHeader {
            xid,
            op: request.op(),
        })
        .write(request);
    writer.into_frame()
}

records! {
    /// What precedes each operation of a `multi` or `multiRead`, and each result.
    PartHeader {
        /// The kind; [`OpCode::Error`] for the result of an operation that failed, and at the end.
        op: OpCode,
        /// Whether this is the end: nothing follows.
        is_end: bool,
        /// Has a meaning only in results.
        error: i32,
    }
}

impl PartHeader {
    /// Reads the parts up to the end, each by `read`.
    ///
    /// # Errors
    ///
    /// The first error, of a header or of `read`.
    pub fn read_parts<'a, T, E: From<Malformed>>(
        reader: &mut Reader<'a>,
        mut read: impl FnMut(&Self, &mut Reader<'a>) -> Result<T, E>,
    ) -> Result<Vec<T>, E> {
        let mut parts = Vec::new();
        loop {
            let header = Self::decode(reader, "the header of an operation")?;
            if header.is_end {
                return Ok(parts);
            }
            parts.push(read(&header, reader)?);
        }
    }
}

/// Appends an operation of a `multi` or `multiRead`, or a result. `error` has a meaning only in
/// results; -1 otherwise.
pub fn write_part(writer: &mut Writer, error: i32, part: &impl Operation) {
    writer
        .write(&PartHeader {
            op: part.op(),
            is_end: false,
            error,
        })
        .write(part);
}

/// Appends the end of the operations of a `multi` or `multiRead`, or of the results.
pub fn write_end(writer: &mut Writer) {
    writer.write(&PartHeader {
        op: OpCode::Error,
        is_end: true,
        error: -1,
    });
}
