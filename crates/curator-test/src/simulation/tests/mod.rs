//! Simulated servers, with a client that sends only what a test contains.

mod chance;
mod client;
mod dialects;
mod ensemble;
mod faults;
mod frames;
mod run;

use std::time::Duration;

use super::*;
use client::Client;

use crate::OpCode;

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// Lets this many milliseconds pass.
async fn pass(millis: u64) {
    tokio::time::sleep(ms(millis)).await;
}
