//! The TLS files of the configuration.

use std::path::PathBuf;

use serde::Deserialize;

pub(crate) use self::read::ReadTls;

#[cfg(feature = "tls")]
mod read;
#[cfg(not(feature = "tls"))]
#[path = "tls_files/not_built.rs"]
mod read;

#[derive(Debug, Clone, Deserialize)]
#[serde(
    deny_unknown_fields,
    expecting = "a table with `ca`, and perhaps `certificate` and `key`"
)]
#[cfg_attr(
    not(feature = "tls"),
    allow(dead_code, reason = "the table is refused")
)]
pub(crate) struct TlsFiles {
    pub(crate) ca: PathBuf,
    pub(crate) certificate: Option<PathBuf>,
    pub(crate) key: Option<PathBuf>,
}
