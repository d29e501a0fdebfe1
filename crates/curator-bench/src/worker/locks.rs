//! What a worker needs of a client: its locks, played.

use std::future::Future;
use std::pin::Pin;

use super::session::{Failure, Session};
use crate::protocol::{Act, Done, Lock, Play};

/// The locks of a client.
pub(super) trait Locks {
    type Session: Session;

    /// Says why not, if not.
    fn supports(act: Act, lock: Lock) -> Result<(), &'static str>;

    fn play(sessions: &[Self::Session], play: &Play) -> impl Future<Output = Result<Played, Failure>>;
}

/// What has become of a play.
pub(super) enum Played {
    Done(Done),
    /// The locks are held, and all will wait for them by this.
    Held {
        wait: Wait,
    },
    /// All wait, and will be released by this.
    Queued {
        nanoseconds: u64,
        drain: Drain,
    },
    /// A cache has all nodes, and goes on by this.
    Loaded {
        nanoseconds: u64,
        next: Wait,
    },
    /// It has all changes, and ends by this.
    Current {
        events: u64,
        end: Drain,
    },
}

pub(super) type Wait = Pin<Box<dyn Future<Output = Result<Played, Failure>> + Send>>;
pub(super) type Drain = Pin<Box<dyn Future<Output = Result<Done, Failure>> + Send>>;
