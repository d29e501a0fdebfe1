//! Configuration files, and the program with one.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use crate::support::{Printed, finished, path, zklock};

/// Writes a file with these permissions, and the directories above it.
pub(crate) fn write(file: &Path, text: &str, mode: u32) {
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    std::fs::write(file, text).unwrap();
    std::fs::set_permissions(file, std::fs::Permissions::from_mode(mode)).unwrap();
}

/// `zklock tree` with these variables and without servers in the environment; a `None` removes the
/// variable.
pub(crate) async fn printed(variables: &[(&str, Option<&Path>)]) -> Printed {
    printed_by(&format!("tree {}", path("configured")), variables).await
}

pub(crate) async fn printed_by(options: &str, variables: &[(&str, Option<&Path>)]) -> Printed {
    let mut command = zklock("", options, None);
    for (name, value) in variables {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    finished(command.spawn().unwrap()).await
}
