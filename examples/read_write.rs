//! Many readers share the lock, but a writer holds it alone. A writer becomes a reader before any
//! other writer can acquire the lock. A reader that requests the write lock gets an error, because
//! it would wait for itself.
//!
//! ```console
//! cargo run --example read_write
//! ```

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use curator_examples::{Ensemble, Failure, builder};
use curator_recipes::client::CuratorClient;
use curator_recipes::{Error, InterProcessReadWriteLock};
use tokio::sync::Barrier;
use tokio::time::timeout;

const PATH: &str = "/curator-examples/read-write";
const READERS: usize = 3;
/// The limit of each wait for another contender.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(30);

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let ensemble = Ensemble::find().await?;
    let client = builder(ensemble.connect_string()).connect().await?;
    readers_overlap_and_a_writer_is_alone(&ensemble, &client).await?;
    downgrade(&InterProcessReadWriteLock::non_reentrant(&client, PATH)?).await?;
    upgrade(&InterProcessReadWriteLock::new(&client, PATH)?).await?;
    client.close().await?;
    Ok(())
}

/// Shows that readers overlap and a writer does not. Each reader has a separate session.
async fn readers_overlap_and_a_writer_is_alone(
    ensemble: &Ensemble,
    client: &CuratorClient,
) -> Result<(), Failure> {
    let holding = Arc::new(AtomicUsize::new(0));
    // No reader releases before all of them hold the lock and the writer waits for it.
    let all_have_arrived = Arc::new(Barrier::new(READERS + 1));
    let mut readers = Vec::new();
    for number in 1..=READERS {
        let client = builder(ensemble.connect_string()).connect().await?;
        let holding = Arc::clone(&holding);
        let all_have_arrived = Arc::clone(&all_have_arrived);
        readers.push(tokio::spawn(async move {
            let reading = InterProcessReadWriteLock::non_reentrant(&client, PATH)?
                .read()
                .acquire()
                .await?;
            holding.fetch_add(1, Ordering::SeqCst);
            timeout(DEFAULT_TIMEOUT, all_have_arrived.wait()).await?;
            println!(
                "reader {number}: holds the lock, with token {}",
                reading.fencing_token()
            );
            holding.fetch_sub(1, Ordering::SeqCst);
            reading.release().await?;
            client.close().await?;
            Ok::<_, Failure>(())
        }));
    }
    let lock = InterProcessReadWriteLock::non_reentrant(client, PATH)?;
    wait_for_contenders(&lock, READERS).await?;
    let writer = tokio::spawn({
        let lock = lock.clone();
        async move { lock.write().acquire().await }
    });
    wait_for_contenders(&lock, READERS + 1).await?;
    println!(
        "{} readers hold the lock at the same time, and a writer waits.",
        holding.load(Ordering::SeqCst)
    );
    all_have_arrived.wait().await;

    let writing = timeout(DEFAULT_TIMEOUT, writer).await???;
    let readers_holding = holding.load(Ordering::SeqCst);
    println!(
        "writer:   holds the lock, with token {}, and {readers_holding} readers hold it\n",
        writing.fencing_token()
    );
    for reader in readers {
        reader.await??;
    }
    writing.release().await?;
    if readers_holding == 0 {
        Ok(())
    } else {
        Err("the writer was not alone".into())
    }
}

/// Downgrades a writer to a reader, which lets other readers in while another writer waits.
async fn downgrade(lock: &InterProcessReadWriteLock) -> Result<(), Failure> {
    let writing = lock.write().acquire().await?;
    let token = writing.fencing_token();
    println!("A writer holds the lock, with token {token}.");
    let next = tokio::spawn({
        let lock = lock.clone();
        async move { lock.write().acquire().await }
    });
    wait_for_contenders(lock, 2).await?;

    let reading = writing.downgrade().await?;
    println!(
        "It is a reader now, with token {}:",
        reading.fencing_token()
    );
    for participant in lock.participants().await? {
        let does = if participant.owns { "holds" } else { "waits" };
        println!(
            "  {:<5} {does} {}",
            participant.kind.to_string(),
            participant.path.name()
        );
    }
    let late = lock.read().try_acquire().await?;
    println!(
        "A reader that arrives now: {}",
        if late.is_some() {
            "passes the writer"
        } else {
            "waits behind the writer"
        }
    );

    reading.release().await?;
    let writing = timeout(DEFAULT_TIMEOUT, next).await???;
    println!(
        "The other writer holds the lock, with token {}.\n",
        writing.fencing_token()
    );
    if writing.fencing_token() <= token || late.is_some() {
        return Err("the writer was overtaken, or its token is not greater".into());
    }
    Ok(writing.release().await?)
}

/// Shows that a reader of a reentrant lock cannot request the write lock.
async fn upgrade(lock: &InterProcessReadWriteLock) -> Result<(), Failure> {
    let reading = lock.read().acquire().await?;
    match lock.write().acquire().await {
        Err(refused @ Error::UpgradeRefused { .. }) => println!("refused: {refused}"),
        Err(other) => return Err(other.into()),
        Ok(_) => return Err("a reader has become a writer".into()),
    }
    Ok(reading.release().await?)
}

/// Waits until this many contenders hold the lock or wait for it.
async fn wait_for_contenders(
    lock: &InterProcessReadWriteLock,
    expected: usize,
) -> Result<(), Failure> {
    let wait = async {
        while lock.participants().await?.len() != expected {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        Ok(())
    };
    timeout(DEFAULT_TIMEOUT, wait).await?
}
