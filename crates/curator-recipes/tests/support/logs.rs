//! Captures the log lines of the recipes.

use std::sync::Once;

use tracing::Level;
use tracing::instrument::{WithDispatch, WithSubscriber as _};
use tracing::level_filters::LevelFilter;

use test_support::log::{Line, Listener};

const TARGET: &str = "curator_recipes";

/// Captures the recipes' lines up to a level, in the futures that [`capture`](Logs::capture) wraps.
/// Clones share their lines.
#[derive(Debug, Clone)]
pub(crate) struct Logs(Listener);

impl Logs {
    pub(crate) fn at(level: Level) -> Self {
        // With one subscriber, `tracing` asks the subscriber of the first thread that reaches an
        // event whether it is interested, and caches the result for all threads. With a second
        // subscriber, `tracing` asks each time.
        static DISABLED: Once = Once::new();
        DISABLED.call_once(|| {
            tracing::subscriber::set_global_default(Listener::to(TARGET, LevelFilter::OFF))
                .unwrap();
        });
        Self(Listener::to(TARGET, level.into()))
    }

    /// Wraps the future so that its lines are captured.
    pub(crate) fn capture<F: Future>(&self, future: F) -> WithDispatch<F> {
        future.with_subscriber(self.0.clone())
    }

    /// Captures the lines of a synchronous call.
    pub(crate) fn capture_call<T>(&self, call: impl FnOnce() -> T) -> T {
        tracing::subscriber::with_default(self.0.clone(), call)
    }

    /// The lines of the span with this name, in order.
    pub(crate) fn lines(&self, span: &str) -> Vec<Line> {
        self.0.lines_with("span", span)
    }

    /// The names of the spans that are still open.
    pub(crate) fn open_spans(&self) -> Vec<String> {
        self.0.open_spans()
    }

    /// All lines, of any span.
    pub(crate) fn all(&self) -> Vec<Line> {
        self.0.lines()
    }

    /// The messages of the span's lines.
    pub(crate) fn messages(&self, span: &str) -> Vec<String> {
        self.lines(span)
            .into_iter()
            .map(|line| line.message)
            .collect()
    }
}
