//! Names the row of a table at which a test fails.

use std::fmt::Debug;

/// Prints the row if the test panics before the value is dropped, so that assertions do not have to
/// name it.
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
