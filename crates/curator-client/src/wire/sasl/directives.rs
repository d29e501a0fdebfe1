//! The messages of DIGEST-MD5: a list of directives, `name=value,name="value"` (RFC 2831, 7.1). No
//! I/O.

use std::borrow::Cow;

/// The longest message of a server (RFC 2831, 2.1.1 and 2.1.3).
const LONGEST: usize = 2_048;

/// What is wrong with a message of the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(in crate::wire) struct Failure(pub(super) &'static str);

/// The directives of a message, in order.
pub(super) struct Directives<'a>(Vec<(Cow<'a, str>, Cow<'a, [u8]>)>);

impl<'a> Directives<'a> {
    pub(super) fn parse(message: &'a [u8]) -> Result<Self, Failure> {
        if message.len() >= LONGEST {
            return Err(Failure("the message is too long"));
        }
        let mut directives = Vec::new();
        let mut rest = message;
        loop {
            // Elements of a list may be empty.
            rest = trim_start(rest, |byte| is_space(byte) || byte == b',');
            if rest.is_empty() {
                return Ok(Self(directives));
            }
            let (name, after) = token(rest).ok_or(Failure("a directive has no name"))?;
            let after = trim_start(after, is_space)
                .strip_prefix(b"=")
                .ok_or(Failure("a directive has no value"))?;
            let (value, after) = value(trim_start(after, is_space))?;
            directives.push((String::from_utf8_lossy(name), value));
            rest = trim_start(after, is_space);
            if rest.first().is_some_and(|byte| *byte != b',') {
                return Err(Failure("a directive does not end with a comma"));
            }
        }
    }

    /// The values of a directive. The case of its name does not matter.
    pub(super) fn all(&self, name: &str) -> impl Iterator<Item = &[u8]> {
        self.0
            .iter()
            .filter(move |(other, _)| other.eq_ignore_ascii_case(name))
            .map(|(_, value)| &**value)
    }

    /// The value of a directive that may occur once.
    pub(super) fn one(&self, name: &str) -> Result<Option<&[u8]>, Failure> {
        let mut values = self.all(name);
        let value = values.next();
        if values.next().is_some() {
            Err(Failure("a directive is repeated"))
        } else {
            Ok(value)
        }
    }
}

/// Encloses a value in quotes.
pub(super) fn quoted(value: &[u8]) -> Vec<u8> {
    let mut quoted = vec![b'"'];
    for byte in value {
        if matches!(byte, b'"' | b'\\') {
            quoted.push(b'\\');
        }
        quoted.push(*byte);
    }
    quoted.push(b'"');
    quoted
}

/// Splits off a value, in quotes or without.
fn value(text: &[u8]) -> Result<(Cow<'_, [u8]>, &[u8]), Failure> {
    let Some(text) = text.strip_prefix(b"\"") else {
        let (value, rest) = token(text).ok_or(Failure("a directive has no value"))?;
        return Ok((value.into(), rest));
    };
    let mut value = Vec::new();
    let mut bytes = text.iter();
    while let Some(byte) = bytes.next() {
        match byte {
            b'"' => return Ok((value.into(), bytes.as_slice())),
            b'\\' => value.extend(bytes.next()),
            _ => value.push(*byte),
        }
    }
    Err(Failure("a quoted value has no end"))
}

/// Splits off a token of at least one byte.
fn token(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = text
        .iter()
        .position(|byte| !is_token_byte(*byte))
        .unwrap_or(text.len());
    text.split_at_checked(end)
        .filter(|(token, _)| !token.is_empty())
}

fn is_token_byte(byte: u8) -> bool {
    byte.is_ascii_graphic() && !br#"()<>@,;:\"/[]?={}"#.contains(&byte)
}

fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r' | b'\n')
}

fn trim_start(text: &[u8], is_omitted: impl Fn(u8) -> bool) -> &[u8] {
    let start = text
        .iter()
        .position(|byte| !is_omitted(*byte))
        .unwrap_or(text.len());
    text.get(start..).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directives_are_split_at_commas_outside_of_quotes() {
        let message = b" , a=1 ,\r\n B = \"x, \\\"y\\\" \\\\\",,b=\"\",c=\"\\\xe9\" ";
        let directives = Directives::parse(message).unwrap();
        assert_eq!(directives.one("a"), Ok(Some(&b"1"[..])));
        let all: Vec<_> = directives.all("b").collect();
        assert_eq!(all, [&b"x, \"y\" \\"[..], b""]);
        assert_eq!(directives.one("b"), Err(Failure("a directive is repeated")));
        assert_eq!(directives.one("c"), Ok(Some(&b"\xe9"[..])));
        assert_eq!(directives.one("d"), Ok(None));
    }

    #[test]
    fn a_message_that_is_not_a_list_of_directives_is_refused() {
        for (message, why) in [
            (&b"a"[..], "a directive has no value"),
            (b"a=", "a directive has no value"),
            (b"a=,b=1", "a directive has no value"),
            (b"=1", "a directive has no name"),
            (b"\xff=1", "a directive has no name"),
            (b"a=\"1", "a quoted value has no end"),
            (b"a=\"1\\\"", "a quoted value has no end"),
            (b"a=\"\\", "a quoted value has no end"),
            (b"a=\"\\\\\\\\", "a quoted value has no end"),
            (b"a=1 b=2", "a directive does not end with a comma"),
            (b"a=\"1\"2", "a directive does not end with a comma"),
            (&[b','; LONGEST], "the message is too long"),
        ] {
            assert_eq!(
                Directives::parse(message).err(),
                Some(Failure(why)),
                "{message:?}"
            );
        }
        assert!(Directives::parse(&[b','; LONGEST - 1]).is_ok());
    }

    #[test]
    fn a_value_is_unchanged_by_quoting_and_parsing() {
        for value in [&b""[..], b"a", b"\"", b"\\", b"a\\\"b,c=\xff"] {
            let message = [b"a=".to_vec(), quoted(value)].concat();
            assert_eq!(
                Directives::parse(&message).unwrap().one("a"),
                Ok(Some(value))
            );
        }
    }
}
