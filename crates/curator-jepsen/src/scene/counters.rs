//! Reads the counters after all clients have ended.

use std::collections::BTreeSet;

use clap::ValueEnum as _;
use curator_recipes::client::{CuratorClient, Error};

use super::{RunError, Scene};
use crate::history::{COUNTERS, CounterKind, CounterSeen, RECEIPTS, Receipts, What};

impl Scene {
    /// Writes the value of each counter to the history: also those of peers, and ours even without a node.
    pub(crate) async fn count(&self) -> Result<(), RunError> {
        let mut keys: BTreeSet<String> =
            self.ask("the counters", async || children(&self.operator, COUNTERS).await).await?.into_iter().collect();
        keys.extend(CounterKind::value_variants().iter().map(|kind| kind.key().to_owned()));
        for part in keys {
            let path = CounterKind::path(&part);
            let value = self.ask("a counter", async || counter_value(&self.operator, &path).await).await?;
            let receipts = match CounterKind::of(&part) {
                Some(CounterKind::Receipt) => {
                    Some(self.ask("the receipts", async || receipts(&self.operator).await).await?)
                }
                _ => None,
            };
            self.journal.write(What::Counter { part, seen: CounterSeen::AtEnd { value, receipts } })?;
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

/// The value of a counter: kazoo's have four bytes, the others eight; 0 without a node.
///
/// # Errors
///
/// When it cannot be read, or is not a number.
pub async fn counter_value(client: &CuratorClient, path: &str) -> Result<i64, String> {
    let data = match client.get_data(path).await {
        Ok((data, _)) => data,
        Err(Error::NoNode { .. }) => return Ok(0),
        Err(error) => return Err(error.to_string()),
    };
    let of_four = <[u8; 4]>::try_from(&data[..]).map(|bytes| i32::from_be_bytes(bytes).into());
    let value = of_four.or_else(|_| <[u8; 8]>::try_from(&data[..]).map(i64::from_be_bytes));
    value.map_err(|_| format!("{path} is no number: {data:?}"))
}

/// The number of applied increments of each client. A receipt begins with the number of its last change.
async fn receipts(client: &CuratorClient) -> Result<Receipts, String> {
    let mut found = Receipts::new();
    for name in children(client, RECEIPTS).await.map_err(|error| error.to_string())? {
        let (data, _) = client.get_data(&format!("{RECEIPTS}/{name}")).await.map_err(|error| error.to_string())?;
        let data = String::from_utf8_lossy(&data);
        let number = data.split(' ').next().and_then(|number| number.parse().ok());
        let number = number.ok_or_else(|| format!("the receipt {name} is {data:?}"))?;
        found.insert(name, number);
    }
    Ok(found)
}
