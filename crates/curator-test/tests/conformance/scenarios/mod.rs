//! The scenarios, by what they are about.

mod access;
mod authentication;
mod containers;
mod counter;
mod create;
mod ephemerals;
mod expiry;
mod handshake;
mod limits;
mod malformed;
mod multi;
mod multi_errors;
mod multi_read;
mod nulls;
mod paths;
mod persistent_watches;
mod read_write;
mod remove_watches;
mod set_watches;
mod system_nodes;
mod unusual_requests;
mod watch_access;
mod watch_order;
mod watches;
mod words;
