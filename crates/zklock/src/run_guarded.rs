//! Runs a command while a lock is held, and stops it when the lock is lost or in doubt.

use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;
use std::time::{Duration, SystemTime};

use rustix::process::{Signal, getpid, kill_process};
use tokio::time::Instant;

use crate::arguments::Run;
use crate::clock::{self, text};
use crate::command::Running;
use crate::failure::Failure;
use crate::guardian::Guardian;
use crate::lock::Held;
use crate::print::print_message;
use crate::run::Grace;
use crate::signals::Signals;
use crate::stopping::OnLost;

/// The limit for the guardian to read an order.
const PATIENCE: Duration = Duration::from_millis(500);

pub(crate) enum Outcome {
    Ended(ExitStatus),
    /// The lock was lost before the command began.
    NotBegun,
    /// The lock was lost. The command was stopped, unless `--on-lost` forbids it.
    Lost(String),
}

/// Runs the command while the lock is held.
pub(crate) async fn run_guarded(
    run: &Run,
    held: &Held,
    grace: Grace,
    signals: &mut Signals,
) -> Result<Outcome, Failure> {
    let paths = run.lock.join(", ");
    let stops = run.on_lost != OnLost::Ignore;
    // Right after an outage the lease is short, and the guardian would stop the command at once.
    let lasting = async {
        while stops && held.valid_until().remaining() <= grace.period + grace.margin + grace.tick {
            tokio::time::sleep(grace.tick).await;
        }
    };
    tokio::select! {
        () = lasting => {}
        _ = held.lost() => return Ok(Outcome::NotBegun),
        signal = signals.next_deadly() => return Ok(Outcome::Ended(ExitStatus::from_raw(signal.as_raw()))),
    }
    let mut command = Running::prepare(&run.command, &variables(run, held))?;
    let valid_until = clock::moment(held.valid_until());
    let guarded = Guardian::start(command.group, run.on_lost, grace.period, grace.margin, valid_until);
    let mut guardian = match guarded.await {
        Ok(guardian) => guardian,
        Err(error) => {
            command.signal(Signal::KILL);
            let _ = command.wait_group().await;
            return Err(error);
        }
    };
    if held.valid_until().has_passed() {
        // zklock was suspended in the meantime.
        command.signal(Signal::KILL);
    } else {
        command.begin();
    }
    let mut lost: Option<String> = None;
    let (mut is_guarded, mut is_revoke_requested, mut is_in_doubt) = (true, false, false);
    // The guardian kills the command earlier, unless the guardian itself is stopped.
    let latest = || held.valid_until().remaining().min(grace.period + grace.margin);
    let mut killing = std::pin::pin!(tokio::time::sleep(Duration::MAX));
    let mut tick = tokio::time::interval(grace.tick);
    let status = {
        let mut losing = std::pin::pin!(held.lost());
        let mut revoking = std::pin::pin!(held.revoked());
        loop {
            tokio::select! {
                status = command.wait_group() => break status?,
                why = &mut losing, if lost.is_none() => {
                    print_message(format_args!("{paths} is lost: {}", why.reason));
                    lost = Some(if stops { "the command was stopped" } else { "the command has run on without the lock" }.to_owned());
                    killing.as_mut().reset(Instant::now() + latest());
                    guardian.stop(PATIENCE).await;
                }
                () = &mut revoking, if lost.is_none() && !is_revoke_requested => {
                    is_revoke_requested = true;
                    if stops {
                        print_message(format_args!("another client asks for {paths}: stopping the command"));
                        lost = Some(format!("the command was stopped, as another client has asked for {paths}"));
                        killing.as_mut().reset(Instant::now() + latest());
                        guardian.stop(PATIENCE).await;
                    } else {
                        print_message(format_args!("another client asks for {paths}: it is kept, because of --on-lost ignore"));
                    }
                }
                () = &mut killing, if lost.is_some() && stops => {
                    command.signal(Signal::KILL);
                    killing.as_mut().reset(Instant::now() + PATIENCE);
                }
                signal = signals.next() => {
                    command.signal(signal);
                    if signal == Signal::TSTP {
                        // Stops zklock as well, so that the shell gets its terminal back.
                        let _ = kill_process(getpid(), Signal::STOP);
                    }
                }
                _ = tick.tick(), if lost.is_none() && is_guarded => {
                    let left = held.valid_until().remaining();
                    let until_stop = left.saturating_sub(grace.period + grace.margin);
                    let was_in_doubt = std::mem::replace(&mut is_in_doubt, stops && left < 16 * grace.tick);
                    if is_in_doubt && !was_in_doubt {
                        print_message(format_args!("the servers do not answer: the command is stopped in {} unless they do", text(until_stop)));
                    } else if was_in_doubt && !is_in_doubt {
                        print_message("the servers answer again");
                    }
                    guardian.extend(clock::moment(held.valid_until()), PATIENCE).await;
                }
                () = guardian.ended(), if is_guarded => {
                    is_guarded = false;
                    // A guardian that ended without killing the command was killed.
                    if stops {
                        command.signal(Signal::KILL);
                    }
                    lost.get_or_insert_with(|| format!("{paths}: the guardian of the command has ended"));
                }
            }
        }
    };
    if guardian.dismiss(PATIENCE).await || held.valid_until().has_passed() {
        lost = lost.or_else(|| Some(format!("{paths}: the session was in doubt, and the command was stopped")));
    }
    Ok(lost.map_or(Outcome::Ended(status), Outcome::Lost))
}

/// The variables for the command's environment.
fn variables(run: &Run, held: &Held) -> [(&'static str, String); 3] {
    let until = SystemTime::now() + held.valid_until().remaining();
    let until = until.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs());
    [
        ("ZKLOCK_PATH", run.lock.join(":")),
        ("ZKLOCK_TOKEN", held.token().to_string()),
        ("ZKLOCK_VALID_UNTIL", until.to_string()),
    ]
}
