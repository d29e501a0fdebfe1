//! The programs of a run: see the library.

use std::env;
use std::process::ExitCode;

fn main() -> ExitCode {
    match env::args().nth(1).as_deref() {
        Some("worker") => curator_jepsen::worker::run(),
        _ => ExitCode::from(2),
    }
}
