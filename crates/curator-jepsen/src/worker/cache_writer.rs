//! Writes to the nodes that caches copy.

use std::sync::Arc;
use std::time::Duration;

use curator_recipes::client::{CreateMode, Error, Result, TransactionResult};
use fastrand::Rng;
use tokio::sync::watch;
use tokio::time::sleep;

use super::Context;
use crate::history::{CACHE, CacheSeen, What};
use crate::work::CacheOrder;

/// The names of the children of each inner node.
const NAMES: [&str; 3] = ["a", "b", "c"];

/// The number of levels below the root.
const DEPTH: usize = 3;

/// Writes to random nodes, and pauses when the conductor requests it.
#[derive(Debug)]
pub(super) struct CacheWriter {
    context: Context,
    root: String,
    random: Rng,
    think: Duration,
    writes: u64,
}

/// The result of a write: the nodes that it has created or set, with the number of the transaction
/// if known; and the nodes that it has deleted.
#[derive(Debug, Default)]
struct Done {
    set: Vec<(String, i64)>,
    deleted: Vec<String>,
}

impl CacheWriter {
    pub(super) fn new(context: &Context, root: &str) -> Self {
        let work = &context.work;
        let mut random = Rng::with_seed(work.seed);
        for number in [work.worker, work.life] {
            random = Rng::with_seed(random.u64(..) ^ u64::from(number));
        }
        Self {
            context: context.clone(),
            root: root.to_owned(),
            random,
            think: Duration::from_millis(work.think_ms),
            writes: 0,
        }
    }

    /// Runs until the conductor sends `rest`. Then drops a write in progress.
    pub(super) async fn run(mut self) {
        let context = self.context.clone();
        let mut orders = self.context.orders.clone();
        loop {
            let order = *orders.borrow_and_update();
            let changed =
                async |orders: &mut watch::Receiver<CacheOrder>| orders.changed().await.is_ok();
            let continues = match order {
                CacheOrder::Rest => false,
                CacheOrder::Quiet(look) => {
                    self.record(CacheSeen::Quiet { look });
                    changed(&mut orders).await
                }
                CacheOrder::Look(_) => changed(&mut orders).await,
                CacheOrder::Work => {
                    tokio::select! {
                        () = context.rests() => false,
                        () = self.step() => true,
                    }
                }
            };
            if !continues {
                return;
            }
        }
    }

    /// Does one write, or several in a row, and pauses.
    async fn step(&mut self) {
        let burst = if self.random.u8(..20) == 0 { 10 } else { 1 };
        for _ in 0..burst {
            let path = self.path();
            match self.random.u8(..20) {
                0..=7 => self.set(&path).await,
                8..=11 => self.create(&path).await,
                12 | 13 => self.delete(&path, false).await,
                14 => self.delete(&path, true).await,
                15 | 16 => self.replace(&path).await,
                17 => self.replace_with_children(&path).await,
                _ => self.set_with_parent(&path).await,
            }
        }
        sleep(self.think.mul_f64(self.random.f64())).await;
    }

    /// A random path, most often of a leaf. The node might not exist.
    fn path(&mut self) -> String {
        let depth = match self.random.u8(..50) {
            0 => 0,
            1..=8 => 1,
            9..=24 => 2,
            _ => DEPTH,
        };
        let mut path = self.root.clone();
        for _ in 0..depth {
            path += "/";
            path += NAMES[self.random.usize(..NAMES.len())];
        }
        path
    }

    async fn set(&mut self, path: &str) {
        let client = self.context.client.clone();
        let data = self.context.history.next_element();
        let set = async {
            let stat = client.set_data(path, data, None).await?;
            Ok(Done {
                set: vec![(path.to_owned(), stat.mzxid)],
                ..Done::default()
            })
        };
        if let Err(Error::NoNode { .. }) = self.write(&[], set).await {
            self.create_in_transaction(path).await;
        }
    }

    /// Creates a node, or its missing parents. The client does not return the number of the
    /// transaction.
    async fn create(&mut self, path: &str) {
        let client = self.context.client.clone();
        let data = self.context.history.next_element();
        let create = async {
            client.create().for_path(path, data).await?;
            Ok(Done::default())
        };
        if let Err(Error::NoNode { .. }) = self.write(&[], create).await
            && let Some(parent) = self.parent(path)
        {
            Box::pin(self.create(&parent)).await;
        }
    }

    async fn create_in_transaction(&mut self, path: &str) {
        let client = self.context.client.clone();
        let data = self.context.history.next_element();
        let create = async {
            let results = client
                .transaction()
                .create(path, data, CreateMode::Persistent)?
                .commit()
                .await?;
            Ok(Done {
                set: written(&[path], &results),
                ..Done::default()
            })
        };
        // If the parent is missing, a later write creates it.
        drop(self.write(&[], create).await);
    }

    async fn delete(&mut self, path: &str, whole: bool) {
        let client = self.context.client.clone();
        let delete = async {
            let mut delete = client.delete();
            if whole {
                delete = delete.deleting_children_if_needed();
            }
            delete.for_path(path).await?;
            Ok(Done {
                deleted: vec![path.to_owned()],
                ..Done::default()
            })
        };
        drop(self.write(&[path], delete).await);
    }

    /// Replaces a childless node with a node that has the same version and `cversion`.
    async fn replace(&mut self, path: &str) {
        let client = self.context.client.clone();
        let data = self.context.history.next_element();
        let replace = async {
            let results = client
                .transaction()
                .delete(path, None)?
                .create(path, data, CreateMode::Persistent)?
                .commit()
                .await?;
            Ok(Done {
                set: written(&[path, path], &results),
                ..Done::default()
            })
        };
        drop(self.write(&[path], replace).await);
    }

    /// Replaces a node with another one that has as many children, with other names. Both nodes
    /// have the same version, and may have the same `cversion`.
    async fn replace_with_children(&mut self, path: &str) {
        let client = self.context.client.clone();
        let history = Arc::clone(&self.context.history);
        let replace = async {
            let mut transaction = client.transaction();
            let mut paths = Vec::new();
            let children = client.get_children(path).await?;
            for child in &children {
                let child = format!("{path}/{child}");
                transaction = transaction.delete(&child, None)?;
                paths.push(child);
            }
            transaction = transaction.delete(path, None)?;
            transaction =
                transaction.create(path, history.next_element(), CreateMode::Persistent)?;
            paths.extend([path.to_owned(), path.to_owned()]);
            for child in &children {
                let index = NAMES
                    .iter()
                    .position(|name| name == child)
                    .unwrap_or_default();
                let child = format!("{path}/{}", NAMES[(index + 1) % NAMES.len()]);
                transaction =
                    transaction.create(&child, history.next_element(), CreateMode::Persistent)?;
                paths.push(child);
            }
            let results = transaction.commit().await?;
            let paths: Vec<_> = paths.iter().map(String::as_str).collect();
            Ok(Done {
                set: written(&paths, &results),
                ..Done::default()
            })
        };
        drop(self.write(&[path], replace).await);
    }

    /// Sets a node and its parent in one transaction.
    async fn set_with_parent(&mut self, path: &str) {
        let Some(parent) = self.parent(path) else {
            return;
        };
        let client = self.context.client.clone();
        let data = [
            self.context.history.next_element(),
            self.context.history.next_element(),
        ];
        let set = async {
            let [one, other] = &data;
            let results = client
                .transaction()
                .set_data(path, one, None)?
                .set_data(&parent, other, None)?
                .commit()
                .await?;
            Ok(Done {
                set: written(&[path, &parent], &results),
                ..Done::default()
            })
        };
        drop(self.write(&[], set).await);
    }

    fn parent(&self, path: &str) -> Option<String> {
        path.rsplit_once('/')
            .filter(|_| path != self.root)
            .map(|(parent, _)| parent.to_owned())
    }

    /// Records the start of a write, and its result.
    async fn write(
        &mut self,
        deletes: &[&str],
        sent: impl Future<Output = Result<Done>>,
    ) -> Result<()> {
        let write = self.writes;
        self.writes += 1;
        let deletes = deletes.iter().map(ToString::to_string).collect();
        self.record(CacheSeen::Writing { write, deletes });
        let done = sent.await;
        let error = done.as_ref().err().map(ToString::to_string);
        let (result, Done { set, deleted }) = match done {
            Ok(done) => (Ok(()), done),
            Err(error) => (Err(error), Done::default()),
        };
        self.record(CacheSeen::Wrote {
            write,
            set,
            deleted,
            error,
        });
        result
    }

    fn record(&self, seen: CacheSeen) {
        self.context.history.write(What::Cache {
            part: CACHE.to_owned(),
            seen,
        });
    }
}

/// The nodes that a transaction has created or set, with the number of the transaction.
fn written(paths: &[&str], results: &[TransactionResult]) -> Vec<(String, i64)> {
    paths
        .iter()
        .zip(results)
        .filter_map(|(path, result)| match result {
            TransactionResult::Created(created) => Some((path, created.stat.czxid)),
            TransactionResult::DataSet(stat) => Some((path, stat.mzxid)),
            _ => None,
        })
        .map(|(path, zxid)| ((*path).to_owned(), zxid))
        .collect()
}
