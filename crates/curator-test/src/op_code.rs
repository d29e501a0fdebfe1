//! The kinds of requests, which the codec of the client numbers.

pub use curator_client::codec::OpCode;
