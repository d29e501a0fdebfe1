//! Shows on a terminal who holds the awaited lock, the place in the queue, and the time waited.

use std::convert::Infallible;
use std::io;
use std::time::{Duration, Instant};

use curator_recipes::Participant;
use curator_recipes::client::CuratorClient;
use rustix::termios::tcgetwinsize;

use crate::contender::{Contender, names};
use crate::lock::Lock;
use crate::print::{PATH, end_display, printable, show_display};
use crate::time::text;

/// The time before the first display: enough to acquire a free lock.
const FIRST_DELAY: Duration = Duration::from_millis(500);
const UPDATE_INTERVAL: Duration = Duration::from_secs(1);
/// The width assumed for a terminal that does not report its width.
const DEFAULT_WIDTH: u16 = 80;

/// Updates one line of the terminal until dropped.
pub(crate) async fn show(lock: &Lock, client: &CuratorClient, paths: &[String]) -> Infallible {
    let begun = Instant::now();
    let _line = Line;
    let paths = printable(&paths.join(", "), PATH);
    tokio::time::sleep(FIRST_DELAY).await;
    loop {
        let (holders, place) = match lock.participants().await {
            Ok(participants) => {
                let of_this = client.current_session().map(|session| session.id());
                summary(&participants, |other| of_this == Some(other.session_id))
            }
            // The acquire reports errors that end it.
            Err(_) => ("whose holder cannot be read".to_owned(), String::new()),
        };
        let waited = text(Duration::from_secs(begun.elapsed().as_secs()));
        let line = fitted(
            &format!("zklock: waiting for {paths}, {holders}"),
            &format!("{place}; {waited}"),
            width(),
        );
        show_display(line);
        tokio::time::sleep(UPDATE_INTERVAL).await;
    }
}

/// The holders, and the place of this process among the waiters, if the place is known. With
/// several locks, this process may already hold some of them, and the place is the one in the
/// longest queue.
fn summary(
    participants: &[Participant],
    is_this: impl Fn(&Participant) -> bool,
) -> (String, String) {
    let holders = participants
        .iter()
        .filter(|participant| participant.owns && !is_this(participant));
    let holders = names(holders.map(|holder| Contender::from_data(&holder.data)));
    let holders = holders.map_or_else(
        || "which no client holds now".to_owned(),
        |holders| format!("held by {holders}"),
    );
    let waiters = participants.iter().filter(|participant| !participant.owns);
    let before = |this: &Participant| {
        waiters
            .clone()
            .filter(|other| other.path.parent() == this.path.parent())
            .take_while(|other| other.path != this.path)
            .count()
    };
    let place = match waiters
        .clone()
        .filter(|waiter| is_this(waiter))
        .map(before)
        .max()
    {
        None => String::new(),
        Some(0) => "; next in line".to_owned(),
        Some(before) => format!("; {} in line", ordinal(before + 1)),
    };
    (holders, place)
}

fn ordinal(number: usize) -> String {
    let end = match (number % 10, number % 100) {
        (1, end) if end != 11 => "st",
        (2, end) if end != 12 => "nd",
        (3, end) if end != 13 => "rd",
        _ => "th",
    };
    format!("{number}{end}")
}

/// The columns of the terminal.
fn width() -> usize {
    let width = tcgetwinsize(io::stderr()).map_or(0, |size| size.ws_col);
    usize::from(if width == 0 { DEFAULT_WIDTH } else { width })
}

/// Cuts a line to fit into the terminal, because a wrapped line could not be overwritten: cuts the
/// start before the end.
fn fitted(start: &str, end: &str, width: usize) -> String {
    // The last column stays free: some terminals wrap after it.
    let left = width.saturating_sub(1);
    let start = cut(start, left.saturating_sub(end.len()));
    cut(&(start + end), left)
}

/// Cuts a text to a number of columns. Counts two columns for characters that may be wide.
fn cut(text: &str, mut left: usize) -> String {
    text.chars()
        .take_while(|c| {
            let columns = if c.is_ascii() { 1 } else { 2 };
            let fits = columns <= left;
            left = left.saturating_sub(columns);
            fits
        })
        .collect()
}

/// Ends the display when dropped.
struct Line;

impl Drop for Line {
    fn drop(&mut self) {
        end_display();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_fits_into_its_terminal_also_with_wide_characters() {
        assert_eq!(fitted("abc", "; 5s", 80), "abc; 5s");
        assert_eq!(fitted("abcdef", "; 5s", 9), "abcd; 5s");
        assert_eq!(fitted("a数数数", "; 5s", 9), "a数; 5s");
        assert_eq!(fitted("abc", "; 5s", 4), "; 5");
        assert_eq!(fitted("abc", "; 5s", 0), "");
    }

    #[test]
    fn places_are_ordinal_numbers() {
        let shown = [2, 3, 4, 11, 12, 13, 21, 22, 101, 111, 113]
            .map(ordinal)
            .join(" ");
        assert_eq!(
            shown,
            "2nd 3rd 4th 11th 12th 13th 21st 22nd 101st 111th 113th"
        );
    }
}
