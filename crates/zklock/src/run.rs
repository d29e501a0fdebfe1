//! `zklock run`: runs a command while a lock is held.

use std::io::IsTerminal as _;
use std::process::ExitStatus;
use std::time::{Duration, SystemTime};

use curator_recipes::client::{CuratorClient, Deadline, Session};
use curator_recipes::{Error, Wait};
use futures_util::{StreamExt as _, stream};
use rustix::process::Signal;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::Instant;

use crate::arguments::Run;
use crate::clock::{self, text};
use crate::command::{Running, code, is_deadly};
use crate::contender::Contender;
use crate::failure::{Code, Failure};
use crate::guardian::Guardian;
use crate::lock::{Held, Lock, not_acquired};
use crate::print::tell;
use crate::stopping::OnLost;
use crate::waiting;

/// The first pause of `--leader` after a term, and the longest.
const PAUSES: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));
/// A term that lasts for so long begins the pauses anew.
const GOOD_TERM: Duration = Duration::from_secs(60);

/// How long the guardian may take for an order.
const PATIENCE: Duration = Duration::from_millis(500);

/// Runs the command, and returns its exit code.
pub(crate) async fn run(run: &Run) -> Result<u8, Failure> {
    let mut signals = Signals::new()?;
    let this = Contender::this(run.label.clone());
    let deadline = run.wait.map_or(Deadline::NEVER, Deadline::after);
    let settings = run.connection.settings()?.within(run.wait);
    let client = tokio::select! {
        client = settings.connect(&this) => client?,
        signal = signals.next_deadly() => return Ok(interrupted(signal)),
    };
    let done =
        if run.leader { lead(run, &client, &this, signals).await } else { hold(run, &client, deadline, signals).await };
    // The exit code says more than that the session could not be closed: it ends by itself.
    let _ = client.close().await;
    done
}

async fn hold(run: &Run, client: &CuratorClient, deadline: Deadline, mut signals: Signals) -> Result<u8, Failure> {
    let grace = grace(run, &client.session().await?)?;
    let lock = Lock::of(run, client)?;
    // It looks at the lock once, however long the connection took.
    let wait = if run.no_wait || deadline.has_passed() { Wait::No } else { Wait::Until(deadline) };
    let held = tokio::select! {
        held = lock.acquire(wait) => held?,
        never = waiting::show(&lock, &run.lock), if std::io::stderr().is_terminal() && !run.no_wait => match never {},
        signal = signals.next_deadly() => return Ok(interrupted(signal)),
    };
    let Some(held) = held else { return Err(not_acquired(&run.lock)) };
    let outcome = under(run, &held, grace, &mut signals).await?;
    let released = held.release().await;
    match outcome {
        Outcome::Lost(how) => Err(Failure::new(Code::Lost, how)),
        Outcome::Ended(status) => match released {
            Ok(()) => Ok(code(status)),
            Err(Error::Lost(lost)) => Err(Failure::new(Code::Lost, format!("{}: {lost}", run.lock.join(", ")))),
            Err(error) => {
                tell(format_args!("the lock may be held until the session ends: {error}"));
                Ok(code(status))
            }
        },
    }
}

/// Runs the command in each term, until zklock is asked to end.
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
        tell(format_args!("leads {path} with token {}", held.token()));
        let outcome = under(run, &held, grace, &mut signals).await;
        // A term that is lost has nothing to give back.
        let _ = held.release().await;
        match outcome? {
            Outcome::Ended(status) if signals.has_deadly => return Ok(code(status)),
            Outcome::Ended(status) => tell(format_args!("the command has ended: {status}")),
            Outcome::Lost(how) if signals.has_deadly => return Err(Failure::new(Code::Lost, how)),
            Outcome::Lost(how) => tell(format_args!("{how}")),
        }
        if begun.elapsed() >= GOOD_TERM {
            pause = PAUSES.0;
        }
        tell(format_args!("takes part again in {}", humantime::format_duration(pause)));
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            signal = signals.next_deadly() => return Ok(interrupted(signal)),
        }
        pause = (2 * pause).min(PAUSES.1);
    }
}

enum Outcome {
    Ended(ExitStatus),
    /// The command was stopped, if it may be.
    Lost(String),
}

/// Runs the command while the lock is held.
async fn under(run: &Run, held: &Held, grace: Grace, signals: &mut Signals) -> Result<Outcome, Failure> {
    let until = SystemTime::now() + held.valid_until().remaining();
    let until = until.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let variables = [
        ("ZKLOCK_PATH", run.lock.join(":")),
        ("ZKLOCK_TOKEN", held.token().to_string()),
        ("ZKLOCK_VALID_UNTIL", until.to_string()),
    ];
    let mut command = Running::prepare(&run.command, &variables)?;
    let valid_until = clock::moment(held.valid_until());
    let guarded = Guardian::start(command.group, run.on_lost, grace.period, grace.margin, valid_until);
    let mut guardian = match guarded.await {
        Ok(guardian) => guardian,
        Err(error) => {
            command.signal(Signal::KILL);
            let _ = command.gone().await;
            return Err(error);
        }
    };
    if held.valid_until().has_passed() {
        // zklock was stopped meanwhile.
        command.signal(Signal::KILL);
    } else {
        command.begin();
    }
    let mut lost: Option<String> = None;
    let mut is_guarded = true;
    // The guardian kills the command before that, unless it is stopped.
    let latest = || held.valid_until().remaining().min(grace.period + grace.margin);
    let mut killing = std::pin::pin!(tokio::time::sleep(Duration::MAX));
    let mut tick = tokio::time::interval(grace.tick);
    let status = {
        let mut losing = std::pin::pin!(held.lost());
        let mut revoking = std::pin::pin!(held.revoked());
        loop {
            tokio::select! {
                status = command.gone() => break status?,
                why = &mut losing, if lost.is_none() => {
                    tell(format_args!("{} is lost: {}", run.lock.join(", "), why.reason));
                    lost = Some(after_loss(run));
                    killing.as_mut().reset(Instant::now() + latest());
                    guardian.stop(PATIENCE).await;
                }
                () = &mut revoking, if lost.is_none() => {
                    tell(format_args!("{} was asked for by another client", run.lock.join(", ")));
                    lost = Some(after_loss(run));
                    killing.as_mut().reset(Instant::now() + latest());
                    guardian.stop(PATIENCE).await;
                }
                () = &mut killing, if lost.is_some() && run.on_lost != OnLost::Ignore => {
                    command.signal(Signal::KILL);
                    killing.as_mut().reset(Instant::now() + PATIENCE);
                }
                signal = signals.next() => command.signal(signal),
                _ = tick.tick(), if lost.is_none() && is_guarded => {
                    guardian.extend(clock::moment(held.valid_until()), PATIENCE).await;
                }
                () = guardian.ended(), if is_guarded => {
                    is_guarded = false;
                    // If it has not killed the command, it was killed itself.
                    if run.on_lost != OnLost::Ignore {
                        command.signal(Signal::KILL);
                    }
                    lost.get_or_insert_with(|| format!("{}: the guardian of the command has ended", run.lock.join(", ")));
                }
            }
        }
    };
    if guardian.dismiss(PATIENCE).await || held.valid_until().has_passed() {
        lost = lost.or_else(|| {
            Some(format!("{}: the session was in doubt, and the command was stopped", run.lock.join(", ")))
        });
    }
    Ok(lost.map_or(Outcome::Ended(status), Outcome::Lost))
}

/// The last word, when the loss itself was told.
fn after_loss(run: &Run) -> String {
    match run.on_lost {
        OnLost::Ignore => "the command has run on without the lock".to_owned(),
        OnLost::Term | OnLost::Kill => "the command was stopped, as the lock is lost".to_owned(),
    }
}

/// The times of the guardian.
#[derive(Clone, Copy)]
struct Grace {
    period: Duration,
    margin: Duration,
    tick: Duration,
}

/// The grace period, which has to fit into the session timeout `T` that the servers have granted.
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

/// The signals that zklock passes on.
pub(crate) struct Signals {
    received: stream::BoxStream<'static, Signal>,
    /// One of them asks to end.
    has_deadly: bool,
}

impl Signals {
    /// Listens for those that this process does not ignore, as under `nohup`.
    pub(crate) fn new() -> Result<Self, Failure> {
        let ignored = ignored();
        let kinds = [
            (SignalKind::hangup(), Signal::HUP),
            (SignalKind::interrupt(), Signal::INT),
            (SignalKind::quit(), Signal::QUIT),
            (SignalKind::terminate(), Signal::TERM),
            (SignalKind::user_defined1(), Signal::USR1),
            (SignalKind::user_defined2(), Signal::USR2),
            (SignalKind::window_change(), Signal::WINCH),
            (SignalKind::from_raw(Signal::CONT.as_raw()), Signal::CONT),
            (SignalKind::from_raw(Signal::TSTP.as_raw()), Signal::TSTP),
        ];
        let failed = |error| Failure::here(format!("cannot listen for signals: {error}"));
        let mut all = stream::SelectAll::new();
        for (kind, sent) in kinds.into_iter().filter(|(_, sent)| ignored >> (sent.as_raw() - 1) & 1 == 0) {
            let listening = signal(kind).map_err(failed)?;
            all.push(
                stream::unfold(listening, move |mut listening| async move {
                    listening.recv().await.map(|()| (sent, listening))
                })
                .boxed(),
            );
        }
        Ok(Self { received: all.boxed(), has_deadly: false })
    }

    async fn next(&mut self) -> Signal {
        let Some(signal) = self.received.next().await else { return std::future::pending().await };
        self.has_deadly |= is_deadly(signal);
        signal
    }

    /// The next one that asks to end.
    async fn next_deadly(&mut self) -> Signal {
        loop {
            let signal = self.next().await;
            if is_deadly(signal) {
                return signal;
            }
        }
    }
}

/// The signals that this process ignores, a bit for each; where there is no `/proc`, none.
fn ignored() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}

/// The exit code after a signal that came while no command ran.
fn interrupted(signal: Signal) -> u8 {
    u8::try_from(128 + signal.as_raw()).unwrap_or(u8::MAX)
}
