//! TLS: what a client trusts and presents, and why a handshake failed.

#[cfg(feature = "tls")]
mod certificates;
#[cfg(feature = "tls")]
mod invalid;
#[cfg(feature = "tls")]
mod options;
mod problem;

#[cfg(all(feature = "tls", feature = "zookeeper-client"))]
pub(crate) use self::certificates::Certificates;
#[cfg(feature = "tls")]
pub(crate) use self::certificates::{CertificateRequest, HandshakeConfig};
#[cfg(feature = "tls")]
pub use self::invalid::{InvalidTlsOptions, TlsText};
#[cfg(feature = "tls")]
pub use self::options::TlsOptions;
pub(crate) use self::problem::listed;
pub use self::problem::{TlsFailure, TlsProblem};
