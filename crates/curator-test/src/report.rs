//! Tells `cargo xtask test` on which servers the tests ran.
//!
//! `cargo xtask` compiles this file too, so it uses only `std`.

use std::{env, fs::OpenOptions, io::Write, time::Duration};

/// The environment variable that names a report file. The file gets one line for each server that is started: its kind, its
/// version, the package whose test it was for, and how many microseconds it took until it was ready.
pub const REPORT_VARIABLE: &str = "CURATOR_TEST_REPORT";

/// Reports that a server is ready. Without the variable, or when the file cannot be written, nothing happens: a report must
/// not fail a test, and a missing line fails the run.
pub(crate) fn server_started(kind: &str, version: Option<&str>, took: Duration) {
    let Some(path) = env::var_os(REPORT_VARIABLE) else { return };
    // Cargo tells a test program which package it belongs to.
    let package = env::var("CARGO_PKG_NAME").unwrap_or_else(|_| "unknown".to_owned());
    let line = format!("{kind} {} {package} {}\n", version.unwrap_or("unknown"), took.as_micros());
    // One write in append mode, so that lines of several processes do not mix.
    let written =
        OpenOptions::new().create(true).append(true).open(path).and_then(|mut f| f.write_all(line.as_bytes()));
    drop(written);
}
