//! Histories with a planted violation of each kind, and the same without it.

mod capacity;
mod malformed;
mod notice;
mod order;
mod reentry;
mod sets;
pub(crate) mod story;
