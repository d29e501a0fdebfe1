//! Prints without panics: a panic would stop the command.

use std::fmt::Display;
use std::io::{self, ErrorKind, Write as _};

use crate::contender::replaced;
use crate::failure::Failure;
use crate::verbose::prefix;

/// A shell's exit code for a program that SIGPIPE has ended.
const PIPE: i32 = 141;

/// Prints a result. Exits if the reader has closed the pipe, as in `zklock ls … | head`.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => std::process::exit(PIPE),
        printed => printed.map_err(|error| Failure::here(format!("cannot print: {error}"))),
    }
}

/// Prints a line for people on standard error, if it is open. It may contain a path that another client has named.
pub(crate) fn print_message(line: impl Display) {
    let lines = line.to_string();
    let lines: Vec<String> = lines.split('\n').map(|line| replaced(line).collect()).collect();
    let _ = writeln!(io::stderr(), "{}{}", prefix(), lines.join("\n"));
}
