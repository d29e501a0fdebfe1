//! Settings that all processes follow and change.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use curator_recipes::client::{CreateMode, CuratorClient, Error as ClientError};
use curator_recipes::{Config, ConfigStatus, IfAbsent};
use curator_test::Faults;
use futures_util::future::{Either, select};

use super::{Workload, create, explain, must_succeed};
use crate::checks::Rising;
use crate::life::Life;

pub(super) fn make(root: String) -> Arc<dyn Workload> {
    Arc::new(Settings {
        order: format!("{root}-order"),
        root,
    })
}

#[derive(Debug)]
struct Settings {
    root: String,
    /// A node that is written together with the settings.
    order: String,
}

/// The value of a config while there is no node.
const DEFAULT: u64 = 0;

#[async_trait]
impl Workload for Settings {
    async fn prepare(&self, client: &CuratorClient) -> Result<(), ClientError> {
        create(client, &self.order, "").await?;
        create(client, &self.root, "0").await
    }

    async fn live(&self, life: &Life) {
        while life.goes_on() && life.one_in(3) {
            // Opens a config, follows it for some time, and drops it.
            let Some(builder) = self.builder(life) else {
                return;
            };
            if let Some(Ok(config)) = life
                .call("open", builder.open_timeout(Duration::from_secs(8)))
                .await
            {
                life.note(|| format!("has opened {}", config.current()));
                select(
                    pin!(self.watch(life, &config)),
                    pin!(life.think_for(Duration::from_secs(6))),
                )
                .await;
            }
        }
        let Some(builder) = self.builder(life) else {
            return;
        };
        let config = builder.start(DEFAULT);
        let changing = async {
            while life.goes_on() {
                self.change(life).await;
                life.think_for(Duration::from_secs(3)).await;
            }
            if life.at_rest().await {
                life.eventually("show the settings", || {
                    let node = life.world().servers().node(&self.root);
                    let number = node
                        .as_ref()
                        .map(|node| String::from_utf8_lossy(&node.data).parse::<u64>());
                    let status = config.status().get();
                    let current = *config.current();
                    match (&number, &status) {
                        (Some(Ok(number)), ConfigStatus::Current) if *number == current => Ok(()),
                        (Some(Err(_)), ConfigStatus::Invalid { .. }) => Ok(()),
                        (None, ConfigStatus::Absent) if current == DEFAULT => Ok(()),
                        _ => Err(format!(
                            "it is {status:?} and shows {current}, but the node is {node:?}"
                        )),
                    }
                })
                .await;
            }
            life.idle().await;
        };
        match select(pin!(self.watch(life, &config)), pin!(changing)).await {
            Either::Left(((), _)) => life
                .world()
                .fail(format!("{}: the config has ended", life.name())),
            Either::Right(_) => {}
        }
    }

    fn faults(&self) -> Faults {
        // Deletes by an operator, restores and loss of access are excluded: an operator would also
        // delete the order, older settings would follow newer ones after a restore, and servers
        // send no events of a node to a client that is not permitted to read it.
        Faults::of_network_and_servers()
    }

    fn may_leave(&self, path: &str) -> bool {
        path == self.root || path == self.order
    }
}

impl Settings {
    fn builder(&self, life: &Life) -> Option<curator_recipes::ConfigBuilder<u64>> {
        let builder = Config::builder(life.client(), self.root.as_str(), |data: &[u8]| {
            String::from_utf8_lossy(data)
                .parse::<u64>()
                .map_err(|error| error.to_string())
        });
        must_succeed(life, "make a config", builder)
            .map(|builder| builder.if_absent(IfAbsent::Default(DEFAULT)))
    }

    /// Checks that the values rise with each write, except for the default of a deleted node.
    async fn watch(&self, life: &Life, config: &Config<u64>) {
        let highest = Rising::<u64>::default();
        let mut values = config.values();
        while values.changed().await.is_ok() {
            let value = *values.get_and_update();
            life.note(|| format!("shows {value}"));
            if value != DEFAULT {
                highest.note(
                    life.world(),
                    &format!("{}: the settings", life.name()),
                    value,
                );
            }
        }
    }

    /// Writes a value that is higher than all values before, writes an invalid value, or deletes
    /// the node.
    async fn change(&self, life: &Life) {
        let client = life.client();
        let result = match life.below(8) {
            0 => {
                life.call(
                    "delete the settings",
                    client.delete().for_path(self.root.as_str()),
                )
                .await
            }
            1 => {
                let set = client.set_data(self.root.as_str(), "invalid", None);
                life.call("write invalid settings", set)
                    .await
                    .map(|set| set.map(drop))
            }
            _ => {
                // Each value is one more than the version of the order's node, and both nodes are
                // written in one transaction, so a late write fails.
                let write = async {
                    let number = client.get_data(self.order.as_str()).await?.1.version;
                    let value = (number + 1).to_string();
                    let transaction =
                        client
                            .transaction()
                            .set_data(self.order.as_str(), "", Some(number))?;
                    let transaction = match client.check_exists(self.root.as_str()).await? {
                        Some(_) => transaction.set_data(self.root.as_str(), value, None)?,
                        None => {
                            transaction.create(self.root.as_str(), value, CreateMode::Persistent)?
                        }
                    };
                    transaction.commit().await.map(drop)
                };
                life.call("write settings", write).await
            }
        };
        if let Some(Err(error)) = result {
            explain(life, "write settings", &error);
        }
    }
}
