//! Runs a command while a lock is held, and stops it when the lock is lost, in doubt, or requested by
//! another client.

use std::pin::pin;
use std::process::ExitStatus;
use std::time::{Duration, SystemTime};

use curator_recipes::client::{ClockInstant, CuratorClient};
use nix::unistd::getpgrp;
use rustix::process::Signal;
use tokio::time::Instant;

use crate::arguments::Run;
use crate::command::{Prepared, name};
use crate::failure::{Code, Failure};
use crate::group::DEADLY;
use crate::guardian::{Duty, Guardian, Order, print_refusing};
use crate::lock::Held;
use crate::print::{print_message, step};
use crate::signals::{Event, Signals, adopt_orphans};
use crate::stopping::{Doubt, Grace, OnLost, Stopping};
use crate::terminal::Terminal;
use crate::time::{moment, text};

/// How often zklock repeats KILL until the command has ended.
const KILL_INTERVAL: Duration = Duration::from_millis(500);

/// Runs the command while the lock is held. Returns the command's status, or the status of a signal
/// that arrived before the start; `None` if the lock was lost before the start.
///
/// If the lock is lost later, stops the command, unless `--on-lost ignore` is set, and fails with
/// [`Code::Lost`].
pub(crate) async fn run_guarded(
    run: &Run,
    client: &CuratorClient,
    held: &Held,
    grace: Grace,
    signals: &mut Signals,
) -> Result<Option<ExitStatus>, Failure> {
    let paths = run.lock.join(", ");
    let stops = run.on_lost != OnLost::Ignore;
    // Right after an outage the lease is short, and the guardian would stop the command
    // immediately.
    let lasting = async {
        while stops && held.valid_until().remaining() <= grace.period + grace.margin + grace.tick {
            tokio::time::sleep(grace.tick).await;
        }
    };
    tokio::select! {
        () = lasting => {}
        _ = held.lost() => return Ok(None),
        status = signals.next_deadly() => return Ok(Some(status)),
    }
    adopt_orphans();
    let command = Prepared::start(&run.command, variables(run, held))?;
    let stopping = Stopping::new(
        run.on_lost,
        grace.period,
        grace.margin,
        moment(held.valid_until()),
    );
    let Prepared {
        leader,
        group,
        gate,
    } = command;
    let duty = Duty {
        group,
        zklock: getpgrp().as_raw(),
        stopping,
    };
    let mut ending = pin!(group.ended());
    let mut guardian = match Guardian::start(&duty).await {
        Ok(guardian) => guardian,
        Err(failure) => {
            // Without its byte, the process exits. KILL ends the process even if it is stopped.
            drop(gate);
            group.signal(Signal::KILL);
            loop {
                tokio::select! {
                    () = &mut ending => return Err(failure),
                    // `next` reaps the process.
                    _ = signals.next() => {}
                }
            }
        }
    };
    if held.valid_until().has_passed() {
        // zklock was suspended in the meantime, so the command is killed before it starts.
        group.signal(Signal::KILL);
    }
    step(format_args!(
        "started {} as process {}",
        name(&run.command),
        group.number()
    ));
    let mut terminal = Terminal::of(group);
    gate.open();
    let mut losing = pin!(loss(held, &paths, stops));
    let mut killing = pin!(tokio::time::sleep(Duration::MAX));
    let mut tick = tokio::time::interval(grace.tick);
    let before_stop = grace.margin
        + if run.on_lost == OnLost::Kill {
            Duration::ZERO
        } else {
            grace.period
        };
    // The current session is the lock's session: with another session, the lock is lost.
    let since_reply = || {
        client.current_session().map_or(Duration::MAX, |session| {
            ClockInstant::now().saturating_duration_since(session.lease().last_reply())
        })
    };
    let mut status = None;
    let mut lost = None;
    let mut doubt = None;
    let mut is_guarded = true;
    let end = if stops {
        "the command was stopped"
    } else {
        "the command has run on without it"
    };
    let doubted = || format!("{paths}: the session was in doubt, and {end}");
    let status = loop {
        tokio::select! {
            // Any process of the group may still work under the lock.
            () = &mut ending, if status.is_some() => break status,
            how = &mut losing, if lost.is_none() => {
                lost = Some(how);
                if stops {
                    // If the guardian is suspended, zklock itself kills the command.
                    let left = held.valid_until().remaining().saturating_sub(grace.margin);
                    killing.as_mut().reset(Instant::now() + left.min(grace.period + grace.margin));
                    print_refusing(group);
                }
                guardian.order(Order::Stop).await;
            }
            () = &mut killing => {
                group.signal(Signal::KILL);
                if lost.is_none() {
                    lost = Some(doubted());
                    print_refusing(group);
                }
                killing.as_mut().reset(Instant::now() + KILL_INTERVAL);
            }
            event = signals.next() => match event {
                Event::Ended(process, ended) if process == leader => {
                    status = Some(ended);
                    if group.is_alive() {
                        let name = name(&run.command);
                        print_message(format_args!("{name} has ended; waiting for processes that it has started"));
                    }
                }
                Event::Ended(process, _) => guardian.is_waited_for |= process == guardian.process,
                Event::Stopped(process, by)
                    if process == leader || (process != guardian.process && group.may_have(process)) =>
                {
                    terminal.stopped(process.as_raw_pid(), by);
                }
                Event::Stopped(..) => {}
                Event::Signal(Signal::TSTP) => terminal.stop(),
                Event::Signal(Signal::CONT) => terminal.continued(),
                Event::Signal(signal) => {
                    group.signal(signal);
                    if DEADLY.contains(&signal) {
                        print_refusing(group);
                    }
                }
            },
            _ = tick.tick(), if lost.is_none() => {
                terminal.check();
                let left = held.valid_until().remaining();
                let until_stop = left.saturating_sub(before_stop);
                if stops {
                    // If the guardian is suspended or too late, zklock itself kills the command.
                    killing.as_mut().reset(Instant::now() + left.saturating_sub(grace.margin));
                    let before = std::mem::replace(&mut doubt, grace.doubt(left, since_reply(), before_stop));
                    if doubt != before {
                        print_doubt(before, doubt, until_stop);
                    }
                }
                guardian.order(Order::Extend(moment(held.valid_until()))).await;
            }
            has_stopped = guardian.ended(), if is_guarded => {
                is_guarded = false;
                // A guardian that ended without a signal to the command was killed, or, with
                // `--on-lost ignore`, has ended after the loss.
                let how = if has_stopped { doubted() } else { format!("{paths}: the guardian of the command has ended") };
                if stops {
                    if lost.is_none() {
                        lost = Some(how);
                        print_refusing(group);
                    }
                    killing.as_mut().reset(Instant::now());
                } else {
                    print_message(format_args!("{how}: the command continues, because of --on-lost ignore"));
                }
            }
        }
    };
    if terminal.take_back() {
        signals.note_typed(status);
    }
    if guardian.dismiss().await || held.valid_until().has_passed() {
        lost.get_or_insert_with(doubted);
    }
    lost.map_or(Ok(status), |how| Err(Failure::new(Code::Lost, how)))
}

/// Prints that a doubt about the session has begun, changed or ended. Without another reply, the
/// command is stopped after `until_stop`.
fn print_doubt(before: Option<Doubt>, doubt: Option<Doubt>, until_stop: Duration) {
    let until_stop = text(until_stop);
    match (before, doubt) {
        (_, Some(Doubt::NoReply)) => {
            print_message(format_args!(
                "the servers do not answer: the command is stopped in {until_stop} unless they do"
            ));
        }
        (_, Some(Doubt::Unconfirmed)) => {
            print_message(format_args!(
                "the servers answer slowly, and the session is not confirmed yet: the command is stopped in {until_stop} unless it is"
            ));
        }
        (Some(Doubt::NoReply), None) => print_message("the servers answer again"),
        (_, None) => print_message("the session is confirmed"),
    }
}

/// Waits until the lock is lost, or until another client requests it and `--on-lost` permits its
/// release. Returns the message for the failure.
async fn loss(held: &Held, paths: &str, stops: bool) -> String {
    let asked = async {
        held.revoked().await;
        if !stops {
            print_message(format_args!(
                "another client requests {paths}: the lock is kept, because of --on-lost ignore"
            ));
            std::future::pending::<()>().await;
        }
    };
    tokio::select! {
        why = held.lost() => {
            print_message(format_args!("{paths} is lost: {}", why.reason));
            if stops { "the command was stopped" } else { "the command has run on without the lock" }.to_owned()
        }
        () = asked => {
            print_message(format_args!("another client requests {paths}: stopping the command"));
            format!("the command was stopped, as another client has requested {paths}")
        }
    }
}

/// The variables for the command's environment.
fn variables(run: &Run, held: &Held) -> [(&'static str, String); 3] {
    let until = SystemTime::now() + held.valid_until().remaining();
    let until = until
        .duration_since(SystemTime::UNIX_EPOCH)
        .map_or(0, |since| since.as_secs());
    [
        ("ZKLOCK_PATH", run.lock.join(":")),
        ("ZKLOCK_TOKEN", held.token().to_string()),
        ("ZKLOCK_VALID_UNTIL", until.to_string()),
    ]
}
