//! The recorded lines of a scenario, with fixed names in place of the values that a server chooses
//! freely.

use std::time::{SystemTime, UNIX_EPOCH};

use curator_test::SessionCredentials;

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

/// How far a creation time may be from the present, in milliseconds. The server uses the test
/// machine's clock; a minute allows for the slowest machine.
const CLOCK: u128 = 60_000;

/// The names of one scenario for the values that the server chose.
#[derive(Debug)]
pub(crate) struct Normal {
    /// The last zxid before the scenario.
    pub(crate) base: i64,
    sessions: Vec<i64>,
    passwords: Vec<Vec<u8>>,
}

impl Normal {
    pub(crate) fn new(base: i64) -> Self {
        Self {
            base,
            sessions: Vec::new(),
            passwords: Vec::new(),
        }
    }

    /// `z+3` for the third transaction of the scenario.
    pub(crate) fn zxid(&self, zxid: i64) -> String {
        match zxid - self.base {
            _ if zxid <= 0 => zxid.to_string(),
            0 => "z".to_owned(),
            1.. => format!("z+{}", zxid - self.base),
            _ => "before".to_owned(),
        }
    }

    /// `s1` for the first session.
    pub(crate) fn session(&mut self, id: i64) -> String {
        if id == 0 {
            "0".to_owned()
        } else {
            format!("s{}", position(&mut self.sessions, id))
        }
    }

    /// `p1` for the first password.
    pub(crate) fn password(&mut self, password: Option<&[u8]>) -> String {
        match password {
            None => "null".to_owned(),
            Some(password) if password.iter().all(|byte| *byte == 0) => {
                format!("zero*{}", password.len())
            }
            Some(password) if password.len() == 16 => {
                format!("p{}", position(&mut self.passwords, password.to_vec()))
            }
            Some(password) => format!("{password:?}"),
        }
    }

    /// The id of a session by its name. An unknown name stands for a session that never existed.
    pub(crate) fn session_of(&mut self, name: &str) -> i64 {
        of_name(&mut self.sessions, name, "s", 77)
    }

    /// A password by its name. An unknown name stands for a wrong password.
    pub(crate) fn password_of(&mut self, name: &str) -> Vec<u8> {
        match name.strip_prefix("zero*") {
            Some(length) => vec![0; length.parse().unwrap()],
            None => of_name(&mut self.passwords, name, "p", vec![7; 16]),
        }
    }

    /// A node's owner. For containers and nodes with a time to live, servers show 0 to clients.
    pub(crate) fn owner(&mut self, owner: i64) -> String {
        if owner == 0 || self.sessions.contains(&owner) {
            self.session(owner)
        } else {
            format!("{owner:#x}")
        }
    }

    /// Times vary from run to run, so two facts are recorded: whether the creation time is close to
    /// the present, and how the modification time compares with it.
    pub(crate) fn times(&self, ctime: i64, mtime: i64, version: i32) -> String {
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap()
            .as_millis();
        let created = match u128::try_from(ctime) {
            Ok(0) => "0",
            Ok(time) if now.abs_diff(time) < CLOCK => "now",
            _ => "wrong",
        };
        let written = match mtime.cmp(&ctime) {
            std::cmp::Ordering::Less => "<ctime",
            _ if version > 0 => ">=ctime",
            std::cmp::Ordering::Equal => "=ctime",
            std::cmp::Ordering::Greater => ">ctime",
        };
        format!("ctime={created} mtime{written}")
    }
}

/// The position of `item` in `items`, counted from 1. Adds it if it is new.
fn position<T: PartialEq>(items: &mut Vec<T>, item: T) -> usize {
    items
        .iter()
        .position(|known| *known == item)
        .unwrap_or_else(|| {
            items.push(item);
            items.len() - 1
        })
        + 1
}

/// The item with this name. If it is missing, `new` is added as the next item.
fn of_name<T: PartialEq + Clone>(items: &mut Vec<T>, name: &str, prefix: &str, new: T) -> T {
    let place: usize = name
        .strip_prefix(prefix)
        .and_then(|number| number.parse().ok())
        .expect("a name with a number");
    if place > items.len() {
        position(items, new);
    }
    items[place - 1].clone()
}
