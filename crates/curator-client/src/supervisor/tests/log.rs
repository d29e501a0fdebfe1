//! What clients log, by their names.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::{Arc, Mutex, Once};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

/// One event with the field `client`.
#[derive(Debug, Clone)]
pub(crate) struct Line {
    pub(crate) level: Level,
    pub(crate) message: String,
    /// All other fields, as text.
    pub(crate) fields: BTreeMap<&'static str, String>,
}

static LINES: Mutex<Vec<Line>> = Mutex::new(Vec::new());

/// Makes sure that everything is kept from now on. It is shared by all tests of the program, so each of them gives its
/// client a name of its own.
pub(crate) fn listen() {
    static LISTENING: Once = Once::new();
    LISTENING.call_once(|| tracing::subscriber::set_global_default(Listener).unwrap());
}

/// What the client of that name has logged so far at `info` or above.
pub(crate) fn lines_of(client: &str) -> Vec<Line> {
    all_lines_of(client).into_iter().filter(|line| line.level <= Level::INFO).collect()
}

/// What the client of that name has logged so far.
pub(crate) fn all_lines_of(client: &str) -> Vec<Line> {
    let lines = LINES.lock().unwrap();
    lines.iter().filter(|line| line.fields.get("client").is_some_and(|name| name == client)).cloned().collect()
}

type Reader = Arc<dyn Fn() + Send + Sync>;

static READERS: Mutex<BTreeMap<String, Reader>> = Mutex::new(BTreeMap::new());

/// Calls `reader` for each event of the client of that name, while it is being logged.
pub(crate) fn read_by(client: &str, reader: impl Fn() + Send + Sync + 'static) {
    listen();
    READERS.lock().unwrap().insert(client.to_owned(), Arc::new(reader));
}

struct Listener;

impl Subscriber for Listener {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("curator_client")
    }

    fn event(&self, event: &Event<'_>) {
        let mut line = Line { level: *event.metadata().level(), message: String::new(), fields: BTreeMap::new() };
        event.record(&mut line);
        let client = line.fields.get("client").cloned().unwrap_or_default();
        LINES.lock().unwrap().push(line);
        let reader = READERS.lock().unwrap().get(&client).cloned();
        if let Some(reader) = reader {
            reader();
        }
    }

    fn new_span(&self, _span: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _span: &Id, _values: &Record<'_>) {}
    fn record_follows_from(&self, _span: &Id, _follows: &Id) {}
    fn enter(&self, _span: &Id) {}
    fn exit(&self, _span: &Id) {}
}

impl Visit for Line {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.fields.insert(field.name(), value.to_owned());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        match field.name() {
            "message" => self.message = format!("{value:?}"),
            name => drop(self.fields.insert(name, format!("{value:?}"))),
        }
    }
}
