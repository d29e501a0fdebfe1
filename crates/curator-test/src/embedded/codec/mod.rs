//! The wire format: parses requests, and serializes responses and events.
//!
//! ZooKeeper's records are written in *jute*: big-endian numbers, and strings, buffers and lists prefixed with their length,
//! where -1 means null.

mod handshake;
mod reader;
mod request;
mod response;
mod stat;
mod writer;

pub(crate) use handshake::{ConnectRequest, ConnectResponse};
pub(crate) use reader::{Malformed, Reader};
pub(crate) use request::{Create, CreateKind, Read, Request, SetWatches, Write};
pub(crate) use response::{Body, EventKind, OperationResult, event_frame, reply_frame};
pub(crate) use stat::Stat;
pub(crate) use writer::Writer;
