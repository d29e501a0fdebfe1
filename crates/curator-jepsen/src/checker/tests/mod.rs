//! Histories with a planted violation of each kind, and the same histories without it.

mod caches;
mod capacity;
mod counters;
mod leaders;
mod malformed;
mod notice;
mod order;
mod reentry;
mod services;
mod sets;
pub(crate) mod story;
