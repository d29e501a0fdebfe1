//! A task works on one guard, and does not poll its other acquires meanwhile.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use curator_recipes::client::CuratorClient;
use curator_recipes::{Error, InterProcessMutex, LockGuard};
use curator_test::{FaultProxy, OpCode};
use futures_util::FutureExt as _;

use crate::support::{behind_proxy, non_reentrant, path, requests_of, soon};

/// More than may be in flight at once, twice.
const ACQUIRES: usize = 300;

type Acquire<'a> = Pin<Box<dyn Future<Output = Result<LockGuard, Error>> + Send + 'a>>;

fn locks(client: &CuratorClient) -> Vec<InterProcessMutex> {
    let dir = path("unpolled");
    (0..ACQUIRES).map(|lock| non_reentrant(client, &format!("{dir}/{lock}"))).collect()
}

/// Polls an acquire of each lock once, and holds the answers.
async fn park<'a>(proxy: &FaultProxy, locks: &'a [InterProcessMutex]) -> Vec<Acquire<'a>> {
    proxy.hold_replies(OpCode::GetChildren2);
    proxy.hold_replies(OpCode::GetChildren);
    let mut acquires: Vec<Acquire<'_>> = locks.iter().map(|lock| lock.acquire().boxed()).collect();
    // With tokio's budget for one task, most of them would not get as far.
    let polled = tokio::task::unconstrained(async {
        acquires.iter_mut().for_each(|acquire| assert!(acquire.as_mut().now_or_never().is_none()));
    });
    polled.await;
    acquires
}

/// Releases the answers, and waits until they have arrived.
async fn all_answered(proxy: &FaultProxy, client: &CuratorClient) {
    proxy.release_held();
    soon(client.check_exists("/")).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_and_another_acquire_are_sent_before_any_request_of_unpolled_acquires() {
    let (proxy, client) = behind_proxy().await;
    let (locks, free) = (locks(&client), non_reentrant(&client, &path("free")));
    let guard = soon(free.acquire()).await.unwrap();
    let parked = park(&proxy, &locks).await;
    all_answered(&proxy, &client).await;
    let sent = || requests_of(&proxy, OpCode::Create2);
    let creates = sent();
    assert!(creates > 100, "{creates}");

    // Each is sent by the first poll. It may even be answered by then.
    let mut release = guard.release().boxed();
    let released = (&mut release).now_or_never();
    proxy.wait_for_request(OpCode::Delete, 1).await.unwrap();
    match released {
        Some(released) => released.unwrap(),
        None => soon(release).await.unwrap(),
    }
    let mut acquire = free.acquire().boxed();
    let acquired = (&mut acquire).now_or_never();
    proxy.wait_for_request(OpCode::Create2, creates + 1).await.unwrap();
    let guard = match acquired {
        Some(acquired) => acquired.unwrap(),
        None => soon(acquire).await.unwrap(),
    };
    soon(guard.release()).await.unwrap();
    assert_eq!(sent(), creates + 1);
    drop(parked);
    soon(client.janitor().idle()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_acquire_behind_unpolled_ones_is_woken_when_those_in_flight_are_answered() {
    let (proxy, client) = behind_proxy().await;
    let (locks, free) = (locks(&client), non_reentrant(&client, &path("free")));
    soon(soon(free.acquire()).await.unwrap().release()).await.unwrap();
    let parked = park(&proxy, &locks).await;
    let (mut acquire, woken) = (free.acquire().boxed(), Arc::new(Flag::default()));
    assert!(poll_with(&mut acquire, &woken).is_pending());
    assert!(!woken.is_raised());
    all_answered(&proxy, &client).await;
    assert!(woken.is_raised());
    // It takes its turn, before those that were granted one. It may even be answered by then.
    let guard = match poll_with(&mut acquire, &woken) {
        Poll::Ready(acquired) => acquired.unwrap(),
        Poll::Pending => soon(acquire).await.unwrap(),
    };
    soon(guard.release()).await.unwrap();
    drop(parked);
    soon(client.janitor().idle()).await;
}

fn poll_with<T>(future: &mut (impl Future<Output = T> + Unpin), woken: &Arc<Flag>) -> Poll<T> {
    Pin::new(future).poll(&mut Context::from_waker(&Waker::from(Arc::clone(woken))))
}

/// Raised when its future is woken.
#[derive(Default)]
struct Flag(AtomicBool);

impl Flag {
    fn is_raised(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::SeqCst);
    }
}
