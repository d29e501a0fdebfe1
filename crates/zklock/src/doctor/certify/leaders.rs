//! The checks of leadership: it passes from one session to another, and is observed.

use std::convert::Infallible;

use curator_recipes::{FencingToken, LeaderLatch, LeaderObserver, LeaderSelector, ObservedLeader};
use tokio::sync::{mpsc, oneshot};

use super::site::{Check, Site, children, soon};
use super::verdict::{Checked, Problem, Verdict, expect};

/// The checks of leadership, in the order of the output.
pub(super) fn checks<'a>() -> Vec<Check<'a>> {
    vec![
        Check::of_hold("LeaderLatch", latch),
        Check::of_hold("LeaderSelector", selector),
        Check::new("LeaderObserver", observer),
    ]
}

async fn latch(site: Site) -> Checked {
    let Site {
        first,
        second,
        path,
    } = &site;
    let one = LeaderLatch::builder(first, path)?.id("first").start();
    let leads = soon("the first latch leads", one.leadership(), || {
        one.last_error()
    })
    .await?;
    let two = LeaderLatch::builder(second, path)?.id("second").start();
    children(first, path, 2).await?;
    expect(
        leads.is_valid() && !two.has_leadership(),
        "two latches lead",
    )?;
    one.close().await?;
    expect(!leads.is_valid(), "a closed latch leads")?;
    let next = soon("the second latch leads", two.leadership(), || {
        two.last_error()
    })
    .await?;
    expect(
        next.fencing_token() > leads.fencing_token(),
        "the fencing token of the second leader is not higher",
    )?;
    two.close().await?;
    Ok(Verdict::Works)
}

/// A participant of an election by selectors.
struct Participant {
    selector: LeaderSelector,
    /// The tokens of its terms.
    terms: mpsc::UnboundedReceiver<FencingToken>,
    stop: oneshot::Sender<()>,
}

impl Participant {
    /// The participant, and the run that it takes part in.
    fn new(selector: LeaderSelector) -> (Self, impl Future<Output = Result<(), Problem>> + Send) {
        let (led, terms) = mpsc::unbounded_channel();
        let (stop, stopped) = oneshot::channel::<()>();
        let running = selector.clone();
        let run = async move {
            let job = |term: curator_recipes::Leadership| {
                let _ = led.send(term.fencing_token());
                async move {
                    term.shutdown_requested().await;
                    Ok::<_, Infallible>(())
                }
            };
            running.run(job, stopped).await.map_err(Problem::from)
        };
        let participant = Self {
            selector,
            terms,
            stop,
        };
        (participant, run)
    }

    /// Waits until this participant leads.
    async fn leads(&mut self, what: &str) -> Result<FencingToken, Problem> {
        let selector = &self.selector;
        let terms = &mut self.terms;
        let leads = async {
            let term = terms.recv().await;
            term.ok_or_else(|| Problem::fault("a selector has ended"))
        };
        soon(what, leads, || selector.last_error()).await
    }
}

async fn selector(site: Site) -> Checked {
    let Site {
        first,
        second,
        path,
    } = &site;
    let select = |client| LeaderSelector::builder(client, path);
    let (mut one, first_run) = Participant::new(select(first)?.id("first").build());
    let (mut two, second_run) = Participant::new(select(second)?.id("second").build());
    let (start, started) = oneshot::channel::<()>();
    let second_run = async {
        let _ = started.await;
        second_run.await
    };
    let passing = async {
        let token = one.leads("the first selector leads").await?;
        let _ = start.send(());
        children(first, path, 2).await?;
        expect(two.terms.is_empty(), "two selectors lead")?;
        let _ = one.stop.send(());
        let next = two.leads("the second selector leads").await?;
        expect(
            next > token,
            "the fencing token of the second leader is not higher",
        )?;
        let _ = two.stop.send(());
        Ok(())
    };
    tokio::try_join!(first_run, second_run, passing)?;
    Ok(Verdict::Works)
}

async fn observer(site: Site) -> Checked {
    let Site {
        first,
        second,
        path,
    } = &site;
    let observer = LeaderObserver::observe_latch(second, path)?;
    let mut state = observer.state();
    let mut is_seen = async |leader: Option<&str>| {
        let seen = state.wait_for(|state| match state {
            ObservedLeader::Leader(seen) => leader.is_some_and(|leader| seen.id() == leader),
            ObservedLeader::NoLeader => leader.is_none(),
            _ => false,
        });
        soon("the observer reports the leader", seen, || {
            observer.last_error()
        })
        .await
    };
    let one = LeaderLatch::builder(first, path)?.id("first").start();
    soon("the first latch leads", one.leadership(), || {
        one.last_error()
    })
    .await?;
    is_seen(Some("first")).await?;
    let two = LeaderLatch::builder(first, path)?.id("second").start();
    children(first, path, 2).await?;
    one.close().await?;
    is_seen(Some("second")).await?;
    two.close().await?;
    is_seen(None).await?;
    Ok(Verdict::Works)
}
