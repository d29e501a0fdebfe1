//! The data in a contender's node: the process, its host and a label.

use rustix::system::uname;
use serde::{Deserialize, Serialize};

/// The process that created a node, as its data describes it. zklock writes JSON; other clients write an address, an
/// id, or nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Contender {
    pub(crate) host: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) pid: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) label: Option<String>,
}

impl Contender {
    /// This process.
    pub(crate) fn this(label: Option<String>) -> Self {
        let host = uname().nodename().to_string_lossy().into_owned();
        Self { host, pid: Some(std::process::id()), label }
    }

    pub(crate) fn to_data(&self) -> Vec<u8> {
        // A map with text keys cannot fail to serialize.
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// Parses a node's data. Data that are not zklock's JSON become the host: Curator's locks write an address.
    pub(crate) fn from_data(data: &[u8]) -> Self {
        if data == REVOKED {
            return Self { label: Some("revocation requested".to_owned()), ..Self::default() };
        }
        let host = || printable(&String::from_utf8_lossy(data));
        serde_json::from_slice(data).unwrap_or_else(|_| Self { host: host(), ..Self::default() })
    }
}

/// What Curator's `Revoker`, and `zklock revoke`, write over the data of the holder's node.
const REVOKED: &[u8] = b"__REVOKE__";

/// Trims a node's text, [replaces](replaced) the characters that a terminal interprets, and keeps at most 60 characters.
pub(crate) fn printable(text: &str) -> String {
    replaced(text.trim()).take(60).collect()
}

/// Replaces the characters that a terminal interprets, such as a change of the writing direction.
pub(crate) fn replaced(text: &str) -> impl Iterator<Item = char> {
    let is_interpreted = |c: char| {
        c.is_control()
            || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    text.chars().map(move |c| if is_interpreted(c) { '\u{fffd}' } else { c })
}

impl std::fmt::Display for Contender {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if self.host.is_empty() { "-".to_owned() } else { printable(&self.host) }.as_str())?;
        if let Some(pid) = self.pid {
            write!(f, " pid {pid}")?;
        }
        self.label.as_ref().map_or(Ok(()), |label| write!(f, " ({})", printable(label)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_of_any_client_are_shown_without_control_characters() {
        let this = Contender::this(Some("nightly".to_owned()));
        assert_eq!(Contender::from_data(&this.to_data()), this);
        for (data, shown) in [
            (&b"10.0.0.7"[..], "10.0.0.7"),
            (b"", "-"),
            (b"\x1b[2Jx\n", "\u{fffd}[2Jx"),
            (b"\xff", "\u{fffd}"),
            ("a\u{202e}b".as_bytes(), "a\u{fffd}b"),
            (b"__REVOKE__", "- (revocation requested)"),
            (br#"{"host":"web1","pid":7,"label":"a\u001bb"}"#, "web1 pid 7 (a\u{fffd}b)"),
            (br#"{"host":"\u001b[2J\nx"}"#, "\u{fffd}[2J\u{fffd}x"),
        ] {
            assert_eq!(Contender::from_data(data).to_string(), shown);
        }
    }
}
