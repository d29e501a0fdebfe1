//! Makes text of other clients and of servers printable: their names, paths, data and errors. Such text could otherwise
//! control the terminal, or forge lines of zklock.

/// The most characters of a host or a label on a terminal.
pub(crate) const NAME: usize = 60;
/// The most characters of a path.
pub(crate) const PATH: usize = 1_000;
/// The most characters of a sentence.
pub(crate) const SENTENCE: usize = 4_000;

/// One line of text: line breaks and blanks at the ends are removed, other characters that a terminal interprets are
/// replaced, and at most `longest` characters are kept.
pub(crate) fn printable(text: &str, longest: usize) -> String {
    let mut kept = text.trim().chars();
    let mut line: String = kept.by_ref().take(longest).map(replaced).collect();
    if kept.next().is_some() {
        line.pop();
        line.push('…');
    }
    line
}

/// A character that a terminal does not interpret.
pub(crate) fn replaced(c: char) -> char {
    if is_interpreted(c) { char::REPLACEMENT_CHARACTER } else { c }
}

/// JSON of the same meaning without characters that a terminal interprets: as `\u` and four digits.
pub(crate) fn printable_json(json: &str) -> String {
    let mut text = String::with_capacity(json.len());
    for c in json.chars() {
        if is_interpreted(c) {
            // These characters occur only inside strings, where an escape means the same.
            c.encode_utf16(&mut [0; 2]).iter().for_each(|unit| text += &format!("\\u{unit:04x}"));
        } else {
            text.push(c);
        }
    }
    text
}

/// Whether a terminal may act on this character, or hide it: controls, line separators, writing directions, joiners, and
/// other characters without a width.
fn is_interpreted(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_one_bounded_line_that_no_terminal_interprets() {
        for (text, shown) in [
            ("  web1\n", "web1"),
            ("\u{1b}]0;x\u{7}\u{1b}[2J", "\u{fffd}]0;x\u{fffd}\u{fffd}[2J"),
            (
                "a\nzklock: b\r\u{85}\u{2028}c\u{7f}\u{9b}2J",
                "a\u{fffd}zklock: b\u{fffd}\u{fffd}\u{fffd}c\u{fffd}\u{fffd}2J",
            ),
            ("\u{202e}a\u{2066}b\u{200d}c\u{feff}\u{e0041}", "\u{fffd}a\u{fffd}b\u{fffd}c\u{fffd}\u{fffd}"),
            ("ünï 数", "ünï 数"),
        ] {
            assert_eq!(printable(text, NAME), shown);
        }
        assert_eq!(printable(&"x".repeat(300_000), 5), "xxxx…");
        assert_eq!(printable("12345", 5), "12345");
    }

    #[test]
    fn json_keeps_its_meaning() {
        let text = "\u{1b}\u{7f}\u{9b}2J\u{202e}\u{2028}\u{e0041}ü数\"\\";
        let json = printable_json(&serde_json::to_string(text).unwrap());
        assert_eq!(json, "\"\\u001b\\u007f\\u009b2J\\u202e\\u2028\\udb40\\udc41ü数\\\"\\\\\"");
        assert_eq!(serde_json::from_str::<String>(&json).unwrap(), text);
    }
}
