//! A server in the test's process.

use std::net::SocketAddr;

use crate::{embedded::EmbeddedServer, error::Error, server_kind::ServerKind};

/// What a [`TestingServer`](super::TestingServer) needs of a server in its process. See its methods
/// of the same names.
pub(crate) trait InProcess: std::fmt::Debug + Send + Sync {
    fn kind(&self) -> ServerKind;

    fn as_embedded(&self) -> Option<&EmbeddedServer>;

    fn address(&self) -> SocketAddr;

    fn is_running(&self) -> bool;

    fn stop(&self);

    fn restart(&self) -> Result<(), Error>;

    fn pause(&self);

    fn resume(&self);

    fn set_create_counter(&self, path: &str, counter: i32) -> Result<(), Error>;

    /// Replies immediately or not at all, without the network, and counts no packet.
    fn four_letter_word(&self, word: &str) -> Result<String, Error>;
}

/// Each server has methods of the same names.
macro_rules! in_process {
    ($server:ty, $kind:expr, $as_embedded:expr) => {
        impl InProcess for $server {
            fn kind(&self) -> ServerKind {
                $kind
            }

            fn as_embedded(&self) -> Option<&EmbeddedServer> {
                $as_embedded(self)
            }

            fn address(&self) -> SocketAddr {
                self.address()
            }

            fn is_running(&self) -> bool {
                self.is_running()
            }

            fn stop(&self) {
                self.stop();
            }

            fn restart(&self) -> Result<(), Error> {
                self.restart()
            }

            fn pause(&self) {
                self.pause();
            }

            fn resume(&self) {
                self.resume();
            }

            fn set_create_counter(&self, path: &str, counter: i32) -> Result<(), Error> {
                self.set_create_counter(path, counter)
            }

            fn four_letter_word(&self, word: &str) -> Result<String, Error> {
                self.four_letter_word(word)
            }
        }
    };
}

in_process!(EmbeddedServer, ServerKind::Embedded, Some);
#[cfg(feature = "simulation")]
in_process!(
    crate::simulation::SimulatedServer,
    ServerKind::Simulated,
    |_| None
);
