//! Reports to `cargo xtask test` which servers the tests used.
//!
//! `cargo xtask` compiles this file too. Therefore it uses only `std`.

use std::{env, fs::OpenOptions, io::Write, time::Duration};

/// The environment variable with the path of a report file. Each started server appends one line:
/// its kind, its version, the package of the test, and how many microseconds the server took to
/// become ready.
pub const REPORT_VARIABLE: &str = "CURATOR_TEST_REPORT";

/// Reports that a server is ready. Does nothing without the variable. If the file cannot be
/// written, the test does not fail; `cargo xtask test` fails afterwards if a package whose tests
/// need servers has no line.
pub(crate) fn server_started(kind: &str, version: Option<&str>, took: Duration) {
    let Some(path) = env::var_os(REPORT_VARIABLE) else {
        return;
    };
    // Cargo sets this to the package of the test program.
    let package = env::var("CARGO_PKG_NAME").unwrap_or_else(|_| "unknown".to_owned());
    let line = format!(
        "{kind} {} {package} {}\n",
        version.unwrap_or("unknown"),
        took.as_micros()
    );
    // One write in append mode, so that lines of several processes do not mix.
    let written = OpenOptions::new()
        .create(true)
        .append(true)
        .open(path)
        .and_then(|mut f| f.write_all(line.as_bytes()));
    drop(written);
}
