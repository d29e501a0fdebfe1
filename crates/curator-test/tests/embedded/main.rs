//! What only the embedded server can do.
#![allow(clippy::unwrap_used, reason = "a failure here is the test's failure")]

mod faults;
mod fuzz;
mod life;
#[path = "../support/mod.rs"]
mod support;
mod surroundings;
