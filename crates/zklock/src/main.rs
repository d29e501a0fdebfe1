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
mod run_guarded;
mod settings;
mod signals;
mod stopping;
mod waiting;

use std::process::ExitCode;

use clap::Parser as _;
use curator_recipes::client::CuratorClient;

use crate::arguments::{Action, Arguments};
use crate::contender::Contender;
use crate::failure::{Code, Failure};
use crate::print::print_message;
use crate::settings::Connection;

fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => {
            // Help is not an error. If the output is closed, the message is dropped.
            let _ = error.print();
            return if error.use_stderr() { ExitCode::from(Code::Failed as u8) } else { ExitCode::SUCCESS };
        }
    };
    match act(&arguments) {
        Ok(code) => ExitCode::from(code),
        Err(failure) => {
            if !(failure.code == Code::NotAcquired && arguments.action.is_quiet()) {
                print_message(&failure);
            }
            ExitCode::from(failure.code as u8)
        }
    }
}

fn act(Arguments { action, connection }: &Arguments) -> Result<u8, Failure> {
    match action {
        Action::Start(start) => Err(start.start()),
        Action::Guard(orders) => {
            // Handled, so that a signal to all processes of a service does not end the guardian in the grace period.
            let runtime = runtime()?;
            let _entered = runtime.enter();
            let _received = signals::Signals::new()?;
            orders.guard()
        }
        Action::Run(run) => runtime()?.block_on(run::run(run, connection)),
        Action::Doctor(arguments) => runtime()?.block_on(doctor::doctor(arguments, connection)),
        Action::Ls(arguments) => with_client(connection, async |client| list::list(arguments, client).await),
        Action::Tree(arguments) => with_client(connection, async |client| list::tree(arguments, client).await),
        Action::Revoke(arguments) => with_client(connection, async |client| remove::revoke(arguments, client).await),
        Action::Break(arguments) => with_client(connection, async |client| remove::break_lock(arguments, client).await),
    }
}

fn with_client(
    connection: &Connection,
    act: impl AsyncFnOnce(&CuratorClient) -> Result<u8, Failure>,
) -> Result<u8, Failure> {
    runtime()?.block_on(async {
        let client = connection.connect(&Contender::this(None)).await?;
        let done = act(&client).await;
        let _ = client.close().await;
        done
    })
}

fn runtime() -> Result<tokio::runtime::Runtime, Failure> {
    let built = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    built.map_err(|error| Failure::here(format!("cannot start: {error}")))
}
