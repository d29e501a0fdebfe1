//! Clients A, B and C acquire one lock, one after the other. B is cut off from the servers while it
//! holds the lock: its work is stopped before C can acquire the lock, and a store refuses its late
//! write. Fails if C acquires the lock earlier, or if the store accepts the write.
//!
//! ```console
//! cargo run --example mutex
//! ZOOKEEPER_CONNECT=zk1:2181,zk2:2181 cargo run --example mutex
//! ```

use std::time::{Duration, Instant};

use curator_examples::{Ensemble, Failure, builder};
use curator_recipes::client::CuratorClient;
use curator_recipes::fencing::{FencedResource, StaleToken};
use curator_recipes::{FencingToken, InterProcessMutex, LockGuard};
use curator_test::Direction;
use tokio::time::sleep;

const PATH: &str = "/curator-examples/mutex/lock";
/// The servers end a client's session, and release its locks, if they receive no request from the
/// client for this time. By default, ZooKeeper grants no less than 4 s.
const SESSION_TIMEOUT: Duration = Duration::from_secs(4);

/// The resource that the lock protects, which contains the name of the last writer. A store that
/// has seen a fencing token rejects lower tokens.
type Store = FencedResource<&'static str>;

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let timeline = Timeline {
        start: Instant::now(),
    };
    let ensemble = Ensemble::find().await?;
    // Only B is behind the proxy, whose network will fail.
    let (proxy, proxied) = ensemble.proxy()?;
    let a = connect(ensemble.connect_string()).await?;
    let b = connect(&proxied).await?;
    let c = connect(ensemble.connect_string()).await?;
    let store = Store::new("none");

    let (guard_a, _) = acquire("A", a.clone(), timeline).await?;
    let acquiring_b = tokio::spawn(acquire("B", b.clone(), timeline));
    timeline.print(&format!(
        "B waits for the lock, at place {} in the queue.",
        place(&b).await?
    ));
    let acquiring_c = tokio::spawn(acquire("C", c.clone(), timeline));
    timeline.print(&format!(
        "C waits for the lock, at place {} in the queue.",
        place(&c).await?
    ));
    guard_a
        .run(work(&store, guard_a.fencing_token(), "A", 10))
        .await??;
    timeline.print("A releases the lock.");
    guard_a.release().await?;

    let (guard_b, _) = acquiring_b.await??;
    let cut_off = async {
        sleep(Duration::from_secs(1)).await;
        timeline.print("B is cut off: nothing passes on its open connection. B still works, as its lock is valid.");
        proxy.black_hole(Direction::Both);
    };
    // `run` drops the work when the lock is lost.
    let (worked, ()) = tokio::join!(
        guard_b.run(work(&store, guard_b.fencing_token(), "B", 1000)),
        cut_off
    );
    if worked.is_ok() || guard_b.is_valid() {
        return Err("B has not lost the lock".into());
    }
    let lost = timeline.print(
        "B's lock is no longer valid: the server may end B's session soon. B's work is stopped.",
    );

    let (guard_c, acquired) = acquiring_c.await??;
    if acquired < lost {
        return Err("C acquired the lock before B's work was stopped".into());
    }
    let between = (acquired - lost).as_secs_f64();
    timeline.note(&format!(
        "That is {between:.3} s after B's work was stopped; the server has ended B's session."
    ));
    guard_c
        .run(work(&store, guard_c.fencing_token(), "C", 1))
        .await??;

    // Imitates a write that B sent while its lock was valid, and that the network delayed.
    match work(&store, guard_b.fencing_token(), "B", 1).await {
        Ok(()) => return Err("the store accepted B's late write".into()),
        Err(stale) => timeline.print(&format!(
            "B's late write reaches the store, which refuses it: {stale}."
        )),
    };
    timeline.print(&format!(
        "C releases the lock. The last write in the store is {}'s.",
        store.into_inner()
    ));
    guard_c.release().await?;

    proxy.heal();
    for client in [a, b, c] {
        client.close().await?;
    }
    Ok(())
}

async fn connect(connect_string: &str) -> Result<CuratorClient, Failure> {
    Ok(builder(connect_string)
        .session_timeout(SESSION_TIMEOUT)
        .connect()
        .await?)
}

/// Waits for the lock. Also returns the time when it was acquired.
async fn acquire(
    name: &'static str,
    client: CuratorClient,
    timeline: Timeline,
) -> Result<(LockGuard, Instant), Failure> {
    let guard = InterProcessMutex::non_reentrant(&client, PATH)?
        .acquire()
        .await?;
    let token = guard.fencing_token();
    let acquired = timeline.print(&format!(
        "{name} acquires the lock, with fencing token {token}, and works."
    ));
    Ok((guard, acquired))
}

/// Waits until the client is in the queue, and returns the number of clients before it, including
/// the holder.
async fn place(client: &CuratorClient) -> Result<usize, Failure> {
    let mutex = InterProcessMutex::non_reentrant(client, PATH)?;
    let session = client.session().await?.id();
    loop {
        let participants = mutex.participants().await?;
        if let Some(place) = participants
            .iter()
            .position(|participant| participant.session_id == session)
        {
            return Ok(place);
        }
        sleep(Duration::from_millis(10)).await;
    }
}

/// The work of a holder: writes to the store, each with the holder's token.
async fn work(
    store: &Store,
    token: FencingToken,
    name: &'static str,
    writes: u32,
) -> Result<(), StaleToken> {
    for _ in 0..writes {
        store.write(token, |last_writer| *last_writer = name)?;
        sleep(Duration::from_millis(100)).await;
    }
    Ok(())
}

#[derive(Clone, Copy)]
struct Timeline {
    start: Instant,
}

impl Timeline {
    /// Prints an event with the current time, and returns this time.
    fn print(self, event: &str) -> Instant {
        let now = Instant::now();
        println!("{:>6.3} s  {event}", (now - self.start).as_secs_f64());
        now
    }

    /// Prints a remark on the last event.
    fn note(self, remark: &str) {
        println!("          {remark}");
    }
}
