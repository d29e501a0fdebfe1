//! Set-up, demo and tests, one command each.
fn main() {}
