//! Which row of a table a test has come to.

use std::fmt::Debug;

/// Says it if the test fails before this is dropped, so that no assertion has to.
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
