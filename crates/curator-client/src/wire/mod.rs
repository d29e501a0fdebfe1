//! This crate's own transport: frames over a simulated network in memory, or over TCP.
//!
//! The [`codec`](crate::codec) encodes requests from the types of [`operation`](crate::operation)
//! and [`acl`](crate::acl), and decodes replies into them.
//!
//! | File | Contents |
//! |---|---|
//! | `request.rs` | the requests |
//! | `reply.rs` | the reply to the first frame, all other replies, and events |
//! | `watches.rs` | which watches an event fires |
//! | `heartbeat.rs` | when a connection is pinged, and when a silent one is closed |
//! | `connection.rs` | the requests in flight, and the end of a connection |
//! | `link.rs` | the requests of a session |
//! | `handshake.rs` | the first frames of a connection; closes a new session if they fail |
//! | `sasl.rs` | authenticates a connection over SASL |
//! | `open.rs` | opens a connection for a new session, or an existing one |
//! | `route.rs` | how a server is reached, and what carries the frames |
//! | `tcp.rs` | frames over TCP |
//! | `frames.rs` | splits a stream of bytes into frames, with or without TLS |

mod connection;
#[cfg(feature = "native")]
mod frames;
mod handshake;
mod heartbeat;
mod link;
mod open;
mod reply;
mod request;
mod route;
mod sasl;
#[cfg(feature = "native")]
mod tcp;
mod watches;

pub(crate) use self::link::{Link, LinkTask, RecursiveWatch, SessionKey, Watch};
pub(crate) use self::open::open;
pub(crate) use self::route::Route;

#[cfg(test)]
mod tests;
