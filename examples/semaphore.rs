//! A limited number of holders in all processes: workers share leases. A task that requests several
//! leases gets all of them at once, and tasks that request one lease do not overtake it. The limit
//! is stored in a node, and changes while leases are held.
//!
//! ```console
//! cargo run --example semaphore
//! ```

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use curator_examples::{Ensemble, Failure, builder};
use curator_recipes::client::CuratorClient;
use curator_recipes::{InterProcessSemaphoreV2, SemaphoreLease, SharedCount};
use tokio::sync::Barrier;
use tokio::time::{sleep, timeout};

const PATH: &str = "/curator-examples/semaphore";
/// The node with the number of leases.
const COUNT: &str = "/curator-examples/semaphore-leases";
const LEASES: i32 = 2;
const WORKERS: usize = 6;
/// The limit of each wait for another contender.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(30);

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let ensemble = Ensemble::find().await?;
    let client = builder(ensemble.connect_string()).connect().await?;
    let count = SharedCount::new(&client, COUNT, LEASES)?;
    count.set(LEASES).await?;
    workers(&ensemble).await?;
    let semaphore = InterProcessSemaphoreV2::with_shared_count(&client, PATH, count.clone())?;
    many_at_once(&semaphore, &count).await?;
    client.close().await?;
    Ok(())
}

struct Crowd {
    /// The number of workers that hold a lease now.
    now: AtomicUsize,
    /// The largest number of such workers so far.
    most: AtomicUsize,
    /// Each worker waits here for another worker, so that all leases are in use at the same time.
    all_leases: Barrier,
}

async fn workers(ensemble: &Ensemble) -> Result<(), Failure> {
    println!("{WORKERS} workers share {LEASES} leases.\n");
    let crowd = Crowd {
        now: AtomicUsize::new(0),
        most: AtomicUsize::new(0),
        all_leases: Barrier::new(LEASES.try_into()?),
    };
    let crowd = Arc::new(crowd);
    let mut workers = Vec::new();
    for number in 1..=WORKERS {
        let client = builder(ensemble.connect_string()).connect().await?;
        workers.push(tokio::spawn(work(number, client, Arc::clone(&crowd))));
    }
    for worker in workers {
        timeout(DEFAULT_TIMEOUT, worker).await???;
    }
    let most = crowd.most.load(Ordering::SeqCst);
    println!("\nAt most {most} have worked at a time.");
    if most > LEASES.try_into()? {
        return Err("more workers than leases have worked at a time".into());
    }
    Ok(())
}

async fn work(number: usize, client: CuratorClient, crowd: Arc<Crowd>) -> Result<(), Failure> {
    let count = SharedCount::new(&client, COUNT, LEASES)?;
    let semaphore = InterProcessSemaphoreV2::with_shared_count(&client, PATH, count)?;
    let lease = semaphore.acquire().await?;
    let now = crowd.now.fetch_add(1, Ordering::SeqCst) + 1;
    crowd.most.fetch_max(now, Ordering::SeqCst);
    println!("worker {number}: has a lease; {now} at work");
    // The work is dropped if the lease is lost.
    lease.run(crowd.all_leases.wait()).await?;
    crowd.now.fetch_sub(1, Ordering::SeqCst);
    lease.release().await?;
    client.close().await?;
    Ok(())
}

/// Acquires several leases in one step, and changes the limit.
async fn many_at_once(
    semaphore: &InterProcessSemaphoreV2,
    count: &SharedCount,
) -> Result<(), Failure> {
    let one = semaphore.acquire().await?;
    println!("\nOne of {LEASES} leases is taken, and a task requests two.");
    let two = tokio::spawn({
        let semaphore = semaphore.clone();
        async move { semaphore.acquire_many(2).await }
    });
    wait_for_waiters(semaphore, 1).await?;
    let passed = semaphore.try_acquire().await?.is_some();
    println!(
        "Another task requests one, which is free: {}",
        if passed {
            "it gets it"
        } else {
            "it has to wait its turn"
        }
    );

    count.set(LEASES + 1).await?;
    let two = timeout(DEFAULT_TIMEOUT, two).await???;
    println!(
        "There are {} leases now, and the task gets both in one step:",
        LEASES + 1
    );
    for lease in &two {
        println!("  {}", lease.name());
    }

    count.set(1).await?;
    let valid = two
        .iter()
        .chain([&one])
        .filter(|lease| lease.is_valid())
        .count();
    let more = semaphore.try_acquire().await?.is_some();
    println!(
        "There is 1 lease now: {valid} are still held, and {} is given.",
        if more { "one more" } else { "none" }
    );
    SemaphoreLease::release_all(two.into_iter().chain([one])).await?;
    let again = semaphore
        .acquire_timeout(DEFAULT_TIMEOUT)
        .await?
        .ok_or("the leases were not given back")?;
    println!("All leases are given back, and one can be acquired again.");
    if passed || more || valid != 3 {
        return Err("a lease was given out of turn, or one too many, or taken away".into());
    }
    Ok(again.release().await?)
}

/// Waits until this many tasks wait for leases.
async fn wait_for_waiters(
    semaphore: &InterProcessSemaphoreV2,
    expected: usize,
) -> Result<(), Failure> {
    let wait = async {
        while semaphore
            .participants()
            .await?
            .iter()
            .filter(|participant| !participant.owns)
            .count()
            != expected
        {
            sleep(Duration::from_millis(10)).await;
        }
        Ok(())
    };
    timeout(DEFAULT_TIMEOUT, wait).await?
}
