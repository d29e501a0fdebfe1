//! Test helpers that several packages share and that `curator-test` does not publish. Other
//! packages have it as a development dependency by path only, so that cargo omits it from published
//! packages.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a failure here is the test's failure"
)]
#![allow(
    missing_docs,
    missing_debug_implementations,
    clippy::should_implement_trait,
    clippy::must_use_candidate,
    reason = "only tests of this workspace use it"
)]
#![allow(
    clippy::missing_panics_doc,
    reason = "a failure here is the test's failure"
)]

#[cfg(unix)]
pub mod agent;
pub mod alone;
pub mod environment;
#[cfg(unix)]
pub mod java;
pub mod log;
pub mod numbers;
pub mod sasl_server;
pub mod still_waits;
pub mod transcripts;
pub mod transport;
