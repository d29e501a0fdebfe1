//! The client on old servers, which only the embedded server can imitate.
//!
//! Only this suite finds wrong stats of created nodes if a server does not return stats from a
//! transaction.

mod old_server;
