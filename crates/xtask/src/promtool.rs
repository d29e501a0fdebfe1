//! Tests the alert rules with `promtool`, which is part of Prometheus.

use std::{fs, path::PathBuf, process::Command};

use crate::{command, debian, distribution::find_on_path, print_line, target_dir, workspace};

/// Finds `promtool`, or extracts it from Debian's package `prometheus`. Does not install the
/// package, as it would start a service.
pub(crate) fn prepare() -> Result<PathBuf, String> {
    let directory = target_dir()?.join("prometheus");
    let unpacked = directory.join("usr/bin/promtool");
    let found = find_on_path("promtool").or_else(|| unpacked.is_file().then(|| unpacked.clone()));
    let promtool = match found {
        Some(promtool) => promtool,
        None => {
            fs::create_dir_all(&directory)
                .map_err(|e| format!("cannot create {}: {e}", directory.display()))?;
            debian::unpack("prometheus", &directory)?;
            unpacked
        }
    };
    print_line(&format!("promtool at {}", promtool.display()));
    Ok(promtool)
}

/// Checks the rules, and runs their tests.
pub(crate) fn test() -> Result<(), String> {
    let promtool = prepare()?;
    for words in [
        ["check", "rules", "alerts.yml"],
        ["test", "rules", "alerts.test.yml"],
    ] {
        command::run(
            Command::new(&promtool)
                .args(words)
                .current_dir(workspace().join("docs/operations")),
        )?;
    }
    Ok(())
}
