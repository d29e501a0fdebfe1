//! The client on servers that only the embedded server can imitate: old ones, and those of other
//! dialects of the protocol.
//!
//! Only this suite finds wrong stats of created nodes if a server does not return stats from a
//! transaction, and requests that end a session because the server does not know them.

mod dialects;
mod old_server;
