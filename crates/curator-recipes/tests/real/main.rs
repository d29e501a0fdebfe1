//! Tests the recipes with features that only a real ZooKeeper has: SASL users, data on disk, and an
//! ensemble that changes. Only this suite checks what the recipes do when data is restored from a
//! backup or all members of an ensemble are replaced, and whether the SASL program of
//! docs/production.md works.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "in a test, a panic is the way to fail"
)]

mod reconfigured;
mod restored;
mod sasl;
#[path = "../support/mod.rs"]
mod support;
