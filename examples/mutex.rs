//! Several contenders, each with a separate session, increment one counter in ZooKeeper by read-then-write. Only the
//! holder of the lock may do that, so no update is lost.
//!
//! ```console
//! cargo run --example mutex
//! ZOOKEEPER_CONNECT=zk1:2181,zk2:2181 cargo run --example mutex
//! ```

use std::sync::Arc;
use std::time::{Duration, Instant};

use curator_examples::{Ensemble, Failure, builder};
use curator_recipes::client::{CuratorClient, ExponentialBackoffRetry};
use curator_recipes::{FencingToken, InterProcessMutex};
use tokio::sync::Mutex;

const CONTENDERS: usize = 5;
const ROUNDS: usize = 4;
const DIR: &str = "/curator-examples/mutex";

/// When the last holder released the lock. Within this process only, to show how long a hand-over takes.
type LastRelease = Arc<Mutex<Option<Instant>>>;

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let ensemble = Ensemble::find().await?;
    let client = connect(&ensemble).await?;
    let counter = format!("{DIR}/counter");
    if client.check_exists(&counter).await?.is_none() {
        client.create().creating_parent_containers().for_path(&counter, "0").await?;
    }
    let before = read(&client, &counter).await?;

    println!("{CONTENDERS} contenders increment {counter} {ROUNDS} times each, from {before}.\n");
    let last_release = LastRelease::default();
    let mut contenders = Vec::new();
    for number in 1..=CONTENDERS {
        let client = connect(&ensemble).await?;
        let (counter, last_release) = (counter.clone(), Arc::clone(&last_release));
        contenders.push(tokio::spawn(contend(number, client, counter, last_release)));
    }
    let mut tokens = Vec::new();
    for contender in contenders {
        tokens.extend(contender.await??);
    }

    let after = read(&client, &counter).await?;
    let expected = before + (CONTENDERS * ROUNDS) as u64;
    println!("\nThe counter is {after}, expected {expected}.");
    // Sorted by the value that each holder wrote.
    tokens.sort_by_key(|(value, _)| *value);
    let rising = tokens.windows(2).all(|pair| pair[0].1 < pair[1].1);
    client.close().await?;
    if after != expected || !rising {
        return Err("updates were lost, or the fencing tokens do not rise".into());
    }
    println!("No update was lost, and the fencing token rose from holder to holder.");
    Ok(())
}

async fn contend(
    number: usize,
    client: CuratorClient,
    counter: String,
    last_release: LastRelease,
) -> Result<Vec<(u64, FencingToken)>, Failure> {
    let mutex = InterProcessMutex::non_reentrant(&client, format!("{DIR}/lock"))?;
    let mut tokens = Vec::new();
    for _ in 0..ROUNDS {
        let asked = Instant::now();
        let guard = mutex.acquire().await?;
        let hand_over = match last_release.lock().await.take() {
            Some(released) if released > asked => format!("handed over in {:.1?}", released.elapsed()),
            _ => "was free".to_owned(),
        };
        let waited = asked.elapsed();

        // Dropped if the lock is lost.
        let value = guard
            .run(async {
                let value = read(&client, &counter).await? + 1;
                client.set_data(&counter, value.to_string(), None).await?;
                Ok::<_, Failure>(value)
            })
            .await??;

        let token = guard.fencing_token();
        println!("contender {number}: waited {waited:>8.1?}, {hand_over:<24} token {token}, counter {value}");
        tokens.push((value, token));
        *last_release.lock().await = Some(Instant::now());
        guard.release().await?;
    }
    client.close().await?;
    Ok(tokens)
}

async fn connect(ensemble: &Ensemble) -> Result<CuratorClient, Failure> {
    let client = builder(ensemble.connect_string())
        .session_timeout(Duration::from_secs(10))
        .retry_policy(ExponentialBackoffRetry::new(Duration::from_millis(100), 3)?)
        .connect()
        .await?;
    Ok(client)
}

async fn read(client: &CuratorClient, counter: &str) -> Result<u64, Failure> {
    let (data, _) = client.get_data(counter).await?;
    Ok(String::from_utf8(data)?.parse()?)
}
