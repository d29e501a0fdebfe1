//! Names the row of a table at which a test fails.

use std::fmt::Debug;

/// Prints the row if a panic drops this value, so that assertions do not have to name the row.
#[derive(Debug)]
#[must_use]
pub(crate) struct Row(String);

impl Row {
    pub(crate) fn of(row: impl Debug) -> Self {
        Self(format!("{row:?}"))
    }
}

impl Drop for Row {
    fn drop(&mut self) {
        if std::thread::panicking() {
            println!("failed in the row {}", self.0);
        }
    }
}
