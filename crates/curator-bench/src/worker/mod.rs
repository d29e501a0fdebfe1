//! A worker that plays cases in this process: with our locks, or with `zookeeper-client`'s own.

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

use self::locks::{Locks, Played};
use self::ours::Ours;
use self::session::{Failure, Session};
use self::zookeeper_client::ZooKeeperClient;
use crate::protocol::{Answer, Play, Request};

/// A client that is linked into this program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Client {
    Ours,
    ZookeeperClient,
}

/// Serves requests until the input ends.
pub(crate) fn run(client: Client, connect: &str, session_timeout: Duration) -> ExitCode {
    let served = Runtime::new().map_err(Failure::from).and_then(|runtime| match client {
        Client::Ours => serve::<Ours>(&runtime, connect, session_timeout),
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

fn serve<L: Locks>(runtime: &Runtime, connect: &str, session_timeout: Duration) -> Result<(), Failure> {
    let mut sessions = Vec::<L::Session>::new();
    let mut input = io::stdin().lock().lines();
    while let Some(line) = input.next().transpose()? {
        let answered = match line.parse::<Request>() {
            Ok(Request::Open { sessions: number, connect: other }) => {
                let connect = other.as_deref().unwrap_or(connect);
                runtime.block_on(open::<L>(&mut sessions, number, connect, session_timeout))
            }
            Ok(Request::Supports { act, lock }) => Ok(match L::supports(act, lock) {
                Ok(()) => Answer::Yes,
                Err(why) => Answer::No(why.to_owned()),
            }),
            Ok(Request::Run(play)) => run_once::<L>(runtime, &sessions, &play, &mut input),
            Ok(Request::Go) => Err("nobody waits".into()),
            Err(error) => Err(error.into()),
        };
        write_answer(&answered.unwrap_or_else(|error| Answer::Error(error.to_string())))?;
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
) -> Result<Answer, Failure> {
    for _ in 0..number {
        sessions.push(L::Session::connect(connect, timeout).await?);
    }
    Ok(Answer::Ok)
}

fn run_once<L: Locks>(
    runtime: &Runtime,
    sessions: &[L::Session],
    play: &Play,
    input: &mut Lines<StdinLock<'_>>,
) -> Result<Answer, Failure> {
    L::supports(play.act, play.lock)?;
    let mut played = runtime.block_on(L::play(sessions, play))?;
    loop {
        match played {
            Played::Done(done) => return Ok(Answer::Done(done)),
            Played::Held { wait } => {
                write_answer(&Answer::Held)?;
                go(input)?;
                played = runtime.block_on(wait)?;
            }
            Played::Queued { nanoseconds, drain } => {
                write_answer(&Answer::Queued { nanoseconds })?;
                go(input)?;
                played = Played::Done(runtime.block_on(drain)?);
            }
            Played::Loaded { nanoseconds, next } => {
                write_answer(&Answer::Loaded { nanoseconds })?;
                go(input)?;
                played = runtime.block_on(next)?;
            }
            Played::Current { events, end } => {
                write_answer(&Answer::Current { events })?;
                go(input)?;
                played = Played::Done(runtime.block_on(end)?);
            }
        }
    }
}

fn go(input: &mut Lines<StdinLock<'_>>) -> Result<(), Failure> {
    match input.next().transpose()?.map(|line| line.parse()) {
        Some(Ok(Request::Go)) => Ok(()),
        other => Err(format!("{other:?} came in place of `go`").into()),
    }
}

fn write_answer(answer: &Answer) -> io::Result<()> {
    let mut output = io::stdout().lock();
    writeln!(output, "{answer}")?;
    output.flush()
}
