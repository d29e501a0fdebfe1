//! Collects the log lines of clients, by client name.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::{Arc, LazyLock, Mutex, Once};

use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::Interest;
use tracing::{Event, Level, Metadata, Subscriber};

/// One event.
#[derive(Debug, Clone)]
pub struct Line {
    pub level: Level,
    pub message: String,
    /// All other fields, as text. For an event in a span, they include the span's fields, and its
    /// name as `span`.
    pub fields: BTreeMap<&'static str, String>,
}

impl Line {
    #[track_caller]
    pub fn get(&self, name: &str) -> &str {
        self.fields
            .get(name)
            .unwrap_or_else(|| panic!("no {name} in {self:?}"))
    }
}

/// The lines of all clients.
static CLIENTS: LazyLock<Listener> =
    LazyLock::new(|| Listener::to("curator_client", LevelFilter::TRACE));

/// Starts to collect every event. All tests of the program share the listener, so each test must
/// give its client a unique name.
pub fn listen() {
    static LISTENING: Once = Once::new();
    LISTENING.call_once(|| tracing::subscriber::set_global_default(CLIENTS.clone()).unwrap());
}

/// The lines that the client named `client` has logged at `info` or above.
pub fn lines_of(client: &str) -> Vec<Line> {
    all_lines_of(client)
        .into_iter()
        .filter(|line| line.level <= Level::INFO)
        .collect()
}

/// All lines that the client named `client` has logged.
pub fn all_lines_of(client: &str) -> Vec<Line> {
    CLIENTS.lines_with("client", client)
}

type Reader = Arc<dyn Fn() + Send + Sync>;

static READERS: Mutex<BTreeMap<String, Reader>> = Mutex::new(BTreeMap::new());

/// Calls `reader` for each event of the client named `client`, while the event is being logged.
pub fn read_by(client: &str, reader: impl Fn() + Send + Sync + 'static) {
    listen();
    READERS
        .lock()
        .unwrap()
        .insert(client.to_owned(), Arc::new(reader));
}

/// Collects the events of one crate, up to a level. Clones share the events.
#[derive(Debug, Clone)]
pub struct Listener {
    target: &'static str,
    level: LevelFilter,
    heard: Arc<Mutex<Heard>>,
}

#[derive(Debug, Default)]
struct Heard {
    lines: Vec<Line>,
    /// By span id: the span's name and fields, and the number of its handles.
    spans: Vec<(Line, usize)>,
}

thread_local! {
    static ENTERED: RefCell<Vec<Id>> = const { RefCell::new(Vec::new()) };
}

impl Listener {
    pub fn to(target: &'static str, level: LevelFilter) -> Self {
        Self {
            target,
            level,
            heard: Arc::default(),
        }
    }

    pub fn lines(&self) -> Vec<Line> {
        self.heard.lock().unwrap().lines.clone()
    }

    /// The lines where `field` has `value`.
    pub fn lines_with(&self, field: &str, value: &str) -> Vec<Line> {
        let heard = self.heard.lock().unwrap();
        heard
            .lines
            .iter()
            .filter(|line| line.fields.get(field).is_some_and(|text| text == value))
            .cloned()
            .collect()
    }

    /// The names of the spans that are open.
    pub fn open_spans(&self) -> Vec<String> {
        let heard = self.heard.lock().unwrap();
        heard
            .spans
            .iter()
            .filter(|(_, handles)| *handles > 0)
            .map(|(span, _)| span.message.clone())
            .collect()
    }
}

/// The index of the span in the list.
fn index(id: &Id) -> usize {
    id.into_u64() as usize - 1
}

impl Subscriber for Listener {
    fn register_callsite(&self, _metadata: &'static Metadata<'static>) -> Interest {
        Interest::sometimes()
    }

    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= self.level && metadata.target().starts_with(self.target)
    }

    fn event(&self, event: &Event<'_>) {
        let mut line = Line {
            level: *event.metadata().level(),
            message: String::new(),
            fields: BTreeMap::new(),
        };
        event.record(&mut line);
        let reader = line
            .fields
            .get("client")
            .and_then(|client| READERS.lock().unwrap().get(client).cloned());
        let mut heard = self.heard.lock().unwrap();
        if let Some((span, _)) = event
            .parent()
            .cloned()
            .or_else(|| ENTERED.with_borrow(|entered| entered.last().cloned()))
            .and_then(|id| heard.spans.get(index(&id)))
        {
            let mut fields = span.fields.clone();
            fields.insert("span", span.message.clone());
            fields.append(&mut line.fields);
            line.fields = fields;
        }
        heard.lines.push(line);
        drop(heard);
        if let Some(reader) = reader {
            reader();
        }
    }

    fn new_span(&self, attributes: &Attributes<'_>) -> Id {
        let metadata = attributes.metadata();
        let mut span = Line {
            level: *metadata.level(),
            message: metadata.name().to_owned(),
            fields: BTreeMap::new(),
        };
        attributes.record(&mut span);
        let mut heard = self.heard.lock().unwrap();
        heard.spans.push((span, 1));
        Id::from_u64(heard.spans.len() as u64)
    }

    fn clone_span(&self, id: &Id) -> Id {
        self.heard.lock().unwrap().spans[index(id)].1 += 1;
        id.clone()
    }

    fn try_close(&self, id: Id) -> bool {
        let mut heard = self.heard.lock().unwrap();
        let (_, handles) = &mut heard.spans[index(&id)];
        *handles -= 1;
        *handles == 0
    }

    fn enter(&self, id: &Id) {
        ENTERED.with_borrow_mut(|entered| entered.push(id.clone()));
    }

    fn exit(&self, _id: &Id) {
        ENTERED.with_borrow_mut(Vec::pop);
    }

    fn record(&self, _id: &Id, _values: &Record<'_>) {}
    fn record_follows_from(&self, _id: &Id, _follows: &Id) {}
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
