//! Histories with a planted violation of each kind, and histories of correct locks.

mod capacity;
mod client;
mod defects;
mod malformed;
mod notice;
mod order;
mod reentry;
mod sets;
mod simulated;
mod simulation;
mod story;
