//! Shows the progress of a run on standard error.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

use crate::peer::Peer;

/// A bar with a step for each case; if standard error is not a terminal, a line for each case.
#[derive(Debug)]
pub(crate) struct Progress(ProgressBar);

impl Progress {
    pub(crate) fn new(steps: usize) -> Self {
        let bar = ProgressBar::new(steps as u64);
        let style =
            ProgressStyle::with_template("{elapsed_precise} [{bar:30}] {pos}/{len} {wide_msg}");
        // The default style is the fallback for a malformed template.
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        bar.enable_steady_tick(Duration::from_secs(1));
        Self(bar)
    }

    pub(crate) fn show(&self, environment: &str, case: &str, peer: Peer, what: &str) {
        self.0
            .set_message(format!("{environment}: {case}: {peer} {what}"));
    }

    pub(crate) fn done(&self, environment: &str, case: &str) {
        self.0.inc(1);
        if self.0.is_hidden() {
            eprintln!(
                "{environment}: {case} is done, {} of {}",
                self.0.position(),
                self.0.length().unwrap_or(0)
            );
        }
    }

    pub(crate) fn finish(&self) {
        self.0.finish_and_clear();
    }
}
