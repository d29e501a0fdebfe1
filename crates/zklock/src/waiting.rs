//! Shows on a terminal who holds the awaited lock, the place in the queue, and the time waited.

use std::convert::Infallible;
use std::io::{self, Write as _};
use std::time::{Duration, Instant};

use curator_recipes::Participant;
use rustix::termios::tcgetwinsize;

use crate::clock::text;
use crate::contender::Contender;
use crate::lock::Lock;

/// Long enough to acquire a free lock without a display.
const FIRST: Duration = Duration::from_millis(500);
const EVERY: Duration = Duration::from_secs(1);

/// Updates one line of the terminal until dropped.
pub(crate) async fn show(lock: &Lock, paths: &[String]) -> Infallible {
    let (this, begun, mut line) = (Contender::this(None), Instant::now(), Line::default());
    tokio::time::sleep(FIRST).await;
    loop {
        // The wait itself reports errors.
        if let Ok(participants) = lock.participants().await {
            let waited = text(Duration::from_secs(begun.elapsed().as_secs()));
            line.show(&format!(
                "zklock: waiting for {}, {}; {waited}",
                paths.join(", "),
                summary(&participants, &this)
            ));
        }
        tokio::time::sleep(EVERY).await;
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
    // Of several locks, this process may already hold some.
    let holders = participants.iter().filter(|participant| participant.owns && !is_this(participant));
    let holders: Vec<_> = holders.map(|holder| Contender::from_data(&holder.data).to_string()).collect();
    let place = match before {
        0 => "next in line".to_owned(),
        1 => "1 waits before it".to_owned(),
        more => format!("{more} wait before it"),
    };
    format!("held by {}; {place}", holders.join(", "))
}

/// A line that is overwritten. The drop ends it.
#[derive(Default)]
struct Line {
    length: usize,
}

impl Line {
    fn show(&mut self, line: &str) {
        let width = tcgetwinsize(io::stderr()).map_or(80, |size| usize::from(size.ws_col));
        let line: String = line.chars().take(width.saturating_sub(1)).collect();
        let _ = write!(io::stderr(), "\r{line:<length$}", length = self.length);
        self.length = line.chars().count();
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        if self.length > 0 {
            let _ = writeln!(io::stderr());
        }
    }
}
