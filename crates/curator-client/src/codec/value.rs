//! Values of the wire format: numbers, text, buffers and lists, and the records that are made of
//! them.

use super::jute::{Decode, Encode, Malformed, Reader, Writer};
use crate::acl::{Acl, AuthId, Permission};
use crate::operation::Stat;
use crate::path::ZPath;

/// Defines records: structs whose fields follow each other on the wire.
macro_rules! records {
    ($($(#[$docs:meta])* $name:ident $(<$($parameter:ident),+>)? {
        $($(#[$field_docs:meta])* $field:ident: $type:ty,)+
    })+) => {$(
        $(#[$docs])*
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub struct $name $(<$($parameter),+>)? {
            $($(#[$field_docs])* pub $field: $type,)+
        }

        $crate::codec::value::on_the_wire!($name $(<$($parameter),+>)? { $($field: $type,)+ });
    )+};
}

/// Implements `Encode` and `Decode` for a struct, with its fields in this order.
macro_rules! on_the_wire {
    ($name:ident $(<$($parameter:ident),+>)? { $($field:ident: $type:ty,)+ }) => {
        impl $(<$($parameter: $crate::codec::Encode),+>)? $crate::codec::Encode for $name $(<$($parameter),+>)? {
            fn encode(&self, writer: &mut $crate::codec::Writer) {
                $(writer.write(&self.$field);)+
            }
        }

        impl<'a $(, $($parameter: $crate::codec::Decode<'a>),+)?> $crate::codec::Decode<'a>
            for $name $(<$($parameter),+>)?
        {
            const SHORTEST: usize = 0 $(+ <$type as $crate::codec::Decode<'a>>::SHORTEST)+;

            fn decode(
                reader: &mut $crate::codec::Reader<'a>,
                _: &'static str,
            ) -> Result<Self, $crate::codec::Malformed> {
                Ok(Self { $($field: reader.read(stringify!($field))?,)+ })
            }
        }
    };
}

pub(super) use {on_the_wire, records};

macro_rules! numbers {
    ($($type:ty: $write:ident, $shortest:literal;)+) => {$(
        impl Encode for $type {
            fn encode(&self, writer: &mut Writer) {
                writer.$write(*self);
            }
        }

        impl Decode<'_> for $type {
            const SHORTEST: usize = $shortest;

            fn decode(reader: &mut Reader<'_>, expected: &'static str) -> Result<Self, Malformed> {
                reader.array(expected).map(Self::from_be_bytes)
            }
        }
    )+};
}

numbers! {
    i32: int, 4;
    i64: long, 8;
}

impl Encode for bool {
    fn encode(&self, writer: &mut Writer) {
        writer.boolean(*self);
    }
}

impl Decode<'_> for bool {
    const SHORTEST: usize = 1;

    fn decode(reader: &mut Reader<'_>, expected: &'static str) -> Result<Self, Malformed> {
        let malformed = reader.malformed(expected);
        match reader.array(expected)? {
            [byte] if byte < 2 || reader.is_lenient() => Ok(byte != 0),
            [_] => Err(malformed),
        }
    }
}

/// A value at the end of a frame, which old releases leave out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Trailing<T>(pub Option<T>);

impl<T: Encode> Encode for Trailing<T> {
    fn encode(&self, writer: &mut Writer) {
        if let Some(value) = &self.0 {
            value.encode(writer);
        }
    }
}

impl<'a, T: Decode<'a>> Decode<'a> for Trailing<T> {
    const SHORTEST: usize = 0;

    fn decode(reader: &mut Reader<'a>, expected: &'static str) -> Result<Self, Malformed> {
        let value = if reader.is_at_end() {
            None
        } else {
            Some(reader.read(expected)?)
        };
        Ok(Self(value))
    }
}

/// A value that follows its length on the wire.
pub(super) trait LengthPrefixed<'a>: Sized {
    /// Reads a value of this length, or fails with `malformed`.
    fn decode_with_length(
        length: i32,
        reader: &mut Reader<'a>,
        malformed: Malformed,
    ) -> Result<Self, Malformed>;
}

/// The length that stands for null.
const NULL: i32 = -1;

impl<'a, T: LengthPrefixed<'a>> Decode<'a> for T {
    const SHORTEST: usize = 4;

    fn decode(reader: &mut Reader<'a>, expected: &'static str) -> Result<Self, Malformed> {
        let null = Malformed {
            is_null: true,
            ..reader.malformed(expected)
        };
        reader.read::<Option<T>>(expected)?.ok_or(null)
    }
}

/// `None` is null.
impl<'a, T: LengthPrefixed<'a>> Decode<'a> for Option<T> {
    const SHORTEST: usize = 4;

    fn decode(reader: &mut Reader<'a>, expected: &'static str) -> Result<Self, Malformed> {
        let malformed = reader.malformed(expected);
        match reader.read(expected)? {
            NULL => Ok(None),
            length => T::decode_with_length(length, reader, malformed).map(Some),
        }
    }
}

/// `None` is null, so `T` must be a type that is prefixed with its length.
impl<T: Encode> Encode for Option<T> {
    fn encode(&self, writer: &mut Writer) {
        match self {
            Some(value) => value.encode(writer),
            None => drop(writer.int(NULL)),
        }
    }
}

impl<T: Encode + ?Sized> Encode for &T {
    fn encode(&self, writer: &mut Writer) {
        (**self).encode(writer);
    }
}

macro_rules! buffers {
    ($($type:ty),+) => {$(
        impl Encode for $type {
            fn encode(&self, writer: &mut Writer) {
                writer.buffer(self.as_ref());
            }
        }
    )+};
}

buffers!([u8], Vec<u8>, str, String);

impl<'a> LengthPrefixed<'a> for &'a [u8] {
    fn decode_with_length(
        length: i32,
        reader: &mut Reader<'a>,
        malformed: Malformed,
    ) -> Result<Self, Malformed> {
        reader.bytes(length, malformed)
    }
}

impl LengthPrefixed<'_> for Vec<u8> {
    fn decode_with_length(
        length: i32,
        reader: &mut Reader<'_>,
        malformed: Malformed,
    ) -> Result<Self, Malformed> {
        reader.bytes(length, malformed).map(<[u8]>::to_vec)
    }
}

impl<'a> LengthPrefixed<'a> for &'a str {
    fn decode_with_length(
        length: i32,
        reader: &mut Reader<'a>,
        malformed: Malformed,
    ) -> Result<Self, Malformed> {
        std::str::from_utf8(reader.bytes(length, malformed)?).map_err(|_| malformed)
    }
}

impl LengthPrefixed<'_> for String {
    fn decode_with_length(
        length: i32,
        reader: &mut Reader<'_>,
        malformed: Malformed,
    ) -> Result<Self, Malformed> {
        let bytes = reader.bytes(length, malformed)?;
        match std::str::from_utf8(bytes) {
            Ok(text) => Ok(text.to_owned()),
            // Java's servers replace invalid UTF-8 too.
            Err(_) if reader.is_lenient() => Ok(Self::from_utf8_lossy(bytes).into_owned()),
            Err(_) => Err(malformed),
        }
    }
}

impl<T: Encode> Encode for [T] {
    fn encode(&self, writer: &mut Writer) {
        writer.length(self.len());
        self.iter().for_each(|element| element.encode(writer));
    }
}

impl<T: Encode> Encode for Vec<T> {
    fn encode(&self, writer: &mut Writer) {
        writer.write(self.as_slice());
    }
}

impl<'a, T: Decode<'a>> LengthPrefixed<'a> for Vec<T> {
    fn decode_with_length(
        length: i32,
        reader: &mut Reader<'a>,
        malformed: Malformed,
    ) -> Result<Self, Malformed> {
        reader.list(length, malformed)
    }
}

/// Two values, one after the other.
impl<A: Encode, B: Encode> Encode for (A, B) {
    fn encode(&self, writer: &mut Writer) {
        writer.write(&self.0).write(&self.1);
    }
}

impl<'a, A: Decode<'a>, B: Decode<'a>> Decode<'a> for (A, B) {
    const SHORTEST: usize = A::SHORTEST + B::SHORTEST;

    fn decode(reader: &mut Reader<'a>, expected: &'static str) -> Result<Self, Malformed> {
        Ok((reader.read(expected)?, reader.read(expected)?))
    }
}

impl Encode for ZPath {
    fn encode(&self, writer: &mut Writer) {
        writer.string(self.as_str());
    }
}

impl LengthPrefixed<'_> for ZPath {
    fn decode_with_length(
        length: i32,
        reader: &mut Reader<'_>,
        malformed: Malformed,
    ) -> Result<Self, Malformed> {
        let text = <&str>::decode_with_length(length, reader, malformed)?;
        Self::on_server(text).map_err(|_| malformed)
    }
}

records! {
    /// An entry of an ACL, as on the wire.
    AclEntry<T> {
        /// The bits of ZooKeeper's `Perms`, and perhaps others.
        permissions: i32,
        /// The scheme of the identity.
        scheme: T,
        /// The identity in its scheme.
        id: T,
    }
}

impl Encode for Acl {
    fn encode(&self, writer: &mut Writer) {
        let permissions = permission_bits(self.permission());
        writer.write(&AclEntry {
            permissions,
            scheme: self.scheme(),
            id: self.id(),
        });
    }
}

/// Omits bits that have no meaning in ZooKeeper.
impl<'a> Decode<'a> for Acl {
    const SHORTEST: usize = AclEntry::<&str>::SHORTEST;

    fn decode(reader: &mut Reader<'a>, expected: &'static str) -> Result<Self, Malformed> {
        let entry: AclEntry<&str> = reader.read(expected)?;
        Ok(Self::new(
            permission_from_bits(entry.permissions),
            AuthId::new(entry.scheme, entry.id),
        ))
    }
}

const PERMISSIONS: [(Permission, i32); 5] = [
    (Permission::READ, 1),
    (Permission::WRITE, 2),
    (Permission::CREATE, 4),
    (Permission::DELETE, 8),
    (Permission::ADMIN, 16),
];

fn permission_bits(permission: Permission) -> i32 {
    PERMISSIONS
        .iter()
        .filter(|(one, _)| permission.has(*one))
        .map(|(_, bit)| bit)
        .sum()
}

fn permission_from_bits(bits: i32) -> Permission {
    let set = PERMISSIONS.iter().filter(|(_, bit)| bits & bit != 0);
    set.fold(Permission::NONE, |all, (one, _)| all | *one)
}

// The order on the wire is not the order of the type.
on_the_wire!(Stat {
    czxid: i64,
    mzxid: i64,
    ctime: i64,
    mtime: i64,
    version: i32,
    cversion: i32,
    aversion: i32,
    ephemeral_owner: i64,
    data_length: i32,
    num_children: i32,
    pzxid: i64,
});
