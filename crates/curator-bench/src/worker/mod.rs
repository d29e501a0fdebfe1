//! A worker in this program: runs cases with our client, or with the crate `zookeeper-client`.

mod cache;
mod cases;
mod crowd;
mod discovery;
mod floor;
mod locks;
mod ours;
mod session;
mod zookeeper_client;

use std::io::{self, BufRead, Lines, StdinLock, Write};
use std::process::ExitCode;
use std::time::Duration;

use tokio::runtime::Runtime;

use self::locks::Locks;
use self::ours::Ours;
use self::session::{Failure, Session};
use self::zookeeper_client::ZooKeeperClient;
use crate::protocol::{Reply, Request, Workload};

/// A client that is linked into this program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
#[expect(clippy::enum_variant_names, reason = "the name of a crate")]
pub(crate) enum Client {
    Ours,
    Native,
    ZookeeperClient,
}

/// Serves the requests of standard input until it ends.
pub(crate) fn run(client: Client, connect: &str, session_timeout: Duration) -> ExitCode {
    let served = Runtime::new()
        .map_err(Failure::from)
        .and_then(|runtime| match client {
            Client::Ours => serve::<Ours>(&runtime, connect, session_timeout),
            Client::Native => {
                ours::use_native_transport();
                serve::<Ours>(&runtime, connect, session_timeout)
            }
            Client::ZookeeperClient => serve::<ZooKeeperClient>(&runtime, connect, session_timeout),
        });
    match served {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("curator-bench worker: {error}");
            ExitCode::FAILURE
        }
    }
}

fn serve<L: Locks>(
    runtime: &Runtime,
    connect: &str,
    session_timeout: Duration,
) -> Result<(), Failure> {
    let mut sessions = Vec::<L::Session>::new();
    let mut input = io::stdin().lock().lines();
    while let Some(line) = input.next().transpose()? {
        let result = match line.parse::<Request>() {
            Ok(Request::Open {
                sessions: number,
                connect: other,
            }) => {
                let connect = other.as_deref().unwrap_or(connect);
                runtime.block_on(open::<L>(&mut sessions, number, connect, session_timeout))
            }
            Ok(Request::Supports { operation, lock }) => Ok(match L::supports(operation, lock) {
                Ok(()) => Reply::Yes,
                Err(why) => Reply::No(why.to_owned()),
            }),
            Ok(Request::Run(workload)) => run_once::<L>(runtime, &sessions, &workload, &mut input),
            Ok(Request::Go) => Err("no run waits for `go`".into()),
            Err(error) => Err(error.into()),
        };
        write_reply(&result.unwrap_or_else(|error| Reply::Error(error.to_string())))?;
    }
    runtime.block_on(async {
        for session in sessions {
            session.close().await?;
        }
        Ok(())
    })
}

async fn open<L: Locks>(
    sessions: &mut Vec<L::Session>,
    number: usize,
    connect: &str,
    timeout: Duration,
) -> Result<Reply, Failure> {
    for _ in 0..number {
        sessions.push(L::Session::connect(connect, timeout).await?);
    }
    Ok(Reply::Ok)
}

fn run_once<L: Locks>(
    runtime: &Runtime,
    sessions: &[L::Session],
    workload: &Workload,
    input: &mut Lines<StdinLock<'_>>,
) -> Result<Reply, Failure> {
    L::supports(workload.operation, workload.lock)?;
    let mut step = runtime.block_on(L::run(sessions, workload))?;
    while let Some(next) = step.next {
        write_reply(&step.reply)?;
        await_go(input)?;
        step = runtime.block_on(next)?;
    }
    Ok(step.reply)
}

/// Waits for the request `go`.
fn await_go(input: &mut Lines<StdinLock<'_>>) -> Result<(), Failure> {
    match input.next().transpose()?.map(|line| line.parse()) {
        Some(Ok(Request::Go)) => Ok(()),
        other => Err(format!("expected `go`, got {other:?}").into()),
    }
}

fn write_reply(reply: &Reply) -> io::Result<()> {
    let mut output = io::stdout().lock();
    writeln!(output, "{reply}")?;
    output.flush()
}
