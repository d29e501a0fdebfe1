//! What only the embedded server can do.
//!
//! Only this suite finds a fault that strikes another request than the one that was meant, a server that does not survive what it is
//! sent, and a stop, pause or restart that loses or keeps too much.
#![allow(clippy::unwrap_used, reason = "a failure here is the test's failure")]

mod faults;
mod fuzz;
mod life;
#[path = "../support/mod.rs"]
mod support;
mod surroundings;
