//! `zklock run`: runs a command while a lock is held.

use std::io::IsTerminal as _;
use std::process::ExitStatus;
use std::time::Duration;

use curator_recipes::client::{CuratorClient, Deadline};
use curator_recipes::{Error, LossReason};
use tokio::time::Instant;

use crate::arguments::Run;
use crate::command::code;
use crate::contender::Contender;
use crate::failure::{Code, Failure};
use crate::lock::{Held, Lock};
use crate::print::{print_message, set_quiet, step};
use crate::run_guarded::run_guarded;
use crate::settings::Connection;
use crate::signals::Signals;
use crate::stopping::Grace;
use crate::time::text;
use crate::waiting;

/// The first and the longest pause of `--leader` after a term.
const PAUSES: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));
/// A term of at least this length resets the pauses.
const GOOD_TERM: Duration = Duration::from_secs(60);
/// The shortest connect timeout, even with a shorter `--wait`: enough to connect to distant or busy
/// servers that are up.
const LEAST_CONNECT_TIMEOUT: Duration = Duration::from_secs(4);
/// After these exit codes, `--leader` does not repeat a command, and `--at-least` does not keep
/// the lock: exit codes of zklock, and of a shell if the command cannot be executed.
const CANNOT_RUN: [u8; 2] = [Code::NotExecutable as u8, Code::NotFound as u8];

/// Runs the command, and returns its exit code.
pub(crate) async fn run(run: &Run, connection: &Connection) -> Result<u8, Failure> {
    if run
        .command
        .first()
        .is_some_and(|program| program.is_empty())
    {
        return Err(Failure::new(
            Code::NotFound,
            "cannot run '': the first word of the command is empty",
        ));
    }
    let this = Contender::this(run.label.clone());
    let wait = longest_wait(run);
    let deadline = wait.map_or(Deadline::NEVER, Deadline::after);
    // Read before zklock handles signals: a FIFO or a file system may block arbitrarily long, and a
    // signal still ends zklock meanwhile.
    let mut settings = connection.settings()?;
    settings.connect_timeout =
        connect_timeout(connection.connect_timeout, settings.connect_timeout, wait);
    let mut signals = Signals::new()?;
    let status = match signals.unless_deadly(settings.connect(&this)).await {
        Ok(client) => {
            let client = client?;
            let done = if run.leader {
                lead(run, &client, &this, &mut signals).await
            } else {
                hold(run, &client, deadline, &mut signals).await
            };
            // A failed close is not reported: the exit code matters more, and the session expires
            // anyway.
            let _ = signals.unless_deadly(client.close()).await;
            done?
        }
        Err(status) => status,
    };
    signals.end_as(status);
    Ok(code(status))
}

/// How long to wait for the lock; `None` without a limit.
fn longest_wait(run: &Run) -> Option<Duration> {
    if run.no_wait {
        Some(Duration::ZERO)
    } else {
        run.wait
    }
}

/// How long to try to connect: as long as the option says. Without it, the configured time, but if
/// the lock is waited for at most `wait`, not longer than that or [`LEAST_CONNECT_TIMEOUT`].
fn connect_timeout(
    option: Option<Duration>,
    configured: Duration,
    wait: Option<Duration>,
) -> Duration {
    match (option, wait) {
        (Some(option), _) => option,
        (None, Some(wait)) => configured.min(wait.max(LEAST_CONNECT_TIMEOUT)),
        (None, None) => configured,
    }
}

async fn hold(
    run: &Run,
    client: &CuratorClient,
    deadline: Deadline,
    signals: &mut Signals,
) -> Result<ExitStatus, Failure> {
    let grace = Grace::new(run.grace, client.session().await?.timeout())?;
    let lock = Lock::of(run, client)?;
    loop {
        set_quiet(run.quiet);
        step(format_args!("waiting for {}", run.lock.join(", ")));
        // The lock is tried once, even if connecting took longer than `--wait`.
        let timeout = deadline.remaining().unwrap_or(Duration::MAX);
        let held = tokio::select! {
            held = lock.acquire(timeout) => held?,
            never = waiting::show(&lock, client, &run.lock), if std::io::stderr().is_terminal() && !run.no_wait => match never {},
            status = signals.next_deadly() => return Ok(status),
        };
        let Some(held) = held else {
            return Err(lock.not_acquired(run).await);
        };
        set_quiet(false);
        step(format_args!(
            "acquired {}, token {}",
            run.lock.join(", "),
            held.token()
        ));
        let begun = Instant::now();
        let outcome = run_guarded(run, client, &held, grace, signals).await;
        if let Ok(Some(status)) = &outcome {
            step(format_args!("the command has ended: {status}"));
        }
        let is_kept = match (&outcome, run.at_least) {
            (Ok(Some(status)), Some(least))
                if !signals.has_deadly && !CANNOT_RUN.contains(&code(*status)) =>
            {
                keep(run, &held, least.saturating_sub(begun.elapsed()), signals).await
            }
            _ => false,
        };
        let released = signals.unless_deadly(held.release()).await;
        step(format_args!("released {}", run.lock.join(", ")));
        let Some(status) = outcome? else { continue };
        match released.unwrap_or(Ok(())) {
            Ok(()) => {}
            Err(Error::Lost(_)) if is_kept => {}
            // The lease was still valid when the command ended.
            Err(Error::Lost(lost)) if matches!(lost.reason, LossReason::SessionLost(_)) => {
                print_message(format_args!(
                    "{} could not be released, and is lost after the command has ended: {}",
                    run.lock.join(", "),
                    lost.reason
                ));
            }
            Err(Error::Lost(lost)) => {
                return Err(Failure::new(
                    Code::Lost,
                    format!("{}: {lost}", run.lock.join(", ")),
                ));
            }
            Err(error) => print_message(format_args!(
                "the lock may be held until the session ends: {error}"
            )),
        }
        return Ok(status);
    }
}

/// Keeps the lock for the rest of `--at-least` after the command has ended: until a signal, a
/// request by another client, or a loss. None of these changes the exit code, because the command
/// ended while the lock was held. Returns whether any of `--at-least` was left.
async fn keep(run: &Run, held: &Held, rest: Duration, signals: &mut Signals) -> bool {
    let paths = run.lock.join(", ");
    if rest.is_zero() {
        return false;
    }
    step(format_args!(
        "keeping {paths} for {}, because of --at-least",
        text(rest)
    ));
    tokio::select! {
        () = tokio::time::sleep(rest) => {}
        _ = signals.next_deadly() => {}
        () = held.revoked() => print_message(format_args!(
            "another client requests {paths}: it is released before the end of --at-least"
        )),
        why = held.lost() => print_message(format_args!(
            "{paths} is lost before the end of --at-least, after the command has ended: {}", why.reason
        )),
    }
    true
}

/// Runs the command in each term, until a signal ends zklock, or the command cannot be run.
async fn lead(
    run: &Run,
    client: &CuratorClient,
    this: &Contender,
    signals: &mut Signals,
) -> Result<ExitStatus, Failure> {
    let [path] = run.lock.as_slice() else {
        return Err(Failure::here("pass one --lock with --leader"));
    };
    // A leader waits without a limit, so the exit code is never 121, and warnings can be printed.
    set_quiet(false);
    let mut pause = PAUSES.0;
    loop {
        let (held, session) = tokio::select! {
            led = Held::lead(client, path, this) => led?,
            status = signals.next_deadly() => return Ok(status),
        };
        let grace = Grace::new(run.grace, session.timeout())?;
        let begun = Instant::now();
        print_message(format_args!("leading {path}, token {}", held.token()));
        let outcome = run_guarded(run, client, &held, grace, signals).await;
        // Errors are ignored, because a lost term needs no release.
        let _ = signals.unless_deadly(held.release()).await;
        match outcome {
            Ok(Some(status)) if signals.has_deadly || CANNOT_RUN.contains(&code(status)) => {
                return Ok(status);
            }
            Ok(Some(status)) => print_message(format_args!("the command has ended: {status}")),
            Ok(None) => print_message("the term ended before the command started"),
            Err(lost) if lost.code == Code::Lost && !signals.has_deadly => print_message(lost),
            Err(failure) => return Err(failure),
        }
        if begun.elapsed() >= GOOD_TERM {
            pause = PAUSES.0;
        }
        print_message(format_args!(
            "joining the election again in {}",
            text(pause)
        ));
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            status = signals.next_deadly() => return Ok(status),
        }
        pause = (2 * pause).min(PAUSES.1);
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::arguments::{Action, Arguments};

    #[test]
    fn no_wait_is_a_wait_of_zero() {
        let wait = |options: &[&str]| {
            let words = [&["zklock", "run", "-l", "/x"], options, &["true"]].concat();
            let Action::Run(run) = Arguments::try_parse_from(words).unwrap().action else {
                unreachable!()
            };
            longest_wait(&run)
        };
        assert_eq!(
            [wait(&["--no-wait"]), wait(&["--wait", "0"])],
            [Some(Duration::ZERO); 2]
        );
        assert_eq!(
            [wait(&["--wait", "5"]), wait(&[])],
            [Some(Duration::from_secs(5)), None]
        );
    }

    #[test]
    fn a_short_wait_limits_the_time_to_connect_but_not_that_of_the_option() {
        let seconds = Duration::from_secs;
        let configured = |time, wait| connect_timeout(None, seconds(time), wait);
        assert_eq!(configured(15, None), seconds(15));
        assert_eq!(configured(15, Some(seconds(7))), seconds(7));
        // Distant servers need some time.
        assert_eq!(configured(15, Some(Duration::ZERO)), LEAST_CONNECT_TIMEOUT);
        assert_eq!(configured(2, Some(Duration::ZERO)), seconds(2));
        let option = Some(seconds(60));
        assert_eq!(
            connect_timeout(option, seconds(60), Some(Duration::ZERO)),
            seconds(60)
        );
    }
}
