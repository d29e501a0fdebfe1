//! The process with the clients.

use std::sync::Arc;
use std::time::Duration;

use curator_recipes::client::{CuratorClient, Error};
use tokio::io::{AsyncBufReadExt as _, BufReader, Lines, Stdin, stdin};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval};

use super::sample::Sample;
use super::support::{builder, say};
use super::work::{Done, task, use_each};

/// As many for each client: so twelve for each of the first ten locks, and eight for each of the others.
const TASKS: usize = 200;
/// Short, as some sessions are lost; and long enough for a server of any kind.
pub(crate) const SESSION_TIMEOUT: Duration = Duration::from_secs(4);

/// Works and rests as it is told to on its standard input.
pub(crate) async fn run(addresses: &str, seed: u64) {
    // Also when the test is killed.
    let death = Some(rustix::process::Signal::KILL);
    rustix::process::set_parent_process_death_signal(death).unwrap();
    let mut orders = BufReader::new(stdin()).lines();
    let (done, mut clients) = (Arc::new(Done::default()), Vec::new());
    for address in addresses.split(' ') {
        clients.push(builder(address, SESSION_TIMEOUT).connect().await.unwrap());
    }
    until_ordered(&mut orders, "work", "idle", &clients, &done).await;
    let (rest, resting) = watch::channel(false);
    let mut tasks = JoinSet::new();
    for number in 0..TASKS {
        let client = clients[number % clients.len()].clone();
        tasks.spawn(task(
            client,
            number / clients.len(),
            seed.wrapping_add(number as u64),
            Arc::clone(&done),
            resting.clone(),
        ));
    }
    until_ordered(&mut orders, "rest", "sample", &clients, &done).await;
    rest.send_replace(true);
    while let Some(ended) = tasks.join_next().await {
        ended.unwrap();
    }
    use_each(&clients[0]).await;
    until_ordered(&mut orders, "close", "rest", &clients, &done).await;
    for client in &clients {
        match client.close().await {
            // What that leaves on the server is counted.
            Ok(()) | Err(Error::CloseUnconfirmed { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }
    until_ordered(&mut orders, "end", "closed", &clients, &done).await;
}

/// Says every second how things are, until there is this order.
async fn until_ordered(
    orders: &mut Lines<BufReader<Stdin>>,
    order: &str,
    kind: &str,
    clients: &[CuratorClient],
    done: &Done,
) {
    let mut seconds = interval(Duration::from_secs(1));
    seconds.set_missed_tick_behavior(MissedTickBehavior::Delay);
    seconds.tick().await;
    loop {
        tokio::select! {
            line = orders.next_line() => {
                assert_eq!(line.unwrap().as_deref(), Some(order), "the test has ended");
                return;
            }
            // On a line of its own, whatever the test harness has begun to print.
            _ = seconds.tick() => say(&format!("\n{}", Sample::of_clients(clients, done).line(kind))),
        }
    }
}
