//! Makes text of other clients and of servers printable: their names, paths, data and errors. Such
//! text could otherwise control the terminal, or forge lines of zklock.

/// The most characters of a host or a label on a terminal.
pub(crate) const NAME: usize = 60;
/// The most characters of a path.
pub(crate) const PATH: usize = 1_000;
/// The most characters of a sentence.
pub(crate) const SENTENCE: usize = 4_000;
/// The most marks on one character, such as accents. Written languages have fewer.
const MOST_MARKS: usize = 4;

/// One line of text: line breaks and blanks at the ends are removed, other characters that a
/// terminal interprets are replaced, and at most `longest` characters are kept.
pub(crate) fn printable(text: &str, longest: usize) -> String {
    let mut kept = text.trim().chars();
    let mut line: String = replaced(kept.by_ref().take(longest)).collect();
    if kept.next().is_some() {
        line.pop();
        line.push('…');
    }
    line
}

/// Lines of text, with their blanks, in which characters that a terminal interprets are replaced.
pub(crate) fn printable_lines(text: &str) -> String {
    let mut lines = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        let content = line.strip_suffix('\n');
        lines.extend(replaced(content.unwrap_or(line).chars()));
        lines.extend(content.map(|_| '\n'));
    }
    lines
}

/// These characters, without those that a terminal interprets, and with few marks on one character.
fn replaced(text: impl Iterator<Item = char>) -> impl Iterator<Item = char> {
    text.scan(0, |marks, c| {
        *marks = if is_mark(c) { *marks + 1 } else { 0 };
        let is_kept = !is_interpreted(c) && *marks <= MOST_MARKS;
        Some(if is_kept {
            c
        } else {
            char::REPLACEMENT_CHARACTER
        })
    })
}

/// JSON of the same meaning without characters that a terminal interprets: as `\u` and four digits.
pub(crate) fn printable_json(json: &str) -> String {
    let mut text = String::with_capacity(json.len());
    for c in json.chars() {
        if is_interpreted(c) {
            // These characters occur only inside strings, where an escape means the same.
            c.encode_utf16(&mut [0; 2])
                .iter()
                .for_each(|unit| text += &format!("\\u{unit:04x}"));
        } else {
            text.push(c);
        }
    }
    text
}

/// Whether this character is drawn onto the one before it. Many of them cover the lines around it.
/// These are the blocks that are for all scripts; the marks of a single script are few on one
/// character.
fn is_mark(c: char) -> bool {
    matches!(c,
        '\u{300}'..='\u{36f}' | '\u{483}'..='\u{489}' | '\u{1ab0}'..='\u{1aff}' | '\u{1dc0}'..='\u{1dff}'
        | '\u{20d0}'..='\u{20ff}' | '\u{fe20}'..='\u{fe2f}')
}

/// Whether a terminal may act on this character, or hide it: controls, line separators, writing
/// directions, joiners, fillers, variation selectors, and other characters without a width.
fn is_interpreted(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{180e}' | '\u{200b}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}'
            | '\u{ffa0}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e01ef}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_one_bounded_line_that_no_terminal_interprets() {
        for (text, shown) in [
            ("  web1\n", "web1"),
            (
                "\u{1b}]0;x\u{7}\u{1b}[2J",
                "\u{fffd}]0;x\u{fffd}\u{fffd}[2J",
            ),
            (
                "a\nzklock: b\r\u{85}\u{2028}c\u{7f}\u{9b}2J",
                "a\u{fffd}zklock: b\u{fffd}\u{fffd}\u{fffd}c\u{fffd}\u{fffd}2J",
            ),
            (
                "\u{202e}a\u{2066}b\u{200d}c\u{feff}\u{e0041}",
                "\u{fffd}a\u{fffd}b\u{fffd}c\u{fffd}\u{fffd}",
            ),
            ("ünï 数", "ünï 数"),
            (
                "a\u{3164}b\u{115f}c\u{1160}d\u{34f}e\u{fe0f}f",
                "a\u{fffd}b\u{fffd}c\u{fffd}d\u{fffd}e\u{fffd}f",
            ),
            ("n\u{303}", "n\u{303}"),
            (
                "a\u{301}\u{301}\u{301}\u{301}\u{301}\u{301}b",
                "a\u{301}\u{301}\u{301}\u{301}\u{fffd}\u{fffd}b",
            ),
        ] {
            assert_eq!(printable(text, NAME), shown);
        }
        assert_eq!(printable(&"x".repeat(300_000), 5), "xxxx…");
        assert_eq!(
            printable_lines("a\n  b\r\u{9b}2J\n\n c"),
            "a\n  b\u{fffd}\u{fffd}2J\n\n c"
        );
        assert_eq!(printable("12345", 5), "12345");
    }

    #[test]
    fn json_keeps_its_meaning() {
        let text = "\u{1b}\u{7f}\u{9b}2J\u{202e}\u{2028}\u{e0041}ü数\"\\";
        let json = printable_json(&serde_json::to_string(text).unwrap());
        assert_eq!(
            json,
            "\"\\u001b\\u007f\\u009b2J\\u202e\\u2028\\udb40\\udc41ü数\\\"\\\\\""
        );
        assert_eq!(serde_json::from_str::<String>(&json).unwrap(), text);
    }
}
