//! What the locks say.

use std::sync::Once;

use tracing::Level;
use tracing::instrument::{WithDispatch, WithSubscriber as _};
use tracing::level_filters::LevelFilter;

use super::log::{Line, Listener};

const LOCKS: &str = "curator_recipes";

/// Hears what the locks say up to a level, in the futures that it [listens to](Logs::hear). Clones hear together.
#[derive(Debug, Clone)]
pub(crate) struct Logs(Listener);

impl Logs {
    pub(crate) fn at(level: Level) -> Self {
        // Where it is the only subscriber, `tracing` asks the subscriber of the thread that comes to an event first whether
        // anybody wants it, and remembers that for all threads. With a second one, it asks each time.
        static DEAF: Once = Once::new();
        DEAF.call_once(|| tracing::subscriber::set_global_default(Listener::to(LOCKS, LevelFilter::OFF)).unwrap());
        Self(Listener::to(LOCKS, level.into()))
    }

    /// The same future; what it says is heard.
    pub(crate) fn hear<F: Future>(&self, future: F) -> WithDispatch<F> {
        future.with_subscriber(self.0.clone())
    }

    /// The same for what is not a future.
    pub(crate) fn hear_now<T>(&self, call: impl FnOnce() -> T) -> T {
        tracing::subscriber::with_default(self.0.clone(), call)
    }

    /// What was said in the span with this name, in order.
    pub(crate) fn lines(&self, span: &str) -> Vec<Line> {
        self.0.lines_with("span", span)
    }

    /// The names of the spans that are still open.
    pub(crate) fn open_spans(&self) -> Vec<String> {
        self.0.open_spans()
    }

    /// All that was said, in whichever span.
    pub(crate) fn all(&self) -> Vec<Line> {
        self.0.lines()
    }

    /// The messages of these lines.
    pub(crate) fn messages(&self, span: &str) -> Vec<String> {
        self.lines(span).into_iter().map(|line| line.message).collect()
    }
}
