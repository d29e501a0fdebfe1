//! Locks that are held for longer than a request.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use curator_recipes::{FencingToken, LockGuard, LockLost};
use tokio::sync::watch;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{info, warn};

use crate::release::{Released, release};

/// The reservations of this process, which holds the guards of their locks. A client must use the
/// same process for all requests on a reservation.
pub(crate) struct Reservations {
    reserved_for: Duration,
    by_key: Mutex<HashMap<String, Reservation>>,
    tasks: TaskTracker,
}

/// A reservation. A separate task holds its guard until the reservation is given back, expires or
/// is lost.
#[derive(Clone)]
struct Reservation {
    token: FencingToken,
    given_back: CancellationToken,
    /// `None` while the reservation lasts.
    end: watch::Receiver<Option<End>>,
}

/// How a reservation has ended.
#[derive(Clone)]
pub(crate) enum End {
    GivenBack,
    /// Given back or expired, but the servers have not confirmed that the lock is free.
    Unconfirmed,
    Expired,
    Lost(LockLost),
}

/// The error if this process has no reservation of the order with this token. Contains how the
/// reservation has ended, if known.
pub(crate) struct NoReservation(Option<End>);

impl Reservations {
    pub(crate) fn new(reserved_for: Duration) -> Self {
        Self {
            reserved_for,
            by_key: Mutex::default(),
            tasks: TaskTracker::new(),
        }
    }

    pub(crate) fn keep(&self, key: String, guard: LockGuard) {
        let token = guard.fencing_token();
        let given_back = CancellationToken::new();
        let (sender, end) = watch::channel(None);
        let reserved = hold(guard, given_back.clone(), self.reserved_for);
        self.tasks
            .spawn(async move { sender.send_replace(Some(reserved.await)) });
        let mut by_key = self.by_key();
        // Ended reservations are kept until the next one is made, so that requests can ask how they
        // have ended.
        by_key.retain(|_, reservation| reservation.end.borrow().is_none());
        by_key.insert(
            key,
            Reservation {
                token,
                given_back,
                end,
            },
        );
    }

    /// Fails if this process has no such reservation. A token alone proves nothing, because any
    /// caller can invent one.
    pub(crate) fn check(&self, key: &str, token: FencingToken) -> Result<(), NoReservation> {
        self.find(key, token).map(drop)
    }

    /// Ends the reservation. Never returns [`End::Expired`] or [`End::Lost`], which are errors.
    pub(crate) async fn give_back(
        &self,
        key: &str,
        token: FencingToken,
    ) -> Result<End, NoReservation> {
        let mut reservation = self.find(key, token)?;
        reservation.given_back.cancel();
        let end = reservation
            .end
            .wait_for(Option::is_some)
            .await
            .ok()
            .and_then(|end| end.clone());
        match end {
            Some(end @ (End::GivenBack | End::Unconfirmed)) => Ok(end),
            end => Err(NoReservation(end)),
        }
    }

    /// Ends all reservations. Releases each guard, because a release reports whether the lock had
    /// been lost, and closing the session does not.
    pub(crate) async fn end_all(&self) {
        let all: Vec<_> = self
            .by_key()
            .drain()
            .filter(|(_, reservation)| reservation.end.borrow().is_none())
            .collect();
        // All tasks are notified before any is awaited, because a release can take a long time in
        // an outage.
        for (key, reservation) in &all {
            info!(key, token = %reservation.token, "gives back a reservation");
            reservation.given_back.cancel();
        }
        self.tasks.close();
        self.tasks.wait().await;
        if all
            .iter()
            .all(|(_, reservation)| matches!(*reservation.end.borrow(), Some(End::GivenBack)))
        {
            info!("all reservations are given back");
        } else {
            warn!("not all reservations could be given back");
        }
    }

    fn find(&self, key: &str, token: FencingToken) -> Result<Reservation, NoReservation> {
        let by_key = self.by_key();
        let reservation = by_key
            .get(key)
            .filter(|reservation| reservation.token == token);
        let reservation = reservation.ok_or(NoReservation(None))?;
        match &*reservation.end.borrow() {
            None => Ok(reservation.clone()),
            Some(end) => Err(NoReservation(Some(end.clone()))),
        }
    }

    fn by_key(&self) -> MutexGuard<'_, HashMap<String, Reservation>> {
        self.by_key.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn hold(guard: LockGuard, given_back: CancellationToken, reserved_for: Duration) -> End {
    let end = tokio::select! {
        () = given_back.cancelled() => End::GivenBack,
        () = sleep(reserved_for) => {
            info!(node = %guard.node(), "a reservation has expired");
            End::Expired
        }
        lost = guard.lost() => {
            warn!(%lost, "a reservation is lost");
            return End::Lost(lost);
        }
    };
    match release(guard).await {
        Released::Confirmed => end,
        Released::Unconfirmed => End::Unconfirmed,
        Released::Lost(lost) => End::Lost(lost),
    }
}

impl fmt::Display for NoReservation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Some(End::GivenBack | End::Unconfirmed) => {
                f.write_str("the reservation has been given back")
            }
            Some(End::Expired) => f.write_str("the reservation has expired"),
            Some(End::Lost(lost)) => write!(f, "the reservation is lost: {lost}"),
            None => f.write_str("this process has no reservation of the order with this token"),
        }
    }
}
