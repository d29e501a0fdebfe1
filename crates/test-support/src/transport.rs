//! Which transport the clients of a test program use.

use curator_client::Transport;

/// The transport that `CURATOR_TEST_TRANSPORT` selects, or the default.
pub fn transport() -> Transport {
    match std::env::var("CURATOR_TEST_TRANSPORT").as_deref() {
        Ok("native") => Transport::Native,
        Ok(other) => panic!(
            "CURATOR_TEST_TRANSPORT: {other:?} is not a transport; the only other one is `native`"
        ),
        Err(_) => Transport::default(),
    }
}

/// The transport's name in configuration files and on command lines.
pub fn name() -> &'static str {
    match transport() {
        Transport::Native => "native",
        _ => "zookeeper-client",
    }
}
