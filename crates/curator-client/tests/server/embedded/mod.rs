//! The client on servers that only the embedded server can imitate: old ones, those of other
//! dialects of the protocol, and members of an ensemble that changes.
//!
//! Only this suite finds wrong stats of created nodes if a server does not return stats from a
//! transaction, requests that end a session because the server does not know them, and an ensemble
//! whose configuration makes a client try the wrong servers.

mod dialects;
mod ensemble;
mod old_server;
