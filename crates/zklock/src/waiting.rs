//! Shows on a terminal who holds the awaited lock, the place in the queue, and the time waited.

use std::convert::Infallible;
use std::io::{self, Write as _};
use std::time::{Duration, Instant};

use curator_recipes::Participant;
use rustix::termios::tcgetwinsize;

use crate::clock::text;
use crate::contender::Contender;
use crate::lock::Lock;

/// The time before the first display: enough to acquire a free lock.
const FIRST_DELAY: Duration = Duration::from_millis(500);
const UPDATE_INTERVAL: Duration = Duration::from_secs(1);

/// Updates one line of the terminal until dropped.
pub(crate) async fn show(lock: &Lock, paths: &[String]) -> Infallible {
    let (this, begun, mut line) = (Contender::this(None), Instant::now(), Line::default());
    tokio::time::sleep(FIRST_DELAY).await;
    loop {
        // Errors are not shown here: the acquire reports them.
        if let Ok(participants) = lock.participants().await {
            let waited = text(Duration::from_secs(begun.elapsed().as_secs()));
            line.show(&format!(
                "zklock: waiting for {}, {}; {waited}",
                paths.join(", "),
                summary(&participants, &this)
            ));
        }
        tokio::time::sleep(UPDATE_INTERVAL).await;
    }
}

/// The holders, and how many waiters are before this process.
fn summary(participants: &[Participant], this: &Contender) -> String {
    let is_this = |participant: &Participant| {
        let contender = Contender::from_data(&participant.data);
        (&contender.host, contender.pid) == (&this.host, this.pid)
    };
    let before =
        participants.iter().take_while(|participant| !is_this(participant)).filter(|other| !other.owns).count();
    // With several locks, this process may already hold some of them.
    let holders = participants.iter().filter(|participant| participant.owns && !is_this(participant));
    let holders: Vec<_> = holders.map(|holder| Contender::from_data(&holder.data).to_string()).collect();
    format!("held by {}; {before} before this one", holders.join(", "))
}

/// A terminal line that each `show` overwrites. Dropping it prints a line feed.
#[derive(Default)]
struct Line {
    is_shown: bool,
}

impl Line {
    fn show(&mut self, line: &str) {
        // A wrapped line could not be overwritten.
        let width = tcgetwinsize(io::stderr()).map_or(80, |size| usize::from(size.ws_col)).saturating_sub(1);
        let line: String = line.chars().take(width).collect();
        self.is_shown = write!(io::stderr(), "\r{line:<width$}").is_ok();
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        if self.is_shown {
            let _ = writeln!(io::stderr());
        }
    }
}
