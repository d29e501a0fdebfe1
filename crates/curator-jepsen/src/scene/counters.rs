//! Reads the counters after all clients have ended.

use std::collections::BTreeSet;

use clap::ValueEnum as _;
use curator_recipes::client::{CuratorClient, Error};

use super::Scene;
use crate::history::{COUNTERS, CounterKind, CounterSeen, RECEIPTS, Receipts, What};

impl Scene {
    /// Records the value of each counter: of the counters of peers that have a node, and of all of
    /// ours.
    pub(crate) async fn record_counters(&self) -> anyhow::Result<()> {
        let mut keys: BTreeSet<String> = self
            .request("the counters", async || {
                children(&self.operator, COUNTERS).await
            })
            .await?
            .into_iter()
            .collect();
        keys.extend(
            CounterKind::value_variants()
                .iter()
                .map(|kind| kind.key().to_owned()),
        );
        for part in keys {
            let path = CounterKind::path(&part);
            let value = self
                .request("a counter", async || {
                    counter_value(&self.operator, &path).await
                })
                .await?;
            let receipts = match CounterKind::of(&part) {
                Some(CounterKind::Receipt) => Some(
                    self.request("the receipts", async || receipts(&self.operator).await)
                        .await?,
                ),
                _ => None,
            };
            self.journal.write(What::Counter {
                part,
                seen: CounterSeen::AtEnd { value, receipts },
            })?;
        }
        Ok(())
    }
}

async fn children(client: &CuratorClient, path: &str) -> Result<Vec<String>, Error> {
    client.sync(path).await?;
    match client.get_children(path).await {
        Err(Error::NoNode { .. }) => Ok(Vec::new()),
        children => children,
    }
}

/// The value of a counter, which has four bytes if it is kazoo's, and eight bytes otherwise. 0 if
/// the node does not exist.
///
/// # Errors
///
/// When the node cannot be read, or its data is not a number.
pub async fn counter_value(client: &CuratorClient, path: &str) -> Result<i64, String> {
    let data = match client.get_data(path).await {
        Ok((data, _)) => data,
        Err(Error::NoNode { .. }) => return Ok(0),
        Err(error) => return Err(error.to_string()),
    };
    let of_four = <[u8; 4]>::try_from(&data[..]).map(|bytes| i32::from_be_bytes(bytes).into());
    let value = of_four.or_else(|_| <[u8; 8]>::try_from(&data[..]).map(i64::from_be_bytes));
    value.map_err(|_| format!("{path} is not a number: {data:?}"))
}

/// The number of applied increments of each client: the data of a receipt start with the number of
/// its last change.
async fn receipts(client: &CuratorClient) -> Result<Receipts, String> {
    let mut found = Receipts::new();
    for name in children(client, RECEIPTS)
        .await
        .map_err(|error| error.to_string())?
    {
        let (data, _) = client
            .get_data(&format!("{RECEIPTS}/{name}"))
            .await
            .map_err(|error| error.to_string())?;
        let data = String::from_utf8_lossy(&data);
        let number = data
            .split(' ')
            .next()
            .and_then(|number| number.parse().ok());
        let number = number.ok_or_else(|| format!("the receipt {name} is malformed: {data:?}"))?;
        found.insert(name, number);
    }
    Ok(found)
}
