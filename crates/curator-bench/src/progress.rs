//! What a run is doing, on standard error.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

use crate::peer::Peer;

/// A bar with a step for each case. Where there is no terminal, a line for each case.
#[derive(Debug)]
pub(crate) struct Progress(ProgressBar);

impl Progress {
    pub(crate) fn new(steps: usize) -> Self {
        let bar = ProgressBar::new(steps as u64);
        let style = ProgressStyle::with_template("{elapsed_precise} [{bar:30}] {pos}/{len} {wide_msg}");
        // The template is right, or the default one will do.
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        bar.enable_steady_tick(Duration::from_secs(1));
        Self(bar)
    }

    pub(crate) fn tell(&self, place: &str, case: &str, peer: Peer, what: &str) {
        self.0.set_message(format!("{place}: {case}: {peer} {what}"));
    }

    pub(crate) fn done(&self, place: &str, case: &str) {
        self.0.inc(1);
        if self.0.is_hidden() {
            eprintln!("{place}: {case} is done, {} of {}", self.0.position(), self.0.length().unwrap_or(0));
        }
    }

    pub(crate) fn finish(&self) {
        self.0.finish_and_clear();
    }
}
