//! Parses the words of a line in a transcript.

/// The part of a line that is not parsed yet.
#[derive(Debug, Clone, Copy)]
pub struct Words<'a>(pub &'a str);

impl<'a> Words<'a> {
    /// The next word; empty at the end.
    pub fn next(&mut self) -> &'a str {
        self.up_to(self.0.find(' ').unwrap_or(self.0.len()))
    }

    /// The value of `name=value`, if `name` is next. A list is one value.
    pub fn value(&mut self, name: &str) -> Option<&'a str> {
        let value = self.0.strip_prefix(name)?.strip_prefix('=')?;
        self.0 = value;
        Some(if value.starts_with('[') {
            self.up_to(value.find(']')? + 1)
        } else {
            self.next()
        })
    }

    pub fn number(&mut self, name: &str) -> Option<i64> {
        self.value(name)
            .map(|number| number.parse().expect("a number"))
    }

    /// The offset from the initial zxid: 3 for `name=z+3`.
    pub fn zxid(&mut self, name: &str) -> Option<i64> {
        self.value(name)?.strip_prefix("z+")?.parse().ok()
    }

    /// Text in quotes.
    pub fn text(&mut self) -> String {
        self.data()
            .map(String::from_utf8)
            .expect("not null")
            .expect("text")
    }

    /// Text in quotes, or null.
    pub fn data(&mut self) -> Option<Vec<u8>> {
        let Some(quoted) = self.0.strip_prefix('"') else {
            assert_eq!(self.next(), "null", "neither text nor null");
            return None;
        };
        let mut chars = quoted.chars();
        let mut text = String::new();
        loop {
            match chars.next().expect("a closing quote") {
                '"' => break,
                '\\' => text.push(escaped(&mut chars)),
                plain => text.push(plain),
            }
        }
        self.0 = chars.as_str();
        Some(self.lengthened(text.into_bytes()))
    }

    /// Bytes such as `<00ff>`, if they are next.
    pub fn bytes(&mut self) -> Option<Vec<u8>> {
        let digits = self.0.strip_prefix('<')?;
        let end = digits.find('>')?;
        self.0 = &digits[end + 1..];
        let byte = |at| u8::from_str_radix(&digits[at..at + 2], 16).expect("hexadecimal digits");
        Some(self.lengthened((0..end).step_by(2).map(byte).collect()))
    }

    /// Extends a shortened text to its full length, by repeating its last byte. In a transcript,
    /// the full length follows the text: `…(300 bytes)`.
    fn lengthened(&mut self, mut bytes: Vec<u8>) -> Vec<u8> {
        if let Some(rest) = self.0.strip_prefix("…(") {
            let (length, rest) = rest.split_once(" bytes)").expect("a length");
            bytes.resize(
                length.parse().expect("a length"),
                *bytes.last().expect("a last byte"),
            );
            self.0 = rest;
        }
        self.up_to(0);
        bytes
    }

    /// Takes the text before `end`, and skips the space after it.
    fn up_to(&mut self, end: usize) -> &'a str {
        let (word, rest) = self.0.split_at(end);
        self.0 = rest.strip_prefix(' ').unwrap_or(rest);
        word
    }
}

/// The character of an escape sequence, in Rust's syntax.
fn escaped(chars: &mut std::str::Chars<'_>) -> char {
    match chars.next() {
        Some('0') => '\0',
        Some('t') => '\t',
        Some('n') => '\n',
        Some('r') => '\r',
        Some('u') => {
            let digits: String = chars
                .by_ref()
                .skip(1)
                .take_while(|char| *char != '}')
                .collect();
            u32::from_str_radix(&digits, 16)
                .ok()
                .and_then(char::from_u32)
                .expect("a character")
        }
        other => other.expect("a character"),
    }
}
