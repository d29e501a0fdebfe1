//! Tells on a terminal for whom zklock waits.

use std::convert::Infallible;
use std::time::{Duration, SystemTime};

use curator_recipes::Participant;

use crate::clock::text;
use crate::contender::Contender;
use crate::lock::Lock;
use crate::print::tell;

/// Long enough for a lock that is free.
const FIRST: Duration = Duration::from_millis(500);
const EVERY: Duration = Duration::from_secs(2);

/// Prints a line whenever it changes who holds the lock, or how many are before this process.
pub(crate) async fn show(lock: &Lock, paths: &[String]) -> Infallible {
    let this = Contender::this(None);
    let mut told = None;
    tokio::time::sleep(FIRST).await;
    loop {
        // An error is reported by the wait itself.
        if let Ok(participants) = lock.participants().await {
            let (holders, before) = summary(&participants, &this);
            if told.as_ref() != Some(&(holders.clone(), before)) {
                let since =
                    participants.iter().filter(|participant| participant.owns).map(|holder| holder.created).min();
                let since = since.and_then(|since| SystemTime::now().duration_since(since).ok());
                let since = since
                    .map_or(String::new(), |since| format!(", for {}", text(Duration::from_secs(since.as_secs()))));
                tell(format_args!(
                    "waits for {}: held by {holders}{since}; {before} before this one",
                    paths.join(", ")
                ));
                told = Some((holders, before));
            }
        }
        tokio::time::sleep(EVERY).await;
    }
}

/// The holders, and how many wait before this process.
fn summary(participants: &[Participant], this: &Contender) -> (String, usize) {
    let is_this = |participant: &Participant| {
        let contender = Contender::from_data(&participant.data);
        (&contender.host, contender.pid) == (&this.host, this.pid)
    };
    let before =
        participants.iter().take_while(|participant| !is_this(participant)).filter(|waiter| !waiter.owns).count();
    let holders = participants.iter().filter(|participant| participant.owns);
    let holders: Vec<_> = holders.map(|holder| Contender::from_data(&holder.data).to_string()).collect();
    (holders.join(", "), before)
}
