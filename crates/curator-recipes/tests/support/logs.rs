//! What the logs say.

use std::collections::HashMap;
use std::fmt::{Debug, Write as _};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Once};

use tracing::field::{Field, Visit};
use tracing::instrument::{WithDispatch, WithSubscriber as _};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::Interest;
use tracing::{Event, Level, Metadata, Subscriber};

/// Hears what the locks say up to a level, in the futures that it [listens to](Logs::hear). Clones hear together.
#[derive(Debug, Clone)]
pub(crate) struct Logs {
    level: Level,
    heard: Arc<Heard>,
}

#[derive(Debug, Default)]
struct Heard {
    ids: AtomicU64,
    spans: Mutex<HashMap<u64, Fields>>,
    /// How many handles of each span there are.
    open: Mutex<HashMap<u64, usize>>,
    lines: Mutex<Vec<Line>>,
}

/// Wants nothing, and says so each time.
struct Deaf;

/// The name of a span, or the message of an event; then its fields.
#[derive(Debug, Clone, Default)]
struct Fields(String, Vec<(&'static str, String)>);

/// An event, and the span that it belongs to.
#[derive(Debug, Clone)]
pub(crate) struct Line {
    pub(crate) span: Option<String>,
    pub(crate) message: String,
    fields: Vec<(&'static str, String)>,
}

thread_local! {
    static ENTERED: std::cell::RefCell<Vec<u64>> = const { std::cell::RefCell::new(Vec::new()) };
}

impl Logs {
    pub(crate) fn at(level: Level) -> Self {
        // Where it is the only subscriber, `tracing` asks the subscriber of the thread that comes to an event first whether
        // anybody wants it, and remembers that for all threads. With a second one, it asks each time.
        static DEAF: Once = Once::new();
        DEAF.call_once(|| tracing::subscriber::set_global_default(Deaf).unwrap());
        Self { level, heard: Arc::default() }
    }

    /// The same future; what it says is heard.
    pub(crate) fn hear<F: Future>(&self, future: F) -> WithDispatch<F> {
        future.with_subscriber(self.clone())
    }

    /// The same for what is not a future.
    pub(crate) fn hear_now<T>(&self, call: impl FnOnce() -> T) -> T {
        tracing::subscriber::with_default(self.clone(), call)
    }

    /// What was said in the span with this name, in order.
    pub(crate) fn lines(&self, span: &str) -> Vec<Line> {
        let lines = self.heard.lines.lock().unwrap();
        lines.iter().filter(|line| line.span.as_deref() == Some(span)).cloned().collect()
    }

    /// The names of the spans that are still open.
    pub(crate) fn open_spans(&self) -> Vec<String> {
        let (open, spans) = (self.heard.open.lock().unwrap(), self.heard.spans.lock().unwrap());
        open.keys().map(|id| spans[id].0.clone()).collect()
    }

    /// All that was said, in whichever span.
    pub(crate) fn all(&self) -> Vec<Line> {
        self.heard.lines.lock().unwrap().clone()
    }

    /// The messages of these lines.
    pub(crate) fn messages(&self, span: &str) -> Vec<String> {
        self.lines(span).into_iter().map(|line| line.message).collect()
    }
}

impl Line {
    /// A field of the event, or else of its span.
    #[track_caller]
    pub(crate) fn get(&self, name: &str) -> &str {
        let field = self.fields.iter().find(|(field, _)| *field == name);
        field.map(|(_, value)| value.as_str()).unwrap_or_else(|| panic!("no {name} in {self:?}"))
    }
}

impl Line {
    /// The values of all fields, of the event and of its span.
    pub(crate) fn values(&self) -> impl Iterator<Item = &str> {
        self.fields.iter().map(|(_, value)| value.as_str())
    }
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        if field.name() == "message" {
            write!(self.0, "{value:?}").unwrap();
        } else {
            self.1.push((field.name(), format!("{value:?}")));
        }
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.1.push((field.name(), value.to_owned()));
    }
}

impl Subscriber for Deaf {
    fn register_callsite(&self, _metadata: &'static Metadata<'static>) -> Interest {
        Interest::sometimes()
    }

    fn enabled(&self, _metadata: &Metadata<'_>) -> bool {
        false
    }

    fn new_span(&self, _attributes: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _span: &Id, _values: &Record<'_>) {}

    fn record_follows_from(&self, _span: &Id, _follows: &Id) {}

    fn event(&self, _event: &Event<'_>) {}

    fn enter(&self, _span: &Id) {}

    fn exit(&self, _span: &Id) {}
}

impl Subscriber for Logs {
    fn register_callsite(&self, _metadata: &'static Metadata<'static>) -> Interest {
        Interest::sometimes()
    }

    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= self.level && metadata.target().starts_with("curator_recipes")
    }

    fn new_span(&self, attributes: &Attributes<'_>) -> Id {
        let id = self.heard.ids.fetch_add(1, Ordering::Relaxed) + 1;
        let mut fields = Fields(attributes.metadata().name().to_owned(), Vec::new());
        attributes.record(&mut fields);
        self.heard.spans.lock().unwrap().insert(id, fields);
        self.heard.open.lock().unwrap().insert(id, 1);
        Id::from_u64(id)
    }

    fn clone_span(&self, span: &Id) -> Id {
        *self.heard.open.lock().unwrap().get_mut(&span.into_u64()).unwrap() += 1;
        span.clone()
    }

    fn try_close(&self, span: Id) -> bool {
        let mut open = self.heard.open.lock().unwrap();
        let handles = open.get_mut(&span.into_u64()).unwrap();
        *handles -= 1;
        let closes = *handles == 0;
        if closes {
            open.remove(&span.into_u64());
        }
        closes
    }

    fn record(&self, _span: &Id, _values: &Record<'_>) {}

    fn record_follows_from(&self, _span: &Id, _follows: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut fields = Fields::default();
        event.record(&mut fields);
        let inside = || ENTERED.with_borrow(|entered| entered.last().copied());
        let span = event.parent().map(Id::into_u64).or_else(inside);
        let spans = self.heard.spans.lock().unwrap();
        let span = span.and_then(|span| spans.get(&span)).cloned();
        let Fields(message, mut fields) = fields;
        fields.extend(span.iter().flat_map(|Fields(_, of_span)| of_span.clone()));
        let line = Line { span: span.map(|Fields(name, _)| name), message, fields };
        self.heard.lines.lock().unwrap().push(line);
    }

    fn enter(&self, span: &Id) {
        ENTERED.with_borrow_mut(|entered| entered.push(span.into_u64()));
    }

    fn exit(&self, _span: &Id) {
        ENTERED.with_borrow_mut(Vec::pop);
    }
}
