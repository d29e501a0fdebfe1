//! The kind of server that the tests run on, and the report of the servers that they have started.
//!
//! `cargo xtask` compiles this file too, so that it parses the variable in the same way, and reads
//! the report. Therefore this file uses only `std`.

use std::{
    env,
    ffi::{OsStr, OsString},
    fmt,
    fs::OpenOptions,
    io::Write,
    str::FromStr,
    time::Duration,
};

/// The environment variable that selects the kind of server: `embedded`, `real` or `simulated`.
pub const SERVER_VARIABLE: &str = "CURATOR_TEST_SERVER";

/// The kind of server behind a `TestingServer`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[non_exhaustive]
pub enum ServerKind {
    /// A server in the test's process, in memory. It needs no Java, and starts in milliseconds.
    #[default]
    Embedded,
    /// Apache ZooKeeper in a separate process. It needs Java and an installed ZooKeeper, and starts
    /// within a second.
    Real,
    /// A follower in an ensemble of three servers, which are simulated in the test's process, in
    /// real time. It applies each change some milliseconds after its leader. It keeps all changes
    /// in memory, and needs the feature `simulation`, which is on by default.
    Simulated,
}

/// The error for a name that no [`ServerKind`] has.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct UnknownKind {
    /// The name.
    pub name: OsString,
}

impl fmt::Display for UnknownKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{SERVER_VARIABLE} is \"{}\", which is not a kind of server: set it to `embedded`, `real` or `simulated`, or \
             unset it, which means `embedded`",
            self.name.display()
        )
    }
}

impl std::error::Error for UnknownKind {}

impl ServerKind {
    /// All kinds.
    pub const ALL: [Self; 3] = [Self::Embedded, Self::Real, Self::Simulated];

    /// The kind selected by the environment variable [`SERVER_VARIABLE`]. Defaults to `Embedded`.
    ///
    /// # Errors
    ///
    /// When the variable has another value than the [name](Self::name) of a kind, for example an
    /// empty one.
    pub fn from_environment() -> Result<Self, UnknownKind> {
        Self::from_variable(env::var_os(SERVER_VARIABLE).as_deref())
    }

    /// The name in [`SERVER_VARIABLE`]: `embedded`, `real` or `simulated`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Embedded => "embedded",
            Self::Real => "real",
            Self::Simulated => "simulated",
        }
    }

    fn from_variable(value: Option<&OsStr>) -> Result<Self, UnknownKind> {
        let Some(value) = value else {
            return Ok(Self::default());
        };
        value
            .to_str()
            .ok_or_else(|| UnknownKind {
                name: value.to_owned(),
            })?
            .parse()
    }
}

impl FromStr for ServerKind {
    type Err = UnknownKind;

    fn from_str(name: &str) -> Result<Self, UnknownKind> {
        let named = Self::ALL.into_iter().find(|kind| kind.name() == name);
        named.ok_or_else(|| UnknownKind { name: name.into() })
    }
}

impl fmt::Display for ServerKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The environment variable with the path of a report file. Each started server appends one line:
/// its kind, its version, the package of the test, and how many microseconds the server took to
/// become ready.
pub const REPORT_VARIABLE: &str = "CURATOR_TEST_REPORT";

/// Reports that a server is ready. Does nothing without the variable. If the file cannot be
/// written, the test does not fail; `cargo xtask test` fails afterwards if a package whose tests
/// need servers has no line.
pub(crate) fn server_started(kind: &str, version: Option<&str>, took: Duration) {
    let Some(path) = env::var_os(REPORT_VARIABLE) else {
        return;
    };
    // Cargo sets this to the package of the test program.
    let package = env::var("CARGO_PKG_NAME").unwrap_or_else(|_| "unknown".to_owned());
    let line = format!(
        "{kind} {} {package} {}\n",
        version.unwrap_or("unknown"),
        took.as_micros()
    );
    // One write in append mode, so that lines of several processes do not mix.
    let written = OpenOptions::new()
        .create(true)
        .append(true)
        .open(path)
        .and_then(|mut f| f.write_all(line.as_bytes()));
    drop(written);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(value: &str) -> Result<ServerKind, UnknownKind> {
        ServerKind::from_variable(Some(value.as_ref()))
    }

    #[test]
    fn an_unknown_server_kind_is_refused_by_name() {
        for value in ["Real", "", "docker", "real "] {
            let error = kind(value).unwrap_err();
            assert_eq!(error.name, value);
            let text = error.to_string();
            assert!(
                text.contains(&format!("\"{value}\"")) && text.contains(SERVER_VARIABLE),
                "{text}"
            );
            assert!(
                ServerKind::ALL
                    .iter()
                    .all(|kind| text.contains(&format!("`{kind}`"))),
                "{text}"
            );
        }
    }
}
