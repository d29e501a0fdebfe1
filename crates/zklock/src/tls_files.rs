//! The TLS files of the configuration.

use std::path::PathBuf;

use serde::Deserialize;

pub(crate) use self::read::ReadTls;

#[cfg(feature = "tls")]
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

/// A zklock without the feature `tls` refuses a configuration with TLS files.
#[cfg(not(feature = "tls"))]
mod read {
    use curator_recipes::client::CuratorClientBuilder;

    use crate::failure::Failure;
    use crate::tls_files::TlsFiles;

    /// No files are read.
    pub(crate) enum ReadTls {}

    impl TlsFiles {
        #[expect(clippy::unused_self, reason = "with the feature, it reads the files")]
        pub(crate) fn read(&self) -> Result<ReadTls, Failure> {
            Err(Failure::here(
                "the configuration has a table [tls], and this zklock was built without the feature `tls`",
            ))
        }
    }

    impl ReadTls {
        pub(crate) fn reload_on_change(&self) {
            match *self {}
        }

        pub(crate) fn secure(&self, _: CuratorClientBuilder) -> CuratorClientBuilder {
            match *self {}
        }
    }
}
