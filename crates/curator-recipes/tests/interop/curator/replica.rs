//! A separate process that takes part in an election with our recipe. The test can kill it, stop it
//! and cut it off.

use std::{
    env,
    future::pending,
    io,
    pin::pin,
    process::Command,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll, Waker},
    thread,
    time::Duration,
};

use curator_recipes::{
    LeaderLatch, LeaderObserver, LeaderSelector, Leadership, Participant, client::CuratorClient,
};
use curator_test::soon;
use rustix::time::{ClockId, clock_gettime};
use tokio::{
    runtime::Handle,
    sync::{
        mpsc::{UnboundedReceiver, unbounded_channel},
        watch,
    },
};

use crate::{SHORT, agent::Program, environment::say, ours::connect};

/// The environment variable that passes the recipe, the connect string, the path and the id to the
/// process.
const REPLICA: &str = "CURATOR_TEST_REPLICA";

/// The prefix of a reply in the process's output.
const ANSWER: &str = "replica answers";
/// The prefix of an event in the process's output.
const EVENT: &str = "replica says";
/// The event of a process that has become the leader.
const LEADS: &str = "leads";
/// The event of a piece of work that the job has done.
const WORKED: &str = "worked";
/// The event of a dropped job.
const DROPPED: &str = "dropped";

/// The recipe that elects the leader.
#[derive(Debug, Clone, Copy)]
pub(super) enum Recipe {
    Latch,
    Selector,
}

impl Recipe {
    /// The recipe's name in commands to Java.
    pub(super) fn verb(self) -> &'static str {
        match self {
            Self::Latch => "latch",
            Self::Selector => "select",
        }
    }

    pub(super) fn observe(self, client: &CuratorClient, path: &str) -> LeaderObserver {
        match self {
            Self::Latch => LeaderObserver::observe_latch(client, path).unwrap(),
            Self::Selector => LeaderObserver::observe_selector(client, path).unwrap(),
        }
    }
}

/// The latest term of a [`Replica`].
#[derive(Debug)]
pub(super) struct LatestTerm {
    pub(super) is_valid: bool,
    /// The last time at which the term was valid, in nanoseconds of the system's monotonic clock,
    /// as sampled by a thread every millisecond.
    pub(super) last_valid: u64,
    /// Why the term ended.
    #[expect(dead_code, reason = "shown when a test fails")]
    loss: String,
}

/// The test's handle to the process. While the process leads, its job does one piece of work for
/// each command.
pub(super) struct Replica {
    program: Program,
    answers: UnboundedReceiver<String>,
    events: UnboundedReceiver<String>,
}

impl Replica {
    /// Starts a process, which takes part from then on.
    pub(super) fn start(recipe: Recipe, connect_string: &str, path: &str, id: &str) -> Self {
        // The name of the test does not include the crate.
        let (_, test) = concat!(module_path!(), "::replica")
            .split_once("::")
            .unwrap();
        let mut command = Command::new(env::current_exe().unwrap());
        command.args(["--exact", test, "--nocapture"]);
        command.env(
            REPLICA,
            format!("{} {connect_string} {path} {id}", recipe.verb()),
        );
        let (answers_tx, answers) = unbounded_channel();
        let (events_tx, events) = unbounded_channel();
        let program = Program::start(command, move |line| {
            if let Some(words) = line.strip_prefix(ANSWER) {
                answers_tx.send(words.trim().to_owned()).is_ok()
            } else if let Some(words) = line.strip_prefix(EVENT) {
                events_tx.send(words.trim().to_owned()).is_ok()
            } else {
                // Ignores output of the test harness.
                true
            }
        });
        Self {
            program,
            answers,
            events,
        }
    }

    /// Waits for the next event. Returns the event and its time.
    async fn event(&mut self) -> (String, u64) {
        let event = soon(self.events.recv())
            .await
            .expect("the replica has ended");
        let (what, when) = event.split_once(' ').unwrap();
        (what.to_owned(), when.parse().unwrap())
    }

    /// Waits until the process leads, and asserts that its job works.
    pub(super) async fn until_leads(&mut self) {
        let (what, since) = self.event().await;
        assert_eq!(what, LEADS);
        self.request_work();
        let term = self.worked().await;
        assert!(
            term.is_valid && since < term.last_valid,
            "{term:?}, leads since {since}"
        );
        assert_eq!(self.event().await.0, WORKED);
    }

    /// Waits until the job is dropped, and asserts that it did no work before that. Returns the
    /// time of the drop, in nanoseconds of the system's monotonic clock.
    pub(super) async fn until_dropped(&mut self) -> u64 {
        let (what, when) = self.event().await;
        assert_eq!(what, DROPPED);
        when
    }

    /// Requests a piece of work and the latest term. Does not wait for them, because the process
    /// may be stopped.
    pub(super) fn request_work(&mut self) {
        self.program.tell("work");
    }

    /// Waits for the reply to [`request_work`](Self::request_work): the latest term, as it was when
    /// the process received the request.
    pub(super) async fn worked(&mut self) -> LatestTerm {
        let answer = self.answer().await;
        let words: Vec<_> = answer.splitn(3, ' ').collect();
        let [is_valid, last_valid, loss] = words[..] else {
            panic!("not three words: {answer}")
        };
        LatestTerm {
            is_valid: is_valid.parse().unwrap(),
            last_valid: last_valid.parse().unwrap(),
            loss: loss.to_owned(),
        }
    }

    /// The ids of all participants, in their order.
    pub(super) async fn participants(&mut self) -> Vec<String> {
        self.program.tell("participants");
        self.answer().await.split(' ').map(str::to_owned).collect()
    }

    async fn answer(&mut self) -> String {
        soon(self.answers.recv())
            .await
            .expect("the replica has ended")
    }

    pub(super) fn kill(&mut self) {
        self.program.kill();
    }

    pub(super) fn stop(&self) {
        self.program.stop();
    }

    pub(super) fn resume(&self) {
        self.program.resume();
    }
}

/// Not a test itself: the process that the tests start.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replica() {
    let Ok(arguments) = env::var(REPLICA) else {
        return;
    };
    // Ends this process even if the test is killed: a stopped process does not notice EOF on stdin.
    #[cfg(target_os = "linux")]
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL)).unwrap();
    let words: Vec<_> = arguments.split(' ').collect();
    let [recipe, connect_string, path, id] = words[..] else {
        panic!("not four words: {words:?}")
    };
    // Ends the line that the test harness has begun.
    say("");
    let client = connect(connect_string, SHORT).await;
    let term = Arc::new(Term::default());
    thread::spawn({
        let term = term.clone();
        move || {
            loop {
                term.check();
                thread::sleep(Duration::from_millis(1));
            }
        }
    });
    if recipe == Recipe::Latch.verb() {
        let latch = LeaderLatch::builder(&client, path).unwrap().id(id).start();
        serve(term.clone(), {
            let latch = latch.clone();
            async move || latch.participants().await.unwrap()
        });
        loop {
            let leadership = latch.leadership().await.unwrap();
            let lost = leadership.run(term.clone().job(leadership.clone())).await;
            assert!(lost.is_err());
        }
    }
    let selector = LeaderSelector::builder(&client, path)
        .unwrap()
        .id(id)
        .build();
    serve(term.clone(), {
        let selector = selector.clone();
        async move || selector.participants().await.unwrap()
    });
    selector
        .run(|leadership| term.clone().job(leadership), pending::<()>())
        .await
        .unwrap();
}

/// Executes the test's commands on a separate thread, so that a process that resumes executes them
/// first.
fn serve(term: Arc<Term>, participants: impl AsyncFn() -> Vec<Participant> + Send + 'static) {
    let runtime = Handle::current();
    thread::spawn(move || {
        for command in io::stdin().lines().map_while(Result::ok) {
            let answer = match &*command {
                "work" => {
                    term.work.send_replace(());
                    let is_valid = term.check();
                    format!(
                        "{is_valid} {} {}",
                        term.last_valid.load(Ordering::SeqCst),
                        term.loss()
                    )
                }
                "participants" => {
                    let ids: Vec<_> = runtime
                        .block_on(participants())
                        .into_iter()
                        .map(|participant| String::from_utf8(participant.data).unwrap())
                        .collect();
                    ids.join(" ")
                }
                unknown => panic!("unknown command {unknown:?}"),
            };
            say(&format!("{ANSWER} {answer}"));
        }
        // EOF means that the test has ended.
        std::process::exit(0);
    });
}

/// The latest term of this process.
#[derive(Default)]
struct Term {
    leadership: Mutex<Option<Leadership>>,
    /// The last time at which the term was found to be valid.
    last_valid: AtomicU64,
    work: watch::Sender<()>,
}

impl Term {
    /// Whether the term is valid. Records the time if it is.
    fn check(&self) -> bool {
        // The time is read first, so that a valid term was valid at this time or later.
        let now = monotonic_nanos();
        let is_valid = self
            .leadership
            .lock()
            .unwrap()
            .as_ref()
            .is_some_and(Leadership::is_valid);
        if is_valid {
            self.last_valid.fetch_max(now, Ordering::SeqCst);
        }
        is_valid
    }

    /// Why the term ended, as far as is known.
    fn loss(&self) -> String {
        let Some(leadership) = self.leadership.lock().unwrap().clone() else {
            return "never began".to_owned();
        };
        match pin!(leadership.lost()).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(loss) => loss.to_string(),
            Poll::Pending => "has not ended".to_owned(),
        }
    }

    /// The leader's job.
    async fn job(self: Arc<Self>, leadership: Leadership) -> Result<(), io::Error> {
        let mut work = self.work.subscribe();
        *self.leadership.lock().unwrap() = Some(leadership);
        say_event(LEADS);
        let _dropped = ReportsDrop;
        while work.changed().await.is_ok() {
            say_event(WORKED);
        }
        Ok(())
    }
}

/// Reports the drop of the job.
struct ReportsDrop;

impl Drop for ReportsDrop {
    fn drop(&mut self) {
        say_event(DROPPED);
    }
}

fn say_event(what: &str) {
    say(&format!("{EVENT} {what} {}", monotonic_nanos()));
}

/// The time of the system's monotonic clock, like Java's `System.nanoTime`.
fn monotonic_nanos() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
