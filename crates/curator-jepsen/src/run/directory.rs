//! The directory of a run.

use std::fs;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::scene::RunError;

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
    pub(super) fn prepare(given: Option<&Path>) -> Result<Self, RunError> {
        let Some(directory) = given else {
            let created = tempfile::Builder::new().prefix("curator-jepsen-").tempdir();
            return created.map(Self::Temporary).map_err(RunError::io("create a temporary directory"));
        };
        let failed = || RunError::io(format!("use the directory {}", directory.display()));
        fs::create_dir_all(directory).map_err(failed())?;
        if fs::read_dir(directory).map_err(failed())?.next().is_some() {
            return Err(RunError::NotEmpty { directory: directory.to_owned() });
        }
        // An absolute path, as other processes may have another working directory.
        directory.canonicalize().map(Self::Given).map_err(failed())
    }

    pub(super) fn path(&self) -> &Path {
        match self {
            Self::Given(path) => path,
            Self::Temporary(directory) => directory.path(),
        }
    }

    /// Deletes a temporary directory after a clean run; otherwise prints its path.
    pub(super) fn close(self, is_clean: bool) -> Result<(), RunError> {
        match self {
            Self::Temporary(directory) if is_clean => {
                directory.close().map_err(RunError::io("remove the temporary directory"))?;
            }
            Self::Temporary(directory) => println!("the files of the run are in {}", directory.keep().display()),
            Self::Given(path) => println!("the files of the run are in {}", path.display()),
        }
        Ok(())
    }
}
