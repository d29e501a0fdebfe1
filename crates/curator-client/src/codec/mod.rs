//! The wire format of ZooKeeper's protocol, for both of its sides: the client's transport, and the
//! servers, proxies and tests of `curator-test`. It is pure: no I/O, no clock, no runtime.
//!
//! What one side encodes, the other decodes, and both directions have one definition: a record
//! (`value.rs`), or an operation and its op code (`operation.rs`). Text, data and ACLs are
//! parameters. So a client encodes what it borrows, and decodes valid paths; a server keeps null
//! apart from empty; and the tests that compare servers see every value as it is on the wire.
//!
//! Bytes of any content are decoded, or result in a [`Malformed`]: no length is trusted before it
//! is checked. Frames have no length prefix, which is the matter of the socket ([`framed`]);
//! [`Writer::for_stream`] keeps room for it.
//!
//! | File | Contents |
//! |---|---|
//! | `jute.rs` | the serialization of numbers and bytes |
//! | `value.rs` | text, lists and null; records |
//! | `node.rs` | paths, ACLs and stats |
//! | `op_code.rs` | the kinds of requests |
//! | `operation.rs` | what has an op code: requests, replies, and the parts of transactions |
//! | `session.rs` | the handshake, the headers of requests and replies, and events |
//! | `request.rs` | the requests |
//! | `reply.rs` | the replies |

mod jute;
mod value;

mod node;
mod op_code;
mod operation;
mod reply;
mod request;
mod session;

pub use self::jute::{Decode, Encode, Malformed, Reader, Writer, append, framed};
pub use self::node::AclEntry;
pub use self::op_code::OpCode;
pub use self::operation::{Operation, PartHeader, frame, write_end, write_part};
pub use self::reply::{Identity, Reply};
pub use self::request::{Control, NewNode, Read, SetWatches, Write};
pub use self::session::{
    AUTH_XID, ConnectRequest, ConnectResponse, EVENT_XID, Event, EventKind, PING_XID, ReplyHeader,
    RequestHeader,
};
pub use self::value::Trailing;

#[cfg(test)]
mod tests;
