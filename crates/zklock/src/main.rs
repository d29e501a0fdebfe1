//! Runs commands under ZooKeeper locks, and shows who holds which.

mod arguments;
mod clock;
mod command;
mod contended;
mod contender;
mod doctor;
mod failure;
mod grace;
mod guardian;
mod json;
mod list;
mod lock;
mod print;
mod printable;
mod queue;
mod remove;
mod run;
mod run_guarded;
mod settings;
mod signals;
mod stopping;
mod tree;
mod waiting;

use std::process::ExitCode;

use clap::Parser as _;

use crate::arguments::{Action, Arguments};
use crate::failure::{Code, Failure};
use crate::print::{finish, print_message};

fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => {
            // Help is not an error. If the output is closed, the message is dropped.
            let _ = error.print();
            return if error.use_stderr() { ExitCode::from(Code::Failed as u8) } else { ExitCode::SUCCESS };
        }
    };
    let is_quiet = matches!(&arguments.action, Action::Run(run) if run.quiet);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    let runtime = runtime.map_err(|error| Failure::here(format!("cannot start: {error}")));
    let code = match runtime.and_then(|runtime| runtime.block_on(act(arguments))) {
        Ok(code) => code,
        Err(failure) => {
            if !(failure.code == Code::NotAcquired && is_quiet) {
                print_message(&failure);
            }
            failure.code as u8
        }
    };
    finish();
    ExitCode::from(code)
}

async fn act(Arguments { action, connection }: Arguments) -> Result<u8, Failure> {
    match action {
        Action::Start { gate, command } => Err(command::execute(gate, &command)),
        Action::Guard { group, stopping } => {
            // The guardian receives these signals and ignores them, so that a signal to all processes of a service does
            // not end the guardian in the grace period.
            let _received = signals::Signals::new()?;
            guardian::guard(group, stopping)
        }
        Action::Run(run) => run::run(&run, &connection).await,
        Action::Doctor { root } => doctor::doctor(&root, &connection).await,
        Action::Ls(list) => connection.with_client(async |client| list::list(&list, client).await).await?,
        Action::Tree(tree) => connection.with_client(async |client| tree::tree(&tree, client).await).await?,
        Action::Revoke { path } => connection.with_client(async |client| remove::revoke(&path, client).await).await?,
        Action::Break(lock) => connection.with_client(async |client| remove::break_lock(&lock, client).await).await?,
    }
}
