//! Runs commands under ZooKeeper locks, and shows who holds which.

mod arguments;
mod clock;
mod command;
mod contended;
mod contender;
mod doctor;
mod failure;
mod guardian;
mod list;
mod lock;
mod print;
mod queue;
mod remove;
mod run;
mod settings;
mod signals;
mod stopping;
mod under;
mod waiting;

use std::process::ExitCode;

use clap::Parser as _;

use crate::arguments::{Action, Arguments};
use crate::failure::{Code, Failure};
use crate::print::tell;

fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => {
            // Help is not an error. If the output is closed, the message is dropped.
            let _ = error.print();
            return if error.use_stderr() { ExitCode::from(Code::Failed as u8) } else { ExitCode::SUCCESS };
        }
    };
    match act(&arguments.action) {
        Ok(code) => ExitCode::from(code),
        Err(failure) => {
            if !(failure.code == Code::NotAcquired && arguments.action.is_quiet()) {
                tell(&failure);
            }
            ExitCode::from(failure.code as u8)
        }
    }
}

fn act(action: &Action) -> Result<u8, Failure> {
    match action {
        Action::Guard(orders) => {
            // Handled, so that a signal to all processes of a service does not end the guardian in the grace period.
            let runtime = runtime()?;
            let _entered = runtime.enter();
            let _received = signals::Signals::new()?;
            orders.guard()
        }
        Action::Start(start) => Err(start.start()),
        Action::Run(run) => runtime()?.block_on(run::run(run)),
        Action::Ls(arguments) => runtime()?.block_on(list::list(arguments)),
        Action::Tree(arguments) => runtime()?.block_on(list::tree(arguments)),
        Action::Doctor(arguments) => runtime()?.block_on(doctor::doctor(arguments)),
        Action::Revoke(arguments) => runtime()?.block_on(remove::revoke(arguments)),
        Action::Break(arguments) => runtime()?.block_on(remove::break_lock(arguments)),
    }
}

fn runtime() -> Result<tokio::runtime::Runtime, Failure> {
    let built = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    built.map_err(|error| Failure::here(format!("cannot start: {error}")))
}
