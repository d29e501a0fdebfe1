//! Workers whose lock nodes an operator deletes while they hold the lock.

use std::collections::BTreeMap;

use curator_jepsen::history::{Event, Outcome, What};
use curator_jepsen::work::{LockKind, Part, Variant, Work};
use curator_jepsen::worker::node_sets;
use curator_recipes::client::CuratorClient;
use curator_test::{TestingServer, until};

use crate::support::{Run, Worker, check_holds, check_sets, elements};

/// Each with what becomes of a write whose lock was deleted before.
const FENCED: [(Variant, Outcome); 3] = [
    (Variant::Guarded, Outcome::NotSent),
    (Variant::Transaction, Outcome::Refused),
    (Variant::Token, Outcome::Refused),
];

fn part(variant: Variant) -> Part {
    Part { lock: LockKind::Mutex, variant }
}

/// What a history tells of a part's writes and holds.
fn of(history: &[Event], key: &str) -> Vec<Event> {
    let is_of = |event: &&Event| match &event.what {
        What::Wrote { part, .. } | What::Acquired { part, .. } => part == key,
        _ => false,
    };
    history.iter().filter(is_of).cloned().collect()
}

/// Deletes the node of every second holder or so, so that there is something to lose.
struct Operator<'a> {
    client: &'a CuratorClient,
    /// How many holds a part had had at the last delete.
    holds: BTreeMap<String, usize>,
}

impl<'a> Operator<'a> {
    fn new(client: &'a CuratorClient) -> Self {
        Self { client, holds: BTreeMap::new() }
    }

    async fn look(&mut self, key: &str, history: &[Event]) {
        let holds = history.iter().filter(|event| matches!(event.what, What::Acquired { .. })).count();
        let last = self.holds.entry(key.to_owned()).or_default();
        if holds > *last + 1 {
            *last = holds;
            delete_first(self.client, &format!("/jepsen/{key}")).await;
        }
    }
}

/// Deletes the first node of a queue.
async fn delete_first(client: &CuratorClient, path: &str) {
    let mut nodes = client.get_children(path).await.unwrap();
    nodes.sort_by_key(|node| node.rsplit('-').next().map(str::to_owned));
    if let Some(first) = nodes.first() {
        // It may be gone.
        drop(client.delete().for_path(format!("{path}/{first}")).await);
    }
}

#[tokio::test]
async fn a_fenced_write_of_a_holder_whose_node_was_deleted_is_refused_and_none_is_lost() {
    let server = TestingServer::start().await.unwrap();
    let run = Run::start().await;
    let parts = FENCED.map(|(variant, _)| part(variant));
    let workers = [0, 1].map(|number| {
        // Most of a hold is between the read and the write.
        let work = Work { think_ms: 40, ..run.work(number, server.connect_string(), &parts) };
        run.start_worker(&work)
    });
    let client = CuratorClient::builder(server.connect_string()).connect().await.unwrap();
    let mut operator = Operator::new(&client);
    let seen = async || {
        let history = workers.iter().flat_map(Worker::history).collect::<Vec<_>>();
        let mut all_seen = true;
        for (variant, outcome) in FENCED {
            let history = of(&history, &part(variant).key());
            operator.look(&part(variant).key(), &history).await;
            all_seen &= elements(&history, &[outcome]).len() >= 3;
        }
        all_seen
    };
    until(seen).await;
    let mut histories = Vec::new();
    for worker in workers {
        let history = worker.finish().await;
        check_holds(&history);
        histories.push(history);
    }
    let mut sets = run.store.stop().await;
    sets.extend(node_sets(&client).await.unwrap());
    // Between the delete and the news of it, a guarded holder can write, and the next one too.
    let unfenced = |set: &str| set.starts_with(&part(Variant::Guarded).key());
    let has: Vec<_> =
        sets.iter().flat_map(|(set, elements)| elements.iter().map(move |e| (set.clone(), e.clone()))).collect();
    let never = elements(&histories.concat(), &[Outcome::Refused, Outcome::NotSent]);
    assert!(!never.is_empty() && has.iter().all(|element| !never.contains(element)), "{never:?} {has:?}");
    sets.retain(|set, _| !unfenced(set));
    let is_fenced = |event: &Event| !matches!(&event.what, What::Wrote { set, .. } if unfenced(set));
    histories.iter_mut().for_each(|history| history.retain(is_fenced));
    check_sets(&histories, &sets);
}

#[tokio::test]
async fn a_plain_write_of_a_holder_whose_node_was_deleted_is_applied_and_one_is_lost() {
    let server = TestingServer::start().await.unwrap();
    let run = Run::start().await;
    let parts = [part(Variant::Plain)];
    let workers = [0, 1].map(|number| {
        let work = Work { think_ms: 40, ..run.work(number, server.connect_string(), &parts) };
        run.start_worker(&work)
    });
    let client = CuratorClient::builder(server.connect_string()).connect().await.unwrap();
    let mut operator = Operator::new(&client);
    until(async || {
        let history = workers.iter().flat_map(Worker::history).collect::<Vec<_>>();
        operator.look("mutex-plain", &of(&history, "mutex-plain")).await;
        let acknowledged = elements(&history, &[Outcome::Acknowledged]);
        // Asked later, so it has them all.
        let sets = run.store.sets();
        acknowledged.iter().any(|(set, element)| !sets[set].contains(element))
    })
    .await;
    for worker in workers {
        check_holds(&worker.finish().await);
    }
}
