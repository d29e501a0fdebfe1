//! Workers count orders and assign ids to them, while connections break and replies are lost. With a receipt, each
//! order is counted exactly once; without one, the worker would get an error with an unknown outcome. Fails if an order
//! is counted twice or not at all, or if two orders have the same id.
//!
//! ```console
//! cargo run --example counter
//! ```

use std::collections::BTreeSet;
use std::time::Duration;

use curator_examples::{Ensemble, Failure, builder};
use curator_recipes::client::{CuratorClient, RetryForever};
use curator_recipes::{DistributedAtomicLong, IdGenerator, ValueError};
use tokio::task::JoinSet;

const ORDERS: &str = "/curator-examples/counter/orders";
const IDS: &str = "/curator-examples/counter/ids";
const WORKERS: usize = 4;
const ORDERS_EACH: usize = 50;
/// The number of times that all connections are cut.
const CUTS: usize = 5;

/// Counts orders, and returns the ids that it has assigned.
async fn worker(number: usize, client: CuratorClient) -> Result<Vec<i64>, ValueError> {
    // The path is the same in each run, so that receipts do not accumulate.
    let receipt = format!("/curator-examples/counter/receipts/worker-{number}");
    let orders = DistributedAtomicLong::new(&client, ORDERS)?.exactly_once(receipt)?;
    let ids = IdGenerator::new(&client, IDS, 20)?;
    let mut given = Vec::new();
    for _ in 0..ORDERS_EACH {
        orders.increment().await?;
        given.push(ids.next().await?);
    }
    Ok(given)
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let ensemble = Ensemble::find().await?;
    let (proxy, behind_proxy) = ensemble.proxy()?;
    let operator = builder(ensemble.connect_string()).connect().await?;
    let orders = DistributedAtomicLong::new(&operator, ORDERS)?;
    let before = orders.get().await?;

    // All connections of the workers break several times, and replies are lost.
    let mut workers = JoinSet::new();
    for number in 0..WORKERS {
        // A worker retries until the outcome is known: after a reconnect, the receipt shows it.
        let again = RetryForever::new(Duration::from_millis(50))?;
        let client = builder(&behind_proxy).retry_policy(again).connect().await?;
        workers.spawn(worker(number, client));
    }
    let mut ids = BTreeSet::new();
    let mut pauses = tokio::time::interval(Duration::from_millis(100));
    pauses.tick().await;
    let mut cuts = 0;
    loop {
        tokio::select! {
            worker = workers.join_next() => match worker {
                Some(given) => ids.extend(given??),
                None => break,
            },
            _ = pauses.tick(), if cuts < CUTS => {
                proxy.cut();
                cuts += 1;
            }
        }
    }

    let counted = orders.get().await? - before;
    println!("{WORKERS} workers, {ORDERS_EACH} orders each: {counted} counted, {} ids", ids.len());
    let expected = WORKERS * ORDERS_EACH;
    if usize::try_from(counted) != Ok(expected) || ids.len() != expected {
        return Err(format!("expected {expected} counted orders and {expected} ids").into());
    }
    Ok(())
}
