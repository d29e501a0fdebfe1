//! A number in ZooKeeper that holders of a lock write in guarded transactions.

use std::fmt::Debug;

use curator_recipes::client::{CuratorClient, Error as ClientError, Outcome};
use curator_recipes::{Error, GuardedTransaction, Result};

use super::create;
use crate::checks::{Counted, Unique};
use crate::life::Life;
use crate::servers::Nodes;
use crate::world::World;

/// Each holder reads the number and writes one more. No write may be lost.
#[derive(Debug)]
pub struct Ledger {
    path: String,
    counted: Counted,
    /// The numbers of confirmed writes.
    written: Unique<i64>,
}

impl Ledger {
    pub(super) fn new(path: String) -> Self {
        Self {
            path,
            counted: Counted::default(),
            written: Unique::default(),
        }
    }

    pub(super) fn path(&self) -> &str {
        &self.path
    }

    pub(super) async fn prepare(&self, client: &CuratorClient) -> Result<(), ClientError> {
        create(client, &self.path, "0").await
    }

    /// Adds one, under a lock whose guard makes the transaction. Returns whether the write may
    /// still be on its way.
    pub(super) async fn add<'a>(
        &self,
        life: &Life,
        transaction: impl FnOnce() -> GuardedTransaction<'a>,
    ) -> bool {
        let read = async {
            life.client().sync(self.path.as_str()).await?;
            life.client().get_data(self.path.as_str()).await
        };
        let number = match life.complete("read the ledger", read).await {
            Ok((data, _)) => self.number(life.world(), &data),
            Err(error) => {
                super::explain(life, "read the ledger", &error);
                return false;
            }
        };
        life.think_for(std::time::Duration::from_millis(300)).await;
        let Ok(transaction) =
            transaction().set_data(self.path.as_str(), (number + 1).to_string(), None)
        else {
            return false;
        };
        self.counted.maybe_applied(1);
        match life.call("write the ledger", transaction.commit()).await {
            Some(Ok(_)) => {
                life.note(|| format!("has written {}", number + 1));
                self.counted.was_applied(1);
                self.written.note(life.world(), &self.path, number + 1);
                false
            }
            Some(Err(error)) => {
                super::explain(life, "write the ledger", &error);
                let is_unknown = match &error {
                    Error::Client(error) => error.outcome() == Outcome::Unknown,
                    _ => false,
                };
                if !is_unknown {
                    self.counted.not_applied(1);
                }
                is_unknown
            }
            None => true,
        }
    }

    pub(super) fn check_end(&self, world: &World, nodes: &Nodes) {
        match nodes.get(&self.path) {
            Some(node) => self
                .counted
                .check(world, &self.path, self.number(world, &node.data)),
            None => world.fail(format!("{} is gone", self.path)),
        }
    }

    fn number(&self, world: &World, data: &[u8]) -> i64 {
        String::from_utf8_lossy(data).parse().unwrap_or_else(|_| {
            world.fail(format!(
                "{}: not a number: {}",
                self.path,
                data.escape_ascii()
            ));
            0
        })
    }
}
