//! The built program on a server, embedded or real: its output, its exit codes, and the nodes and
//! processes that it leaves. Runs in real time, because processes and terminals cannot be
//! simulated.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "in a test, a panic is the way to fail"
)]

mod certified;
mod command_line;
mod configuration;
mod configured;
mod embedded;
mod inherited;
mod leading;
mod losing;
mod on_a_terminal;
mod process_one;
mod pseudo_terminal;
mod reconnecting;
mod releases;
mod running;
mod support;
mod text;
mod waiting;
