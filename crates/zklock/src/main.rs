//! Runs commands under ZooKeeper locks, and shows who holds which.

mod arguments;
mod command;
mod config_file;
mod connection_log;
mod contended;
mod contender;
mod doctor;
mod failure;
mod group;
mod guardian;
mod list;
mod lock;
mod print;
mod processes;
mod remove;
mod run;
mod run_guarded;
mod settings;
mod signals;
mod stopping;
mod terminal;
mod time;
mod tls_files;
mod tree;
mod waiting;

use std::io;
use std::process::ExitCode;

use clap::Parser;

use crate::arguments::{Action, Arguments, Internal};
use crate::failure::{Code, Failure};
use crate::print::{finish, print, print_message, print_usage_error};

fn main() -> ExitCode {
    if std::env::args_os()
        .nth(1)
        .is_some_and(|subcommand| Internal::has(&subcommand))
    {
        return parsed().map_or_else(
            |code| code,
            |internal| finished(act_internally(internal), false),
        );
    }
    let arguments: Arguments = match parsed() {
        Ok(arguments) => arguments,
        Err(code) => return code,
    };
    if arguments.verbose {
        print::set_verbose();
    }
    let is_quiet = matches!(&arguments.action, Action::Run(run) if run.quiet);
    print::set_quiet(is_quiet);
    finished(act(arguments), is_quiet)
}

/// Parses the command line. If it is invalid or asks for help, prints the error or the help, and
/// returns the exit code.
fn parsed<T: Parser>() -> Result<T, ExitCode> {
    T::try_parse().map_err(|error| {
        // Help is not an error.
        let text = error.render().to_string();
        if error.use_stderr() {
            print_usage_error(&text);
            return ExitCode::from(Code::Failed as u8);
        }
        let _ = print(&text);
        ExitCode::SUCCESS
    })
}

/// Runs an action to its end. Prints its failure, if it has one.
fn finished(action: impl Future<Output = Result<u8, Failure>>, is_quiet: bool) -> ExitCode {
    let runtime = signals::unblock()
        .and_then(|()| runtime().map_err(|error| Failure::here(format!("cannot start: {error}"))));
    let code = match runtime.and_then(|runtime| runtime.block_on(action)) {
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

fn runtime() -> io::Result<tokio::runtime::Runtime> {
    // At the limit of processes, tokio would panic when it cannot start its thread; this thread
    // reports an error instead.
    let _ = std::thread::Builder::new().spawn(|| {})?.join();
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
}

async fn act_internally(internal: Internal) -> Result<u8, Failure> {
    match internal {
        Internal::Start { gate, command } => Err(command::execute(gate, &command)),
        Internal::End { signal } => Ok(signals::end_by(signal)),
        Internal::Guard { duty } => {
            // The guardian receives these signals and ignores them, so that a signal to all
            // processes of a service does not end the guardian in the grace period.
            let _received = signals::Signals::new()?;
            guardian::guard(duty)
        }
    }
}

async fn act(
    Arguments {
        action, connection, ..
    }: Arguments,
) -> Result<u8, Failure> {
    match action {
        Action::Run(run) => run::run(&run, &connection).await,
        Action::Doctor {
            root,
            certify: true,
        } => doctor::certify(&root, &connection).await,
        Action::Doctor { root, .. } => doctor::doctor(&root, &connection).await,
        Action::Ls(list) => {
            connection
                .with_client(async |client| list::list(&list, client).await)
                .await?
        }
        Action::Tree(tree) => {
            connection
                .with_client(async |client| tree::tree(&tree, client).await)
                .await?
        }
        Action::Revoke { path } => {
            connection
                .with_client(async |client| remove::revoke(&path, client).await)
                .await?
        }
        Action::Break(lock) => {
            connection
                .with_client(async |client| remove::break_lock(&lock, client).await)
                .await?
        }
        Action::Completions { shell } => arguments::completions(shell),
        Action::Man => arguments::man(),
    }
}
