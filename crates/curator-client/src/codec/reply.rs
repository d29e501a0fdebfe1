//! The replies.
//!
//! `T` is text; `D` is data, which may be null; `A` is an entry of an ACL. A server never sends
//! null for a list.

use super::operation::operations;
use super::value::records;
use crate::operation::Stat;

records! {
    /// An identity of a connection.
    Identity<T> {
        /// Its scheme.
        scheme: T,
        /// The name in it, without a secret.
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
        /// The error of the header again.
        AddWatch { error: i32 },
        /// Only in transactions: the error of the operation; 0 if it was undone because another one
        /// failed.
        Error { code: i32 },
        /// The server's answer to a step.
        Sasl { token: D },
    }
}
