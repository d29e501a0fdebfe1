//! The recorded lines of a scenario.

use curator_test::SessionCredentials;

use crate::normal::Normal;

/// The lines of one scenario, and the data needed to write them.
#[derive(Debug)]
pub(crate) struct Transcript {
    pub(crate) text: String,
    pub(crate) normal: Normal,
    /// All granted sessions, to be closed at the end.
    pub(crate) sessions: Vec<SessionCredentials>,
}

impl Transcript {
    pub(crate) fn new(base: i64) -> Self {
        Self {
            text: String::new(),
            normal: Normal::new(base),
            sessions: Vec::new(),
        }
    }

    pub(crate) fn line(&mut self, line: &str) {
        self.text += line;
        self.text.push('\n');
    }
}
