//! Everything with an op code: requests, replies, and the parts of transactions.

use super::headers::{OpCode, RequestHeader};
use super::jute::{Decode, Encode, Malformed, Reader, Writer};
use super::value::records;
use crate::operation::Stat;

/// A value whose kind an op code identifies. The op code is not part of the encoded value.
pub trait Operation: Encode {
    /// The op code.
    fn op(&self) -> OpCode;
}

/// Defines an enum with a variant for each kind, named like its op code. The fields of a variant
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
            /// Decodes the fields of the kind `op`; `None` if no variant has this op code.
            ///
            /// # Errors
            ///
            /// [`Malformed`](crate::codec::Malformed) if the bytes are not these fields.
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
        /// The error code, which has a meaning only in results.
        error: i32,
    }
}

impl PartHeader {
    /// Reads the parts up to the end, each with `read`.
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

records! {
    /// A node to create.
    NewNode<T, D, A> {
        /// The path; the server appends a number if the node is sequential.
        path: T,
        /// The data.
        data: D,
        /// The ACL.
        acl: A,
        /// The number of ZooKeeper's `CreateMode`.
        flags: i32,
    }

    /// Watches that are registered again after a reconnect, by their paths.
    SetWatches<T> {
        /// The zxid of the last transaction that the client has seen. The server immediately
        /// notifies the client of later changes.
        relative_zxid: i64,
        /// The paths of watches on data.
        data: Vec<T>,
        /// The paths of watches on nodes that did not exist.
        exists: Vec<T>,
        /// The paths of watches on children.
        children: Vec<T>,
    }
}

operations! {
    /// A change of the tree: a separate request, or one operation of a `multi`. The version -1
    /// matches any version.
    Write<T, D, A> {
        /// Creates a node; the reply has no stat.
        Create { node: NewNode<T, D, A> },
        /// Creates a node.
        Create2 { node: NewNode<T, D, A> },
        /// Creates a container.
        CreateContainer { node: NewNode<T, D, A> },
        /// Creates a node with a time to live, in milliseconds.
        CreateTtl { node: NewNode<T, D, A>, ttl: i64 },
        /// Deletes a node.
        Delete { path: T, version: i32 },
        /// Deletes an empty container.
        DeleteContainer { path: T },
        /// Sets data.
        SetData { path: T, data: D, version: i32 },
        /// Sets an ACL. The version is the `aversion` of the node.
        SetAcl { path: T, acl: A, version: i32 },
        /// Checks a node's version; only inside a `multi`.
        Check { path: T, version: i32 },
    }
}

operations! {
    /// A read of one node: a separate request, or one operation of a `multiRead`.
    Read<T> {
        /// Reads the stat. If the node does not exist, the watch is set too.
        Exists { path: T, watch: bool },
        /// Reads data and stat.
        GetData { path: T, watch: bool },
        /// Lists the children.
        GetChildren { path: T, watch: bool },
        /// Lists the children, and reads the stat.
        GetChildren2 { path: T, watch: bool },
        /// Reads the ACL.
        GetAcl { path: T },
        /// Counts the descendants.
        GetAllChildrenNumber { path: T },
    }
}

operations! {
    /// A request about a connection, its watches or its session.
    Control<T, N, D> {
        /// Makes the server catch up with the leader.
        Sync { path: N },
        /// Keeps the session alive.
        Ping {},
        /// Ends the session. The server closes the connection after the reply.
        CloseSession {},
        /// Lists the identities of the connection.
        WhoAmI {},
        /// Lists the session's ephemeral nodes.
        GetEphemerals { prefix: N },
        /// Adds a persistent watch; with the mode 1, it is recursive.
        AddWatch { path: N, mode: i32 },
        /// Checks whether a watch of this kind (ZooKeeper's `WatcherType`) is set.
        CheckWatches { path: N, kind: i32 },
        /// Removes the watches of this kind.
        RemoveWatches { path: N, kind: i32 },
        /// Registers watches again.
        SetWatches { watches: SetWatches<T> },
        /// Registers watches again, persistent ones too.
        SetWatches2 { watches: SetWatches<T>, persistent: Vec<T>, recursive: Vec<T> },
        /// Changes the ensemble.
        Reconfig { joining: N, leaving: N, new_members: N, config: i64 },
        /// Adds an identity to the connection. The kind is unused.
        Auth { kind: i32, scheme: N, auth: D },
        /// A step of SASL.
        Sasl { token: D },
    }
}

impl<T, D, A> Write<T, D, A> {
    /// The path.
    pub fn path(&self) -> &T {
        match self {
            Self::Create { node } | Self::Create2 { node } => &node.path,
            Self::CreateContainer { node } | Self::CreateTtl { node, .. } => &node.path,
            Self::Delete { path, .. }
            | Self::DeleteContainer { path }
            | Self::SetData { path, .. }
            | Self::SetAcl { path, .. }
            | Self::Check { path, .. } => path,
        }
    }
}

impl<T> Read<T> {
    /// The path.
    pub fn path(&self) -> &T {
        match self {
            Self::Exists { path, .. }
            | Self::GetData { path, .. }
            | Self::GetChildren { path, .. }
            | Self::GetChildren2 { path, .. }
            | Self::GetAcl { path }
            | Self::GetAllChildrenNumber { path } => path,
        }
    }
}

records! {
    /// An identity of a connection.
    Identity<T> {
        /// The scheme.
        scheme: T,
        /// The name in this scheme, without a secret.
        user: T,
    }
}

operations! {
    /// A successful reply to a request of this kind, or the result of such an operation in a
    /// transaction. To requests of other kinds, the reply is empty.
    Reply<T, D, A> {
        /// The path of the new node.
        Create { path: T },
        /// The new node.
        Create2 { path: T, stat: Stat },
        /// The new node.
        CreateContainer { path: T, stat: Stat },
        /// The new node.
        CreateTtl { path: T, stat: Stat },
        /// Nothing.
        Delete {},
        /// The stat after the change.
        SetData { stat: Stat },
        /// The stat after the change.
        SetAcl { stat: Stat },
        /// Nothing.
        Check {},
        /// The stat.
        Exists { stat: Stat },
        /// The data.
        GetData { data: D, stat: Stat },
        /// The names of the children.
        GetChildren { children: Option<Vec<T>> },
        /// The names of the children.
        GetChildren2 { children: Option<Vec<T>>, stat: Stat },
        /// The ACL.
        GetAcl { acl: Option<Vec<A>>, stat: Stat },
        /// The number of descendants.
        GetAllChildrenNumber { number: i32 },
        /// The path of the request.
        Sync { path: T },
        /// The paths of the session's ephemeral nodes.
        GetEphemerals { paths: Option<Vec<T>> },
        /// The identities of the connection.
        WhoAmI { identities: Option<Vec<Identity<T>>> },
        /// Repeats the error of the header.
        AddWatch { error: i32 },
        /// Only in transactions: the error of the operation; 0 if the operation was undone because
        /// another operation failed.
        Error { code: i32 },
        /// The server's answer to a step.
        Sasl { token: D },
    }
}
