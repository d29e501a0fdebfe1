//! Which transport the clients of a test program use.
//!
//! The tests of all packages include this file. The module that includes it has a `Transport` in scope, as the packages above
//! `curator-client` have only its re-export.

use super::Transport;

/// The transport of the clients: that of `CURATOR_TEST_TRANSPORT`, or the default.
pub(crate) fn transport() -> Transport {
    match std::env::var("CURATOR_TEST_TRANSPORT").as_deref() {
        Ok("native") => Transport::Native,
        Ok(other) => panic!("CURATOR_TEST_TRANSPORT: {other:?} is not a transport; the only other one is `native`"),
        Err(_) => Transport::default(),
    }
}
