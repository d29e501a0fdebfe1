//! A holder is stopped between its read and its write, and writes when it resumes, when another
//! client already holds the lock. The lock cannot prevent this late write, but the store rejects it
//! by its fencing token.
//!
//! When the late write arrives, the other client has read, but has not written yet. So the store
//! must record tokens at reads, too. If it recorded tokens only at writes, it would accept the late
//! write, and the next write would overwrite the late one.
//!
//! The example starts itself a second time as the first holder, and stops that process with
//! SIGSTOP, as a scheduler, a garbage collector or the migration of a virtual machine would. The
//! store is in the first process; the holder sends its reads and writes over a pipe, one line each.
//!
//! ```console
//! cargo run --example fencing
//! ```

use std::process::Stdio;
use std::time::Duration;

use curator_examples::{Ensemble, Failure, builder};
use curator_recipes::InterProcessMutex;
use curator_recipes::fencing::FencedResource;
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines, Stdin, stdin};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

const PATH: &str = "/curator-examples/fencing";
/// The first argument of the second process; the connect string follows.
const HOLDER: &str = "holder";
/// The holder's session timeout. Short, because the holder's lock becomes free only when the
/// session has expired.
const SESSION_TIMEOUT: Duration = Duration::from_secs(4);
/// The limit of each wait for the other process.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(60);

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let mut arguments = std::env::args().skip(1);
    match (arguments.next().as_deref(), arguments.next()) {
        (Some(HOLDER), Some(connect_string)) => hold(&connect_string).await,
        _ => coordinate().await,
    }
}

/// The first process: the store, and the next holder.
async fn coordinate() -> Result<(), Failure> {
    let ensemble = Ensemble::find().await?;
    let client = builder(ensemble.connect_string()).connect().await?;
    let mutex = InterProcessMutex::non_reentrant(&client, PATH)?;
    let store = FencedResource::new("tea".to_owned());

    let mut holder = Holder::start(ensemble.connect_string())?;
    println!("holder: {}", holder.line().await?);
    for _ in ["read", "write"] {
        let request = holder.line().await?;
        holder.answer(&serve(&store, &request)?).await?;
    }
    println!("holder: {}\n", holder.line().await?);

    holder.stop()?;
    // Puts the reply that the holder waits for into the pipe, so the holder writes as soon as it
    // resumes.
    holder.answer("go on").await?;
    println!("The holder is stopped, with the lock. This process requests the lock.");
    let guard = mutex
        .acquire_timeout(DEFAULT_TIMEOUT)
        .await?
        .ok_or("the lock has not become free")?;
    println!(
        "The holder's session has expired, and this process holds the lock: {}",
        guard.node()
    );
    let token = guard.fencing_token();
    let seen = serve(&store, &format!("read {token}"))?;
    println!(
        "\nThe holder resumes before this process has written, and has not noticed the expiry."
    );
    holder.resume()?;

    let write = holder.line().await?;
    let answer = serve(&store, &write)?;
    holder.answer(&answer).await?;
    let ours = serve(&store, &format!("write {token} {seen}, sugar"))?;
    while let Some(line) = holder.next_line().await? {
        println!("holder: {line}");
    }
    holder.finish().await?;

    let highest = store.highest();
    let value = store.into_inner();
    println!("\nThe store has {value:?}.");
    if answer == WRITTEN {
        return Err("the late write of the old holder was confirmed, and is lost".into());
    }
    if ours != WRITTEN || value != "tea, milk, sugar" {
        return Err("the new holder could not write what follows from its read".into());
    }
    if highest != Some(token) {
        return Err("the store does not remember the newest token".into());
    }
    println!(
        "The late write was refused. Without the token in our read, it would have been confirmed and then lost."
    );
    guard.release().await?;
    client.close().await?;
    Ok(())
}

/// The answer to a write that was applied.
const WRITTEN: &str = "written";

/// The store: handles a line `read <token>` or `write <token> <value>`, and returns the answer.
fn serve(store: &FencedResource<String>, line: &str) -> Result<String, Failure> {
    let mut words = line.splitn(3, ' ');
    let done = match (words.next(), words.next(), words.next()) {
        (Some("read"), Some(token), None) => store.read_with(token.parse()?, String::clone),
        (Some("write"), Some(token), Some(value)) => store
            .write(token.parse()?, |stored| value.clone_into(stored))
            .map(|()| WRITTEN.to_owned()),
        _ => {
            return Err(format!(
                "expected `read <token>` or `write <token> <value>`, got {line:?}"
            )
            .into());
        }
    };
    let answer = done.unwrap_or_else(|stale| format!("refused: {stale}"));
    println!("store:  {line:?} -> {answer}");
    Ok(answer)
}

/// The second process: acquires the lock, reads and writes, and is stopped before it writes again.
async fn hold(connect_string: &str) -> Result<(), Failure> {
    // The kernel kills this process when the first process dies: a stopped process would not notice
    // closed pipes.
    #[cfg(target_os = "linux")]
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;

    let client = builder(connect_string)
        .session_timeout(SESSION_TIMEOUT)
        .connect()
        .await?;
    let guard = InterProcessMutex::non_reentrant(&client, PATH)?
        .acquire()
        .await?;
    let token = guard.fencing_token();
    let mut answers = BufReader::new(stdin()).lines();
    println!("I have the lock, with token {token}");
    println!("read {token}");
    let seen = answer(&mut answers).await?;
    println!("write {token} {seen}, milk");
    answer(&mut answers).await?;

    println!(
        "I look before I write again: is my lock valid? {}",
        guard.is_valid()
    );
    // The first process stops this process here, after the check and before the write: this process
    // waits for a line, and reads it only when it resumes.
    answer(&mut answers).await?;
    println!("write {token} {seen}, milk, bread");
    let answer = answer(&mut answers).await?;

    println!("my write was answered with {answer:?}");
    println!("I look again: is my lock valid? {}", guard.is_valid());
    match guard.release().await {
        Ok(()) => println!("I have released the lock"),
        Err(error) => println!("{error}"),
    }
    // The client's session has expired, and the client might not have a new session yet, so there
    // is nothing to close.
    Ok(())
}

async fn answer(answers: &mut Lines<BufReader<Stdin>>) -> Result<String, Failure> {
    Ok(answers.next_line().await?.ok_or("the store is gone")?)
}

/// The first process's handle to the second process. Dropping it kills the second process, even if
/// that process is stopped.
struct Holder {
    process: Child,
    pid: Pid,
    stdin: ChildStdin,
    stdout: Lines<BufReader<ChildStdout>>,
}

impl Holder {
    fn start(connect_string: &str) -> Result<Self, Failure> {
        let mut process = Command::new(std::env::current_exe()?)
            .args([HOLDER, connect_string])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let pid = process
            .id()
            .and_then(|id| Pid::from_raw(id.try_into().ok()?))
            .ok_or("the holder has no id")?;
        let stdin = process.stdin.take().ok_or("the holder has no input")?;
        let stdout = process.stdout.take().ok_or("the holder has no output")?;
        Ok(Self {
            process,
            pid,
            stdin,
            stdout: BufReader::new(stdout).lines(),
        })
    }

    /// The next line that the holder prints; `None` when the holder has ended.
    async fn next_line(&mut self) -> Result<Option<String>, Failure> {
        Ok(tokio::time::timeout(DEFAULT_TIMEOUT, self.stdout.next_line()).await??)
    }

    /// The next line that the holder prints. Fails if the holder has ended.
    async fn line(&mut self) -> Result<String, Failure> {
        Ok(self
            .next_line()
            .await?
            .ok_or("the holder has ended too early")?)
    }

    async fn answer(&mut self, line: &str) -> Result<(), Failure> {
        Ok(self.stdin.write_all(format!("{line}\n").as_bytes()).await?)
    }

    /// Stops the holder by SIGSTOP, and waits until it has stopped.
    fn stop(&self) -> Result<(), Failure> {
        kill_process(self.pid, Signal::STOP)?;
        match waitpid(Some(self.pid), WaitOptions::UNTRACED)? {
            Some((_, status)) if status.stopped() => Ok(()),
            other => Err(format!("the holder has not stopped: {other:?}").into()),
        }
    }

    fn resume(&self) -> Result<(), Failure> {
        Ok(kill_process(self.pid, Signal::CONT)?)
    }

    /// Waits until the holder ends. Fails if the holder has failed.
    async fn finish(mut self) -> Result<(), Failure> {
        let status = tokio::time::timeout(DEFAULT_TIMEOUT, self.process.wait()).await??;
        if status.success() {
            Ok(())
        } else {
            Err(format!("the holder has failed: {status}").into())
        }
    }
}
