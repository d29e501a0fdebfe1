//! A worker in this program: runs cases with our client, or with the crate `zookeeper-client`.

mod cache;
mod cases;
mod crowd;
mod floor;
mod ours;
mod shards;
mod zookeeper_client;

use self::ours::Ours;
use self::zookeeper_client::ZooKeeperClient;

use std::future::Future;
use std::io::{self, BufRead, Lines, StdinLock, Write};
use std::pin::Pin;
use std::process::ExitCode;
use std::time::Duration;

use tokio::runtime::Runtime;

use crate::protocol::{Done, Lock, Operation, Reply, Request, Workload};

/// A client that is linked into this program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
#[expect(clippy::enum_variant_names, reason = "the name of a crate")]
pub(crate) enum Client {
    Ours,
    Native,
    ZookeeperClient,
}

/// Serves the requests from standard input until the input ends.
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

/// The locks and other recipes of a client.
pub(super) trait Locks {
    type Session: Session;

    /// Returns the reason as an error if the client does not support the operation on the lock.
    fn supports(operation: Operation, lock: Lock) -> Result<(), &'static str>;

    fn run(
        sessions: &[Self::Session],
        workload: &Workload,
    ) -> impl Future<Output = Result<Step, Failure>>;
}

/// A step of a run: the worker's reply after the step, and what follows after the bench's `go`.
pub(super) struct Step {
    pub(super) reply: Reply,
    pub(super) next: Option<Wait>,
}

impl Step {
    /// The last step.
    pub(super) fn done(done: Done) -> Self {
        Self {
            reply: Reply::Done(done),
            next: None,
        }
    }

    pub(super) fn then(
        reply: Reply,
        next: impl Future<Output = Result<Self, Failure>> + Send + 'static,
    ) -> Self {
        Self {
            reply,
            next: Some(Box::pin(next)),
        }
    }
}

pub(super) type Wait = Pin<Box<dyn Future<Output = Result<Step, Failure>> + Send>>;

/// Why a case cannot be measured, for a reader of the results.
pub(super) type Failure = Box<dyn std::error::Error + Send + Sync>;

/// A session.
pub(super) trait Session: Clone + Send + Sync + 'static {
    /// The maximal number of waiters of one session that have nodes in one queue; the others queue
    /// within the client.
    const MOST_IN_QUEUE: usize;

    /// A handle that sends single requests, without retries or other work of the client.
    type Raw: Clone + Send + Sync + 'static;

    fn connect(
        connect: &str,
        timeout: Duration,
    ) -> impl Future<Output = Result<Self, Failure>> + Send;

    /// The number of children of this node; 0 if it does not exist.
    fn children(&self, path: &str) -> impl Future<Output = Result<usize, Failure>> + Send;

    /// Creates a directory and its parents, unless they exist.
    fn make_directory(&self, directory: &str) -> impl Future<Output = Result<(), Failure>> + Send;

    fn raw(&self) -> impl Future<Output = Result<Self::Raw, Failure>> + Send;

    /// Creates an ephemeral, sequential node with this path prefix, and returns its path.
    fn create(
        raw: &Self::Raw,
        prefix: &str,
    ) -> impl Future<Output = Result<String, Failure>> + Send;

    fn delete(raw: &Self::Raw, node: &str) -> impl Future<Output = Result<(), Failure>> + Send;

    fn close(self) -> impl Future<Output = Result<(), Failure>> + Send;
}

/// A lock of one session on one path.
///
/// Each kind of lock is a separate type, so that a waiting task is as large as in a program that
/// uses only that kind.
pub(super) trait BenchLock: Send + Sync + Sized + 'static {
    type Session: Session;
    type Guard: Send + 'static;

    fn new(session: &Self::Session, path: &str, workload: &Workload) -> Result<Self, Failure>;

    fn lock(&self) -> impl Future<Output = Result<Self::Guard, Failure>> + Send;

    fn unlock(guard: Self::Guard) -> impl Future<Output = Result<(), Failure>> + Send;
}
