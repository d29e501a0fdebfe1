//! The data in a contender's node: the process, its host and a label.

use rustix::system::uname;
use serde::{Deserialize, Serialize};

use crate::printable::{NAME, printable};

/// The process that created a node, as its data describes it. zklock writes JSON; other clients
/// write an address, an id, or nothing.
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
        Self {
            host,
            pid: Some(std::process::id()),
            label,
        }
    }

    pub(crate) fn to_data(&self) -> Vec<u8> {
        // A map with text keys cannot fail to serialize.
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// Parses a node's data. Data that are not zklock's JSON become the host: Curator's locks write
    /// an address.
    pub(crate) fn from_data(data: &[u8]) -> Self {
        if data == REVOKED {
            return Self {
                label: Some("revocation requested".to_owned()),
                ..Self::default()
            };
        }
        let host = || String::from_utf8_lossy(data).trim().to_owned();
        // serde would also read an array, which other clients may write.
        let is_object = data.trim_ascii_start().starts_with(b"{");
        let contender = is_object
            .then(|| serde_json::from_slice(data).ok())
            .flatten();
        let mut contender = contender.unwrap_or_else(|| Self {
            host: host(),
            ..Self::default()
        });
        std::iter::once(&mut contender.host)
            .chain(&mut contender.label)
            .for_each(shorten);
        contender
    }
}

/// Names the first of these contenders, and counts the others; `None` if there are none.
pub(crate) fn names(contenders: impl IntoIterator<Item = Contender>) -> Option<String> {
    let mut contenders = contenders.into_iter();
    let named: Vec<_> = contenders
        .by_ref()
        .take(MOST_NAMED)
        .map(|contender| contender.to_string())
        .collect();
    match (named.is_empty(), contenders.count()) {
        (true, _) => None,
        (false, 0) => Some(named.join(", ")),
        (false, others) => Some(format!("{} and {others} more", named.join(", "))),
    }
}

/// The most contenders that are named in a line.
const MOST_NAMED: usize = 5;

/// The most characters of a host or a label that are kept.
const LONGEST: usize = 1_000;

fn shorten(text: &mut String) {
    if let Some((end, _)) = text.char_indices().nth(LONGEST) {
        text.truncate(end);
        text.shrink_to_fit();
    }
}

/// What Curator's `Revoker`, and `zklock revoke`, write over the data of the holder's node.
const REVOKED: &[u8] = b"__REVOKE__";

impl std::fmt::Display for Contender {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match printable(&self.host, NAME) {
            host if host.is_empty() => f.write_str("an unnamed client")?,
            host => f.write_str(&host)?,
        }
        if let Some(pid) = self.pid {
            write!(f, " pid {pid}")?;
        }
        self.label
            .as_ref()
            .map_or(Ok(()), |label| write!(f, " ({})", printable(label, NAME)))
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
            (b"", "an unnamed client"),
            (br#"{"host":" ","pid":7}"#, "an unnamed client pid 7"),
            (b"\x1b[2Jx\n", "\u{fffd}[2Jx"),
            (b"\xff", "\u{fffd}"),
            (br#"["web1",7,"x"]"#, r#"["web1",7,"x"]"#),
            ("a\u{202e}b".as_bytes(), "a\u{fffd}b"),
            (b"__REVOKE__", "an unnamed client (revocation requested)"),
            (
                br#"{"host":"web1","pid":7,"label":"a\u001bb"}"#,
                "web1 pid 7 (a\u{fffd}b)",
            ),
            (br#"{"host":"\u001b[2J\nx"}"#, "\u{fffd}[2J\u{fffd}x"),
        ] {
            assert_eq!(Contender::from_data(data).to_string(), shown);
        }
        let long = "ü".repeat(300_000);
        let read =
            Contender::from_data(format!(r#"{{"host":"{long}","label":"{long}"}}"#).as_bytes());
        assert_eq!(
            [&read.host, read.label.as_ref().unwrap()].map(|text| text.chars().count()),
            [LONGEST; 2]
        );
        assert_eq!(read.to_string().chars().count(), 2 * NAME + " ()".len());
    }

    #[test]
    fn only_the_first_contenders_are_named() {
        let named = |count: usize| {
            names((1..=count).map(|id| Contender {
                host: format!("web{id}"),
                ..Contender::default()
            }))
        };
        assert_eq!([named(0), named(1)], [None, Some("web1".to_owned())]);
        assert_eq!(named(5).unwrap(), "web1, web2, web3, web4, web5");
        assert_eq!(named(7).unwrap(), "web1, web2, web3, web4, web5 and 2 more");
    }
}
