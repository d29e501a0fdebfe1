//! Several locks as one. Tasks move money between accounts, each under the locks of two accounts in
//! any order, without deadlocks and without losing money. Then locks of different kinds become one
//! lock, which is held as a whole or not at all.
//!
//! ```console
//! cargo run --example multi_lock
//! ```

use std::sync::Arc;
use std::time::Duration;

use curator_examples::{Ensemble, Failure, builder};
use curator_recipes::client::CuratorClient;
use curator_recipes::{
    Error, FencingToken, InterProcessLock, InterProcessMultiLock, InterProcessMutex,
    InterProcessReadWriteLock, InterProcessSemaphoreMutex,
};
use tokio::time::timeout;

const DIR: &str = "/curator-examples/multi-lock";
const ACCOUNTS: u64 = 4;
const BALANCE: i64 = 100;
const TASKS: u64 = 5;
const TRANSFERS: u64 = 4;
/// The limit of all transfers together.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(60);

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let ensemble = Ensemble::find().await?;
    let client = builder(ensemble.connect_string()).connect().await?;
    transfers(&ensemble, &client).await?;
    lost_lock(&client).await?;
    locks_of_all_kinds(&ensemble, &client).await?;
    client.close().await?;
    Ok(())
}

fn balance(account: u64) -> String {
    format!("{DIR}/balance-{account}")
}

fn lock(account: u64) -> String {
    format!("{DIR}/lock-{account}")
}

async fn read(client: &CuratorClient, account: u64) -> Result<i64, Failure> {
    let (data, _) = client.get_data(balance(account)).await?;
    Ok(String::from_utf8(data)?.parse()?)
}

async fn transfers(ensemble: &Ensemble, client: &CuratorClient) -> Result<(), Failure> {
    for account in 0..ACCOUNTS {
        if client.check_exists(balance(account)).await?.is_none() {
            client
                .create()
                .creating_parent_containers()
                .for_path(balance(account), "")
                .await?;
        }
        client
            .set_data(balance(account), BALANCE.to_string(), None)
            .await?;
    }
    let mut tasks = Vec::new();
    for number in 1..=TASKS {
        let client = builder(ensemble.connect_string()).connect().await?;
        tasks.push(tokio::spawn(async move {
            let mut done = Vec::new();
            for round in 0..TRANSFERS {
                // Selects two different accounts, in an order that differs between transfers.
                let from = (number * 7 + round * 5) % ACCOUNTS;
                let to = (from + 1 + (number + round) % (ACCOUNTS - 1)) % ACCOUNTS;
                done.push(transfer(&client, number, from, to).await?);
            }
            client.close().await?;
            Ok::<_, Failure>(done)
        }));
    }
    let mut done = Vec::new();
    for task in tasks {
        done.extend(timeout(DEFAULT_TIMEOUT, task).await???);
    }
    // Transfers without a common account run concurrently. Transfers of one account are ordered by
    // their tokens.
    done.sort();
    for Transfer {
        token,
        task,
        amount,
        from,
        to,
    } in done
    {
        println!(
            "token {token:>3}: task {task} moves {amount} from account {from} to account {to}"
        );
    }
    let mut balances = Vec::new();
    for account in 0..ACCOUNTS {
        balances.push(read(client, account).await?);
    }
    let sum: i64 = balances.iter().sum();
    println!("\nThe balances are {balances:?}; their sum is {sum}.");
    if sum == BALANCE * i64::try_from(ACCOUNTS)? {
        Ok(())
    } else {
        Err("money was lost".into())
    }
}

/// A completed transfer, ordered by its token.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Transfer {
    token: FencingToken,
    task: u64,
    amount: i64,
    from: u64,
    to: u64,
}

async fn transfer(
    client: &CuratorClient,
    task: u64,
    from: u64,
    to: u64,
) -> Result<Transfer, Failure> {
    let guard = InterProcessMultiLock::non_reentrant(client, [lock(from), lock(to)])?
        .acquire()
        .await?;
    let amount = i64::try_from(task)?;
    let left = read(client, from).await? - amount;
    let gained = read(client, to).await? + amount;
    // Both writes are applied or neither, and only while both locks are held.
    guard
        .transaction()
        .set_data(balance(from), left.to_string(), None)?
        .set_data(balance(to), gained.to_string(), None)?
        .commit()
        .await?;
    let token = guard.fencing_token();
    guard.release().await?;
    Ok(Transfer {
        token,
        task,
        amount,
        from,
        to,
    })
}

/// Shows that a write under a lost lock is not applied.
async fn lost_lock(client: &CuratorClient) -> Result<(), Failure> {
    let guard = InterProcessMultiLock::non_reentrant(client, [lock(0), lock(1)])?
        .acquire()
        .await?;
    client.delete().for_path(guard.node()).await?;
    match guard
        .transaction()
        .set_data(balance(0), "0", None)?
        .commit()
        .await
    {
        Err(Error::Lost(lost)) => println!("A write came too late, and was not done: {lost}"),
        other => return Err(format!("a write without the lock ended with {other:?}").into()),
    }
    match guard.release().await {
        Err(Error::Lost(_)) => Ok(()),
        other => Err(format!("the release of a lost lock ended with {other:?}").into()),
    }
}

async fn locks_of_all_kinds(ensemble: &Ensemble, client: &CuratorClient) -> Result<(), Failure> {
    let path = |name: &str| format!("{DIR}/{name}");
    let mutex = InterProcessMutex::non_reentrant(client, path("mutex"))?;
    let catalogue = InterProcessReadWriteLock::non_reentrant(client, path("catalogue"))?;
    let printer = InterProcessSemaphoreMutex::new(client, path("printer"))?;
    let locks: [Arc<dyn InterProcessLock>; 3] = [
        Arc::new(mutex.clone()),
        Arc::new(catalogue.write().clone()),
        Arc::new(printer),
    ];
    let all = InterProcessMultiLock::of(locks)?;

    let other = builder(ensemble.connect_string()).connect().await?;
    let held = InterProcessSemaphoreMutex::new(&other, path("printer"))?
        .acquire()
        .await?;
    let missed = all
        .acquire_timeout(Duration::from_millis(500))
        .await?
        .is_none();
    println!(
        "\nThe printer is held elsewhere: {}",
        if missed {
            "not acquired"
        } else {
            "acquired anyway"
        }
    );
    let is_free = InterProcessMutex::non_reentrant(&other, path("mutex"))?
        .try_acquire()
        .await?
        .is_some()
        && InterProcessReadWriteLock::non_reentrant(&other, path("catalogue"))?
            .write()
            .try_acquire()
            .await?
            .is_some();
    println!(
        "The mutex and the catalogue are {}.",
        if is_free { "given back" } else { "still held" }
    );
    held.release().await?;

    let guard = all
        .acquire_timeout(DEFAULT_TIMEOUT)
        .await?
        .ok_or("the locks were not released in time")?;
    println!("The printer is free, and all three locks are held:");
    guard
        .fencing_tokens()
        .for_each(|(node, token)| println!("  {node}, token {token}"));
    println!(
        "The greatest token is the guard's: {}",
        guard.fencing_token()
    );
    guard.release().await?;
    other.close().await?;
    if missed && is_free {
        Ok(())
    } else {
        Err("the multi-lock was acquired, or kept, in part".into())
    }
}
