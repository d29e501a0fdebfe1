//! Records the holds of one part.

use std::sync::Arc;

use curator_recipes::Error;

use super::held::Held;
use super::history_file::HistoryFile;
use super::lock::Grant;
use crate::history::{HoldId, What};
use crate::work::Part;

/// Writes the events of one part to the history.
#[derive(Debug)]
pub(super) struct PartHistory {
    part: Part,
    file: Arc<HistoryFile>,
}

impl PartHistory {
    pub(super) fn new(part: Part, file: &Arc<HistoryFile>) -> Self {
        Self {
            part,
            file: Arc::clone(file),
        }
    }

    pub(super) fn file(&self) -> &HistoryFile {
        &self.file
    }

    /// Records the start of a hold that was requested at `asked`.
    pub(super) fn begin(&self, grant: &Grant, asked: u64, continues: Option<HoldId>) -> HoldId {
        let (hold, held) = (self.file.next_hold(), &grant.held);
        self.file.write(What::Acquired {
            hold,
            part: self.part.key(),
            owner: self.file.owner(&held.owner()),
            asked,
            session: held.session(),
            claims: grant.claims.clone(),
            reentry: held.is_reentry(),
            continues,
        });
        hold
    }

    /// Records that an acquire returned no guard.
    pub(super) fn not_acquired(&self, asked: u64, error: Option<Error>) {
        let error = error.map(|error| error.to_string());
        self.file.write(What::NotAcquired {
            part: self.part.key(),
            asked,
            error,
        });
    }

    /// Releases a hold, and records the release.
    pub(super) async fn end(&self, hold: HoldId, held: Held) {
        self.releasing(hold);
        self.released(hold, held.release().await.err().as_ref());
    }

    pub(super) fn releasing(&self, hold: HoldId) {
        self.file.write(What::Releasing { hold });
    }

    pub(super) fn released(&self, hold: HoldId, error: Option<&Error>) {
        self.file.write(What::Released {
            hold,
            error: error.map(ToString::to_string),
        });
    }
}
