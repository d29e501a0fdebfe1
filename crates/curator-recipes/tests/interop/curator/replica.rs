//! A process of this crate that takes part in an election, and that can be killed, stopped and cut
//! off.

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

/// The environment variable of such a process: the recipe, the connect string, the path and the id.
const REPLICA: &str = "CURATOR_TEST_REPLICA";

/// The prefix of a reply or an event in the process's output.
const ANSWER: &str = "replica answers";
const EVENT: &str = "replica says";
const LEADS: &str = "leads";
const WORKED: &str = "worked";
const DROPPED: &str = "dropped";

/// The recipe that elects the leader.
#[derive(Debug, Clone, Copy)]
pub(super) enum Recipe {
    Latch,
    Selector,
}

impl Recipe {
    /// Its name in the commands of the Java process.
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

/// The latest term of a process of this crate.
#[derive(Debug)]
pub(super) struct LatestTerm {
    pub(super) is_valid: bool,
    /// The last time at which the term was valid, in nanoseconds of the system's monotonic clock,
    /// as sampled by a thread every millisecond.
    pub(super) last_valid: u64,
    /// Why it ended.
    #[expect(dead_code, reason = "shown when a test fails")]
    loss: String,
}

/// A process of this crate. It has a job that does one piece of work for each command, while it
/// leads.
pub(super) struct Replica {
    program: Program,
    answers: UnboundedReceiver<String>,
    events: UnboundedReceiver<String>,
}

impl Replica {
    /// Starts a process, which takes part from then on.
    pub(super) fn start(recipe: Recipe, connect_string: &str, path: &str, id: &str) -> Self {
        let mut command = Command::new(env::current_exe().unwrap());
        command.args([
            "--exact",
            concat!(module_path!(), "::replica")
                .split_once("::")
                .unwrap()
                .1,
            "--nocapture",
        ]);
        command.env(
            REPLICA,
            format!("{} {connect_string} {path} {id}", recipe.verb()),
        );
        let (answer, answers) = unbounded_channel();
        let (event, events) = unbounded_channel();
        let program = Program::start(command, move |line| {
            if let Some(words) = line.strip_prefix(ANSWER) {
                answer.send(words.trim().to_owned()).is_ok()
            } else if let Some(words) = line.strip_prefix(EVENT) {
                event.send(words.trim().to_owned()).is_ok()
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

    /// The next unread event, without its time, and its time.
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

    /// Gives the job work, and requests the term. The process may be stopped.
    pub(super) fn request_work(&mut self) {
        self.program.tell("work");
    }

    /// The latest term, as it was when the process received the request for work.
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
    // Ends this process even if the test is killed: a stopped process does not notice the end of
    // its input.
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

/// Executes the test's commands, on a thread: the first activity in a process that was stopped.
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
                    let ids = runtime
                        .block_on(participants())
                        .into_iter()
                        .map(|one| one.data);
                    ids.map(|id| String::from_utf8(id).unwrap())
                        .collect::<Vec<_>>()
                        .join(" ")
                }
                unknown => panic!("unknown command {unknown:?}"),
            };
            say(&format!("{ANSWER} {answer}"));
        }
        // The end of the input means that the test has ended.
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

struct ReportsDrop;

impl Drop for ReportsDrop {
    fn drop(&mut self) {
        say_event(DROPPED);
    }
}

fn say_event(what: &str) {
    say(&format!("{EVENT} {what} {}", monotonic_nanos()));
}

/// The clock of Java's `System.nanoTime`.
fn monotonic_nanos() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
