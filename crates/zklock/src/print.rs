//! Prints results on standard output, and messages and the waiting display on standard error.
//!
//! A panic would stop the command, so nothing here panics. A write can block arbitrarily long:
//! after Ctrl-S on the terminal, or in a full pipe. So a separate thread writes messages and the
//! display, and never blocks the thread that holds the lock.
//!
//! Text from other clients and from servers, such as names, paths, data and errors, could control
//! the terminal, or forge lines of zklock. So it is made printable.

use std::collections::VecDeque;
use std::fmt::Display;
use std::io::{self, ErrorKind};
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, SystemTime};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::stdio::{stderr, stdout};

use crate::failure::Failure;

/// A shell's exit code for a program that SIGPIPE has ended.
const PIPE: i32 = 141;
/// The most messages that wait while standard error is blocked. Later messages are dropped.
const MOST_MESSAGES: usize = 64;
/// How long the end of zklock waits for the last messages.
const LAST_WAIT: Duration = Duration::from_secs(1);

/// Prints lines of a result. Exits if the reader has closed the pipe, as in `zklock ls … | head`.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    match write_all(stdout(), &printable_lines(text)) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => {
            finish();
            std::process::exit(PIPE)
        }
        printed => printed.map_err(|error| Failure::here(format!("cannot print: {error}"))),
    }
}

/// Prints lines about the command line on standard error, if it is open.
pub(crate) fn print_usage_error(text: &str) {
    let _ = write_all(stderr(), &printable_lines(text));
}

/// Writes a text. If the output is non-blocking, because a process that shares it has set it so,
/// waits until the output is writable.
fn write_all(output: BorrowedFd<'_>, text: &str) -> io::Result<()> {
    let mut rest = text.as_bytes();
    while !rest.is_empty() {
        match rustix::io::write(output, rest) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(count) => rest = rest.get(count..).unwrap_or_default(),
            Err(Errno::AGAIN) => match poll(
                &mut [PollFd::from_borrowed_fd(output, PollFlags::OUT)],
                None,
            ) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            },
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Prints a message on standard error, if it is open. The message may contain a path or an error
/// that another client or a server has written. Does not block.
pub(crate) fn print_message(line: impl Display) {
    let line = line.to_string().replace('\n', " ");
    MESSAGES.send(|pending| pending.add(format!("{}{}\n", prefix(), printable(&line, SENTENCE))));
}

/// Replaces the line of the waiting display on the terminal. Does not block.
pub(crate) fn show_display(line: String) {
    MESSAGES.send(|pending| pending.display = Some(Shown::Line(line)));
}

/// Ends the waiting display with a line feed. Does not block.
pub(crate) fn end_display() {
    MESSAGES.send(|pending| pending.display = Some(Shown::End));
}

/// Waits until all messages are written, but only briefly. Call this before the process ends.
pub(crate) fn finish() {
    let mut state = MESSAGES.lock();
    if !state.is_started
        && let Some(text) = state.pending.take()
    {
        // At the limit of processes, the thread could not be started.
        drop(state);
        let _ = write_all(stderr(), &text);
        return;
    }
    let _ = MESSAGES
        .changed
        .wait_timeout_while(state, LAST_WAIT, |state| {
            state.is_writing || state.pending.has_any()
        });
}

static MESSAGES: Messages = Messages {
    state: Mutex::new(State::new()),
    changed: Condvar::new(),
};

/// The text still to be written, shared with the thread that writes it.
struct Messages {
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    pending: Pending,
    is_started: bool,
    is_writing: bool,
}

/// The text that waits to be written.
#[derive(Default)]
struct Pending {
    messages: VecDeque<String>,
    dropped: usize,
    /// Only the newest display matters.
    display: Option<Shown>,
    /// Whether the last line on the terminal is a display, without a line feed.
    is_displayed: bool,
}

enum Shown {
    Line(String),
    End,
}

impl Messages {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn send(&'static self, add: impl FnOnce(&mut Pending)) {
        let mut state = self.lock();
        add(&mut state.pending);
        if !state.is_started {
            // If this fails, the next message tries again.
            let thread = std::thread::Builder::new().name("messages".to_owned());
            state.is_started = thread.spawn(|| self.write()).is_ok();
        }
        self.changed.notify_all();
    }

    /// Writes all messages, forever. After an error, such as on a closed terminal, drops the text.
    fn write(&self) {
        let mut state = self.lock();
        loop {
            let Some(text) = state.pending.take() else {
                state = self
                    .changed
                    .wait(state)
                    .unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            state.is_writing = true;
            drop(state);
            let _ = write_all(stderr(), &text);
            state = self.lock();
            state.is_writing = false;
            self.changed.notify_all();
        }
    }
}

impl State {
    const fn new() -> Self {
        let pending = Pending {
            messages: VecDeque::new(),
            dropped: 0,
            display: None,
            is_displayed: false,
        };
        Self {
            pending,
            is_started: false,
            is_writing: false,
        }
    }
}

impl Pending {
    fn add(&mut self, message: String) {
        if self.messages.len() < MOST_MESSAGES {
            self.messages.push_back(message);
        } else {
            self.dropped += 1;
        }
    }

    fn has_any(&self) -> bool {
        !self.messages.is_empty() || self.display.is_some()
    }

    /// The text to write next: the messages below the display, then the display.
    fn take(&mut self) -> Option<String> {
        if !self.has_any() {
            return None;
        }
        let ends = !self.messages.is_empty() || matches!(self.display, Some(Shown::End));
        let mut text = if ends && std::mem::take(&mut self.is_displayed) {
            "\n".to_owned()
        } else {
            String::new()
        };
        text.extend(self.messages.drain(..));
        match std::mem::take(&mut self.dropped) {
            0 => {}
            dropped => {
                text += &format!(
                    "zklock: {dropped} more messages were dropped, as the output was blocked\n"
                );
            }
        }
        if let Some(Shown::Line(line)) = self.display.take() {
            self.is_displayed = true;
            // The escape sequence clears the rest of the last display.
            text += &format!("\r{line}\x1b[K");
        }
        Some(text)
    }
}

static VERBOSE: OnceLock<()> = OnceLock::new();
static IS_QUIET: AtomicBool = AtomicBool::new(false);

/// Prints each step from now on.
pub(crate) fn set_verbose() {
    let _ = VERBOSE.set(());
}

/// Sets whether warnings are dropped: with `--quiet`, until it is certain that the exit code is not
/// 121.
pub(crate) fn set_quiet(is_quiet: bool) {
    IS_QUIET.store(is_quiet, Ordering::Relaxed);
}

/// Prints a warning, such as about the connection, unless warnings are dropped.
pub(crate) fn warn(line: impl Display) {
    if !IS_QUIET.load(Ordering::Relaxed) {
        print_message(line);
    }
}

/// Prints a step, if `--verbose` is set.
pub(crate) fn step(line: impl Display) {
    if VERBOSE.get().is_some() {
        print_message(line);
    }
}

/// The beginning of each message: the name of the program; with `--verbose`, also the time, in UTC,
/// as servers log it.
fn prefix() -> String {
    match VERBOSE.get() {
        Some(()) => format!(
            "zklock: {} ",
            humantime::format_rfc3339_millis(SystemTime::now())
        ),
        None => "zklock: ".to_owned(),
    }
}

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

/// Replaces the characters that a terminal interprets in lines of text, and keeps their blanks.
pub(crate) fn printable_lines(text: &str) -> String {
    let mut lines = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        let content = line.strip_suffix('\n');
        lines.extend(replaced(content.unwrap_or(line).chars()));
        lines.extend(content.map(|_| '\n'));
    }
    lines
}

/// Replaces the characters that a terminal interprets, and the marks beyond [`MOST_MARKS`] on one
/// character.
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

/// The same JSON, with the characters that a terminal interprets escaped as `\u` and four digits.
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

/// Whether this character is a mark that is drawn onto the character before it. Many marks would
/// cover the lines around the character. These are the blocks for all scripts; a single script has
/// few marks on one character.
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
    fn messages_beyond_the_bound_are_counted() {
        let mut pending = Pending::default();
        for number in 0..MOST_MESSAGES + 3 {
            pending.add(format!("{number}\n"));
        }
        let text = pending.take().unwrap();
        assert_eq!(text.lines().count(), MOST_MESSAGES + 1);
        assert!(
            text.ends_with("63\nzklock: 3 more messages were dropped, as the output was blocked\n"),
            "{text}"
        );
        assert!(pending.take().is_none());
    }

    #[test]
    fn only_the_newest_display_is_written_and_a_message_starts_on_its_own_line() {
        let mut pending = Pending::default();
        let mut step = |message: Option<&str>, display: Option<Shown>| {
            message
                .into_iter()
                .for_each(|message| pending.add(message.to_owned()));
            pending.display = display;
            pending.take().unwrap_or_default()
        };
        let line = |line: &str| Some(Shown::Line(line.to_owned()));
        assert_eq!(step(None, Some(Shown::End)), "");
        assert_eq!(step(None, line("one")), "\rone\x1b[K");
        assert_eq!(
            step(Some("message\n"), line("two")),
            "\nmessage\n\rtwo\x1b[K"
        );
        assert_eq!(step(None, Some(Shown::End)), "\n");
        assert_eq!(step(Some("message\n"), None), "message\n");
    }

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
