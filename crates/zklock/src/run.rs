//! `zklock run`: runs a command while a lock is held.

use std::io::IsTerminal as _;
use std::time::Duration;

use curator_recipes::Error;
use curator_recipes::client::{CuratorClient, Deadline, Session};
use rustix::process::Signal;
use tokio::time::Instant;

use crate::arguments::Run;
use crate::clock::text;
use crate::command::code;
use crate::contender::Contender;
use crate::failure::{Code, Failure};
use crate::lock::{Held, Lock};
use crate::print::print_message;
use crate::run_guarded::{Outcome, run_guarded};
use crate::settings::Connection;
use crate::signals::Signals;
use crate::waiting;

/// The first and the longest pause of `--leader` after a term.
const PAUSES: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));
/// A term of at least this length resets the pauses.
const GOOD_TERM: Duration = Duration::from_secs(60);
/// Enough for a connection to servers that are up, also with a shorter `--wait`.
const LEAST_CONNECT_TIMEOUT: Duration = Duration::from_secs(1);

/// Runs the command, and returns its exit code.
pub(crate) async fn run(run: &Run, connection: &Connection) -> Result<u8, Failure> {
    let mut signals = Signals::new()?;
    let this = Contender::this(run.label.clone());
    let deadline = run.wait.map_or(Deadline::NEVER, Deadline::after);
    let mut settings = connection.settings()?;
    if let Some(wait) = run.wait {
        settings.connect_timeout = settings.connect_timeout.min(wait.max(LEAST_CONNECT_TIMEOUT));
    }
    let client = tokio::select! {
        client = settings.builder(&this)?.connect() => client?,
        signal = signals.next_deadly() => return Ok(interrupted(signal)),
    };
    let done =
        if run.leader { lead(run, &client, &this, signals).await } else { hold(run, &client, deadline, signals).await };
    // A failed close is not reported: the exit code matters more, and the session expires anyway.
    let _ = client.close().await;
    done
}

async fn hold(run: &Run, client: &CuratorClient, deadline: Deadline, mut signals: Signals) -> Result<u8, Failure> {
    let grace = grace(run, &client.session().await?)?;
    let lock = Lock::of(run, client)?;
    // Even if the connection took too long, the lock is tried once.
    let timeout = || if run.no_wait { Duration::ZERO } else { deadline.remaining().unwrap_or(Duration::MAX) };
    loop {
        if let Some(code) = attempt(run, &lock, timeout(), grace, &mut signals).await? {
            return Ok(code);
        }
    }
}

/// Waits for the lock, and runs the command. `None` if the lock was lost before the command began.
async fn attempt(
    run: &Run,
    lock: &Lock,
    timeout: Duration,
    grace: Grace,
    signals: &mut Signals,
) -> Result<Option<u8>, Failure> {
    let held = tokio::select! {
        held = lock.acquire(timeout) => held?,
        never = waiting::show(lock, &run.lock), if std::io::stderr().is_terminal() && !run.no_wait => match never {},
        signal = signals.next_deadly() => return Ok(Some(interrupted(signal))),
    };
    let Some(held) = held else { return Err(lock.not_acquired(&run.lock).await) };
    let begun = Instant::now();
    let outcome = run_guarded(run, &held, grace, signals).await?;
    if let (Outcome::Ended(_), Some(least)) = (&outcome, run.at_least) {
        tokio::select! {
            () = tokio::time::sleep_until(begun + least) => {}
            _ = signals.next_deadly() => {}
            _ = held.lost() => {}
        }
    }
    let released = held.release().await;
    match (outcome, released) {
        (Outcome::NotBegun, _) => Ok(None),
        (Outcome::Lost(how), _) => Err(Failure::new(Code::Lost, how)),
        (Outcome::Ended(status), Ok(())) => Ok(Some(code(status))),
        (Outcome::Ended(_), Err(Error::Lost(lost))) => {
            Err(Failure::new(Code::Lost, format!("{}: {lost}", run.lock.join(", "))))
        }
        (Outcome::Ended(status), Err(error)) => {
            print_message(format_args!("the lock may be held until the session ends: {error}"));
            Ok(Some(code(status)))
        }
    }
}

/// Runs the command in each term, until a signal ends zklock.
async fn lead(run: &Run, client: &CuratorClient, this: &Contender, mut signals: Signals) -> Result<u8, Failure> {
    let [path] = run.lock.as_slice() else { return Err(Failure::here("pass one --lock with --leader")) };
    let mut pause = PAUSES.0;
    loop {
        let (held, session) = tokio::select! {
            led = Held::lead(client, path, this) => led?,
            signal = signals.next_deadly() => return Ok(interrupted(signal)),
        };
        let grace = grace(run, &session)?;
        let begun = Instant::now();
        print_message(format_args!("leading {path}, token {}", held.token()));
        let outcome = run_guarded(run, &held, grace, &mut signals).await;
        // A lost term needs no release.
        let _ = held.release().await;
        match outcome? {
            Outcome::Ended(status) if signals.has_deadly => return Ok(code(status)),
            Outcome::Ended(status) => print_message(format_args!("the command has ended: {status}")),
            Outcome::Lost(how) if signals.has_deadly => return Err(Failure::new(Code::Lost, how)),
            Outcome::Lost(how) => print_message(format_args!("{how}")),
            Outcome::NotBegun => print_message("the term was over before the command began"),
        }
        if begun.elapsed() >= GOOD_TERM {
            pause = PAUSES.0;
        }
        print_message(format_args!("joining the election again in {}", text(pause)));
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            signal = signals.next_deadly() => return Ok(interrupted(signal)),
        }
        pause = (2 * pause).min(PAUSES.1);
    }
}

/// The guardian's times.
#[derive(Clone, Copy)]
pub(crate) struct Grace {
    pub(crate) period: Duration,
    pub(crate) margin: Duration,
    pub(crate) tick: Duration,
}

/// The grace period. It has to fit into the session timeout `T` that the servers have granted.
fn grace(run: &Run, session: &Session) -> Result<Grace, Failure> {
    const DEFAULT: Duration = Duration::from_secs(10);
    let granted = session.timeout();
    let most = granted.mul_f64(0.3);
    let period = match run.grace {
        Some(grace) if grace > most => {
            let (grace, most, granted) = (text(grace), text(most), text(granted));
            return Err(Failure::here(format!(
                "--grace {grace} is too long: at most 0.3 of the session timeout, {most} of {granted}; raise --session-timeout"
            )));
        }
        Some(grace) => grace,
        None => DEFAULT.min(most),
    };
    Ok(Grace { period, margin: Duration::from_secs(1).min(granted / 10), tick: granted / 40 })
}

/// The exit code after a signal that arrived while no command ran.
fn interrupted(signal: Signal) -> u8 {
    u8::try_from(128 + signal.as_raw()).unwrap_or(u8::MAX)
}
