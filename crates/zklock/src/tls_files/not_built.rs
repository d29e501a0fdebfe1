//! A zklock without the feature `tls` refuses a configuration with TLS files.

use curator_recipes::client::CuratorClientBuilder;

use super::TlsFiles;
use crate::failure::Failure;

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
