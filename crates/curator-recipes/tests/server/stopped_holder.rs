//! A process that is stopped with the lock in its hand, and goes on when another has it.

use std::process::Stdio;
use std::time::Duration;

use curator_recipes::fencing::FencedResource;
use curator_recipes::{Error, FencingToken};
use curator_test::TestingServer;
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines, stdin};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use crate::support::{builder, client, mutex, path, soon};

/// The name of the test, which starts itself once more as the process that is stopped.
const TEST: &str = "stopped_holder::a_holder_that_was_stopped_past_its_session_writes_nowhere";
/// Set in the process that is stopped: the connect string, the lock's path and the account's.
const HOLDER: &str = "STOPPED_HOLDER";
/// What it says for the test begins with this.
const SAYS: &str = "holder: ";
/// The holder's. Short, as its lock is free only when the server has given its session up; and long enough for it to be
/// stopped before, on a busy machine.
const SESSION_TIMEOUT: Duration = Duration::from_secs(4);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_holder_that_was_stopped_past_its_session_writes_nowhere() {
    if let Ok(what) = std::env::var(HOLDER) {
        let what: Vec<_> = what.split(' ').collect();
        let [connect_string, lock, account] = what[..] else { panic!("{what:?}") };
        return hold(connect_string, lock, account).await;
    }
    let server = TestingServer::shared().await;
    let (client, lock, account) = (client().await, path("stopped"), path("stopped-account"));
    client.create().creating_parent_containers().for_path(&account, "100").await.unwrap();
    let resource = FencedResource::new("nobody");
    let mutex = mutex(&client, &lock);

    let mut holder = Holder::start(&format!("{} {lock} {account}", server.connect_string()));
    assert_eq!(holder.says().await, "written");
    let old: FencingToken = holder.says().await.parse().unwrap();
    resource.write(old, |value| *value = "the old holder").unwrap();
    holder.stop();
    assert!(mutex.try_acquire().await.unwrap().is_none(), "the lock is not held");
    // What it waits for is there, so it writes as soon as it goes on.
    holder.tell("go on").await;

    let guard = soon(mutex.acquire()).await.unwrap();
    let new = guard.fencing_token();
    assert!(new > old);
    resource.write(new, |value| *value = "the new holder").unwrap();
    guard.transaction().set_data(&account, "the new holder", Some(1)).unwrap().commit().await.unwrap();
    holder.go_on();

    // Its transaction, its token and its release.
    assert_eq!(holder.says().await, "lost");
    let late: FencingToken = holder.says().await.parse().unwrap();
    assert_eq!(late, old);
    let stale = resource.write(late, |value| *value = "the old holder, late").unwrap_err();
    assert_eq!((stale.token, stale.highest), (old, new));
    assert_eq!(holder.says().await, "lost");
    holder.finish().await;

    assert!(guard.is_valid());
    assert!(client.check_exists(guard.node()).await.unwrap().is_some());
    assert_eq!(resource.into_inner(), "the new holder");
    let (data, stat) = client.get_data(&account).await.unwrap();
    assert_eq!((&*data, stat.version), (&b"the new holder"[..], 2));
    guard.release().await.unwrap();
}

/// The process that is stopped.
async fn hold(connect_string: &str, lock: &str, account: &str) {
    // Also when the first process is killed: who is stopped does not see that its pipes are closed.
    #[cfg(target_os = "linux")]
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL)).unwrap();

    let client = builder(connect_string, SESSION_TIMEOUT).connect().await.unwrap();
    let guard = mutex(&client, lock).acquire().await.unwrap();
    let token = guard.fencing_token();
    say(&outcome(guard.transaction().set_data(account, "the old holder", None).unwrap().commit().await));
    assert!(guard.is_valid());
    // From here on it can be stopped, and it is by the time that it may go on.
    say(&token.to_string());
    BufReader::new(stdin()).lines().next_line().await.unwrap();
    say(&outcome(guard.transaction().set_data(account, "the old holder, late", None).unwrap().commit().await));
    say(&token.to_string());
    say(&outcome(guard.release().await));
}

fn outcome<T>(result: Result<T, Error>) -> String {
    match result {
        Ok(_) => "written".to_owned(),
        Err(Error::Lost(_)) => "lost".to_owned(),
        Err(other) => other.to_string(),
    }
}

/// On a line of its own, whatever the test harness has begun to print.
fn say(line: &str) {
    println!("\n{SAYS}{line}");
}

/// The process that is stopped, as the test has it. Killed when this is dropped, also while it is stopped.
struct Holder {
    process: Child,
    pid: Pid,
    stdin: ChildStdin,
    stdout: Lines<BufReader<ChildStdout>>,
}

impl Holder {
    fn start(what: &str) -> Self {
        let mut process = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", TEST, "--nocapture"])
            .env(HOLDER, what)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let pid = Pid::from_raw(process.id().unwrap().try_into().unwrap()).unwrap();
        let (stdin, stdout) = (process.stdin.take().unwrap(), process.stdout.take().unwrap());
        Self { process, pid, stdin, stdout: BufReader::new(stdout).lines() }
    }

    /// The next thing that it says.
    async fn says(&mut self) -> String {
        loop {
            let line = soon(self.stdout.next_line()).await.unwrap().expect("the holder has ended too early");
            if let Some(said) = line.strip_prefix(SAYS) {
                return said.to_owned();
            }
        }
    }

    async fn tell(&mut self, line: &str) {
        self.stdin.write_all(format!("{line}\n").as_bytes()).await.unwrap();
    }

    /// Stops it, and waits until it stands still.
    fn stop(&self) {
        kill_process(self.pid, Signal::STOP).unwrap();
        let (_, status) = waitpid(Some(self.pid), WaitOptions::UNTRACED).unwrap().unwrap();
        assert!(status.stopped(), "the holder has not stopped: {status:?}");
    }

    fn go_on(&self) {
        kill_process(self.pid, Signal::CONT).unwrap();
    }

    /// Waits for its end, and its test's.
    async fn finish(mut self) {
        let status = soon(self.process.wait()).await.unwrap();
        assert!(status.success(), "the holder has failed: {status}");
    }
}
