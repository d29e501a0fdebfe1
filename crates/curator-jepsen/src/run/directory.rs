//! The directory of a run.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, ensure};
use tempfile::TempDir;

/// The directory of a run, which is empty at first.
#[derive(Debug)]
pub(super) enum Directory {
    /// The directory that the user has chosen.
    Given(PathBuf),
    /// A temporary directory. Dropping this value deletes it.
    Temporary(TempDir),
}

impl Directory {
    /// Creates the directory if it is missing.
    pub(super) fn prepare(given: Option<&Path>) -> anyhow::Result<Self> {
        let Some(directory) = given else {
            return Ok(Self::Temporary(
                tempfile::Builder::new()
                    .prefix("curator-jepsen-")
                    .tempdir()?,
            ));
        };
        let failed = || format!("cannot use the directory {}", directory.display());
        fs::create_dir_all(directory).with_context(failed)?;
        // Its files would be checked with the run.
        let is_empty = fs::read_dir(directory)
            .with_context(failed)?
            .next()
            .is_none();
        ensure!(is_empty, "{} is not empty", directory.display());
        // An absolute path, as other processes may have another working directory.
        Ok(Self::Given(directory.canonicalize().with_context(failed)?))
    }

    pub(super) fn path(&self) -> &Path {
        match self {
            Self::Given(path) => path,
            Self::Temporary(directory) => directory.path(),
        }
    }

    /// Deletes a temporary directory after a clean run; otherwise prints its path.
    pub(super) fn close(self, is_clean: bool) -> anyhow::Result<()> {
        let kept = match self {
            Self::Temporary(directory) if is_clean => return Ok(directory.close()?),
            Self::Temporary(directory) => directory.keep(),
            Self::Given(path) => path,
        };
        println!("the files of the run are in {}", kept.display());
        Ok(())
    }
}
