//! Decides when a command has to be stopped. Pure computation, without a process or a clock; the
//! guardian applies it.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::failure::Failure;
use crate::time::{Moment, text};

/// The grace period, the margin before the end of the lease, and the interval of the checks.
///
/// A session whose probes are answered has at least 5/12 of its timeout left, even through a short
/// reconnect (see `SessionLease::probe_interval`). The guardian learns of a longer lease at the
/// next check. So a command is not stopped as long as the period, the margin and the interval add
/// up to less than 5/12 of the timeout.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Grace {
    pub(crate) period: Duration,
    pub(crate) margin: Duration,
    pub(crate) tick: Duration,
    /// The granted session timeout.
    timeout: Duration,
}

/// Why a command may have to be stopped soon.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Doubt {
    /// No reply has arrived for longer than a probe interval.
    NoReply,
    /// Replies arrive, but too late to extend the lease before the command must be stopped.
    Unconfirmed,
}

impl Grace {
    /// The longest default period.
    const LONGEST_DEFAULT: Duration = Duration::from_secs(10);

    /// `timeout` is the session timeout that the servers have granted. The default period is a
    /// sixth of the timeout, at most 10 s. Fails if `period` is too long for the timeout.
    pub(crate) fn new(period: Option<Duration>, timeout: Duration) -> Result<Self, Failure> {
        let most = timeout.mul_f64(0.3);
        let period = match period {
            Some(period) if period > most => {
                let period = text(period);
                let most = text(most);
                let timeout = text(timeout);
                return Err(Failure::here(format!(
                    "--grace {period} is too long: at most 0.3 of the session timeout, {most} of {timeout}; raise --session-timeout"
                )));
            }
            Some(period) => period,
            None => Self::LONGEST_DEFAULT.min(timeout / 6),
        };
        Ok(Self {
            period,
            margin: Duration::from_secs(1).min(timeout / 10),
            tick: timeout / 40,
            timeout,
        })
    }

    /// The doubt about a session whose lease lasts for `left`, and whose last reply arrived
    /// `since_reply` ago. `before_stop` is the rest of the lease when the command is stopped.
    pub(crate) fn doubt(
        &self,
        left: Duration,
        since_reply: Duration,
        before_stop: Duration,
    ) -> Option<Doubt> {
        // The doubt begins four checks before the stop, but never while replies are fast.
        let warning = (before_stop + 4 * self.tick).min(self.timeout * 5 / 12);
        // A probe is sent every sixth of the timeout.
        let is_silent = since_reply > self.timeout / 6 + self.timeout / 24;
        (left < warning).then_some(if is_silent {
            Doubt::NoReply
        } else {
            Doubt::Unconfirmed
        })
    }
}

/// What to do when the lock is lost or in doubt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum, Serialize, Deserialize)]
pub(crate) enum OnLost {
    /// Send TERM, and KILL after the grace period.
    Term,
    /// Send KILL.
    Kill,
    /// Let the command run.
    Ignore,
}

/// The next action of the guardian.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// Do nothing until this moment, or until zklock sends the next
    /// [`Order`](crate::guardian::Order).
    Wait(Moment),
    Term,
    Kill,
    /// Exit, and let the command run.
    Leave,
}

/// Computes when to send TERM and KILL to the command.
///
/// With [`OnLost::Term`], TERM is due when the rest of the lease is at most the grace period plus
/// the margin. KILL is due after the grace period, and at the latest one margin before the lease
/// ends, so the command has ended before another client can get the lock. With [`OnLost::Kill`],
/// KILL is due one margin before the lease ends, without TERM.
///
/// After [`Stopping::stop`], TERM (with `Kill`, KILL) is due immediately. With [`OnLost::Ignore`],
/// the command is left running.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Stopping {
    on_lost: OnLost,
    grace: Duration,
    margin: Duration,
    /// The end of the lease: until then, no server ends the session.
    pub(crate) valid_until: Moment,
    is_stop_ordered: bool,
    /// When [`Step::Term`] was returned.
    terminated: Option<Moment>,
}

impl Stopping {
    pub(crate) fn new(
        on_lost: OnLost,
        grace: Duration,
        margin: Duration,
        valid_until: Moment,
    ) -> Self {
        Self {
            on_lost,
            grace,
            margin,
            valid_until,
            is_stop_ordered: false,
            terminated: None,
        }
    }

    /// Call this when the lock is lost, when a client has requested it, or when zklock has ended.
    pub(crate) fn stop(&mut self) {
        self.is_stop_ordered = true;
    }

    /// Returns the action that is due. Call this again at the moment of [`Step::Wait`], and after
    /// each order.
    pub(crate) fn step(&mut self, now: Moment) -> Step {
        if self.on_lost == OnLost::Ignore {
            return if self.is_stop_ordered {
                Step::Leave
            } else {
                Step::Wait(Moment::MAX)
            };
        }
        let last = self.valid_until.saturating_sub(self.margin);
        let due = match self.terminated {
            Some(terminated) => last.min(terminated + self.grace),
            None if self.is_stop_ordered => now,
            None if self.on_lost == OnLost::Kill => last,
            None => last.saturating_sub(self.grace),
        };
        if now < due {
            return Step::Wait(due);
        }
        if self.on_lost == OnLost::Kill || self.terminated.is_some() {
            return Step::Kill;
        }
        self.terminated = Some(now);
        Step::Term
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The rest of a healthy session's lease at `time`, in 480ths of the session timeout. Each
    /// reply takes at most 10 parts, and the replies extend the lease every 80 parts. A connection
    /// that is replaced at `reconnect` extends the lease to 15/16.
    fn left(time: u32, reconnect: u32) -> u32 {
        let unbroken = |since: u32, first: u32| first - since % 80;
        match time.checked_sub(reconnect) {
            None => unbroken(time, 280),
            Some(since) if since < 170 => 450 - since,
            Some(since) => unbroken(since - 170, 280),
        }
    }

    #[test]
    fn a_healthy_session_through_a_reconnect_in_any_phase_neither_stops_its_command_nor_warns() {
        for seconds in [1, 4, 6, 10, 20, 30, 40, 90, 300] {
            let timeout = Duration::from_secs(seconds);
            let at = |parts: u32| Duration::from_secs(3_600) + timeout / 480 * parts;
            let grace = Grace::new(None, timeout).unwrap();
            for (reconnect, check) in (0..80)
                .step_by(4)
                .flat_map(|reconnect| (0..12).map(move |check| (240 + reconnect, check)))
            {
                let new = |now| {
                    Stopping::new(
                        OnLost::Term,
                        grace.period,
                        grace.margin,
                        at(now + left(now, reconnect)),
                    )
                };
                let mut stopping = new(0);
                for time in 0..960 {
                    // zklock checks every 40th of the timeout; the guardian may read the clock at
                    // any moment.
                    if time % 12 == check {
                        stopping.valid_until = at(time + left(time, reconnect));
                    }
                    let step = stopping.step(at(time));
                    assert!(
                        matches!(step, Step::Wait(_)),
                        "T {seconds} s, cut at {reconnect}: {step:?} at {time}"
                    );
                    let left = timeout / 480 * left(time, reconnect);
                    let doubt = grace.doubt(left, timeout / 6, grace.margin + grace.period);
                    assert_eq!(doubt, None, "T {seconds} s, cut at {reconnect}, at {time}");
                }
            }
        }
    }

    #[test]
    fn a_short_lease_means_no_reply_only_if_none_has_arrived_for_longer_than_a_probe_interval() {
        let grace = Grace::new(None, Duration::from_secs(24)).unwrap();
        let before_stop = grace.margin + grace.period;
        let doubt = |left, since_reply| {
            grace.doubt(
                Duration::from_secs(left),
                Duration::from_secs(since_reply),
                before_stop,
            )
        };
        assert_eq!((doubt(10, 4), doubt(10, 20)), (None, None));
        assert_eq!(
            (doubt(7, 4), doubt(7, 5), doubt(7, 6)),
            (
                Some(Doubt::Unconfirmed),
                Some(Doubt::Unconfirmed),
                Some(Doubt::NoReply)
            )
        );
        assert_eq!(doubt(0, 24), Some(Doubt::NoReply));
    }

    #[test]
    fn the_default_grace_period_is_a_sixth_of_the_session_timeout_up_to_ten_seconds() {
        let period = |seconds| {
            Grace::new(None, Duration::from_secs(seconds))
                .unwrap()
                .period
        };
        assert_eq!(
            (period(6), period(60), period(600)),
            (
                Duration::from_secs(1),
                Duration::from_secs(10),
                Duration::from_secs(10)
            )
        );
        let longest = Duration::from_millis(2_999);
        assert_eq!(
            Grace::new(Some(longest), Duration::from_secs(10))
                .unwrap()
                .period,
            longest
        );
        assert!(Grace::new(Some(Duration::from_millis(3_001)), Duration::from_secs(10)).is_err());
    }

    const fn at(seconds: u64) -> Moment {
        Duration::from_secs(seconds)
    }

    fn stopping(on_lost: OnLost) -> Stopping {
        Stopping::new(on_lost, at(10), at(1), at(100))
    }

    #[test]
    fn a_command_is_stopped_before_the_end_of_its_lease() {
        let mut stopping = stopping(OnLost::Term);
        assert_eq!(stopping.step(at(50)), Step::Wait(at(89)));
        stopping.valid_until = at(120);
        assert_eq!(stopping.step(at(89)), Step::Wait(at(109)));
        assert_eq!(stopping.step(at(109)), Step::Term);
        assert_eq!(stopping.step(at(109)), Step::Wait(at(119)));
        // After TERM, an extended lease does not postpone KILL.
        stopping.valid_until = at(140);
        assert_eq!(stopping.step(at(110)), Step::Wait(at(119)));
        assert_eq!(stopping.step(at(119)), Step::Kill);
    }

    #[test]
    fn a_command_has_its_grace_period_after_a_loss_but_no_longer_than_the_lease() {
        for (lost, killed) in [(50, 60), (95, 99), (99, 99), (200, 200)] {
            let mut stopping = stopping(OnLost::Term);
            stopping.stop();
            assert_eq!(stopping.step(at(lost)), Step::Term);
            let step = if lost < killed {
                Step::Wait(at(killed))
            } else {
                Step::Kill
            };
            assert_eq!(
                (stopping.step(at(lost)), stopping.step(at(killed))),
                (step, Step::Kill)
            );
        }
    }

    #[test]
    fn on_lost_kill_kills_just_before_the_lease_ends_without_a_grace_period() {
        let mut stopping = stopping(OnLost::Kill);
        assert_eq!(
            (stopping.step(at(98)), stopping.step(at(99))),
            (Step::Wait(at(99)), Step::Kill)
        );
        stopping.valid_until = at(200);
        stopping.stop();
        assert_eq!(stopping.step(at(100)), Step::Kill);
    }

    #[test]
    fn on_lost_ignore_leaves_the_command_running() {
        let mut stopping = stopping(OnLost::Ignore);
        assert_eq!(stopping.step(at(200)), Step::Wait(Moment::MAX));
        stopping.stop();
        assert_eq!(stopping.step(at(500)), Step::Leave);
    }
}
