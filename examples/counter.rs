//! Workers count orders and assign ids to them, while connections break and replies are lost. With
//! a receipt, each order is counted exactly once; without one, the worker would get an error with
//! an unknown outcome. Fails if an order is counted twice or not at all, or if two orders have the
//! same id.
//!
//! ```console
//! cargo run --example counter
//! ```

use std::collections::BTreeSet;
use std::time::Duration;

use curator_examples::{Ensemble, Failure, builder};
use curator_recipes::client::{CuratorClient, RetryForever};
use curator_recipes::{DistributedAtomicLong, IdGenerator, ValueError};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

const ORDERS: &str = "/curator-examples/counter/orders";
const IDS: &str = "/curator-examples/counter/ids";
const WORKERS: usize = 4;
const ORDERS_EACH: usize = 50;
/// All connections are cut each time this many orders have been counted.
const ORDERS_BETWEEN_CUTS: usize = 30;

/// Counts orders, reports each, and returns the ids that it has assigned.
async fn worker(
    number: usize,
    client: CuratorClient,
    counted: mpsc::Sender<()>,
) -> Result<Vec<i64>, ValueError> {
    // The path is the same in each run, so that receipts do not accumulate.
    let receipt = format!("/curator-examples/counter/receipts/worker-{number}");
    let orders = DistributedAtomicLong::new(&client, ORDERS)?.exactly_once(receipt)?;
    let ids = IdGenerator::new(&client, IDS, 20)?;
    let mut given = Vec::new();
    for _ in 0..ORDERS_EACH {
        orders.increment().await?;
        given.push(ids.next().await?);
        if counted.send(()).await.is_err() {
            // The receiver has been dropped, because the program is ending.
            break;
        }
    }
    Ok(given)
}

/// Formats consecutive ids as ranges.
fn ranges(ids: &[i64]) -> String {
    ids.chunk_by(|id, next| id + 1 == *next)
        .map(|block| format!("{}-{}", block[0], block[block.len() - 1]))
        .collect::<Vec<_>>()
        .join(", ")
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let ensemble = Ensemble::find().await?;
    let (proxy, behind_proxy) = ensemble.proxy()?;
    let operator = builder(ensemble.connect_string()).connect().await?;
    let orders = DistributedAtomicLong::new(&operator, ORDERS)?;
    let before = orders.get().await?;

    // All connections of the workers are cut several times, and replies are lost. The channel holds
    // one report, so no worker gets ahead of the cuts.
    let (reports, mut reported) = mpsc::channel(1);
    let mut workers = JoinSet::new();
    for number in 0..WORKERS {
        // A worker retries until the outcome is known: after a reconnect, the receipt shows it.
        let again = RetryForever::new(Duration::from_millis(50))?;
        let client = builder(&behind_proxy).retry_policy(again).connect().await?;
        workers.spawn(worker(number, client, reports.clone()));
    }
    drop(reports);
    let mut done = 0;
    while reported.recv().await.is_some() {
        done += 1;
        if done % ORDERS_BETWEEN_CUTS == 0 {
            proxy.cut();
            println!("{done:>3} orders are counted. All connections are cut.");
        }
    }
    let mut ids = BTreeSet::new();
    while let Some(given) = workers.join_next().await {
        let given = given??;
        println!(
            "A worker has counted {} orders, with the ids {}.",
            given.len(),
            ranges(&given)
        );
        ids.extend(given);
    }

    let counted = orders.get().await? - before;
    println!(
        "{WORKERS} workers, {ORDERS_EACH} orders each: {counted} counted, {} ids",
        ids.len()
    );
    let expected = WORKERS * ORDERS_EACH;
    if usize::try_from(counted) != Ok(expected) || ids.len() != expected {
        return Err(format!("expected {expected} counted orders and {expected} ids").into());
    }
    Ok(())
}
