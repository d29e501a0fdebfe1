//! Decides when a command has to be stopped. Pure computation, without a process or a clock; the
//! guardian applies it.

use std::time::Duration;

use serde::{Deserialize, Serialize};

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

/// A time since the machine was started, on a clock that also runs while the machine is suspended.
pub(crate) type Moment = Duration;

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
