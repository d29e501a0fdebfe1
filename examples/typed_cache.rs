//! Two operators edit the same entries. Shows a conflict that is resolved, an entry that is created
//! again with the same number of writes, and an entry whose data are invalid. Fails if an update is
//! lost, or if an entry with invalid data looks absent.
//!
//! ```console
//! cargo run --example typed_cache
//! ```

use std::error::Error as _;
use std::num::ParseIntError;

use curator_examples::{Ensemble, Failure, builder};
use curator_recipes::client::CuratorClient;
use curator_recipes::{
    CuratorCache, ExpectedVersion, Lookup, TypedCache, TypedEntry, ValueCodec, ValueError,
};

const PATH: &str = "/curator-examples/typed-cache";

/// The entries are numbers as text. With `serde_json`, the functions would be
/// `serde_json::to_vec(value)` and `serde_json::from_slice(data)`.
fn codec() -> impl ValueCodec<u32> {
    (
        |limit: &u32| limit.to_string().into_bytes(),
        |data: &[u8]| -> Result<u32, ParseIntError> { String::from_utf8_lossy(data).parse() },
    )
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let ensemble = Ensemble::find().await?;
    let client = builder(ensemble.connect_string()).connect().await?;
    let colleague = builder(ensemble.connect_string()).connect().await?;
    let limits = TypedCache::start(CuratorCache::builder(&client, PATH)?, codec())?;
    let theirs = TypedCache::start(CuratorCache::builder(&colleague, PATH)?, codec())?;

    limits.put("orders", &10, ExpectedVersion::Any).await?;
    println!(
        "The limit of orders is {}.",
        limit(&limits, "orders").await?
    );

    println!("\nBoth add to it at the same time.");
    let (ours, theirs_done) = tokio::join!(add(&limits, "orders", 5), add(&theirs, "orders", 7));
    ours?;
    theirs_done?;
    let sum = limit(&limits, "orders").await?;
    println!("The limit of orders is {sum}: no update was lost.");

    println!("\nThe colleague deletes the entry and creates it again, with as many writes.");
    let seen = caught_up(&limits, "orders").await?.version();
    delete(&colleague, "orders").await?;
    for value in 0..=u32::try_from(seen.version)? {
        theirs.put("orders", &value, ExpectedVersion::Any).await?;
    }
    match limits.put("orders", &99, seen).await {
        Err(error @ ValueError::Conflict { .. }) => println!("Our write is refused: {error}."),
        other => return Err(format!("written over another entry: {other:?}").into()),
    }

    println!("\nA script writes a mistake.");
    let before = limit(&limits, "orders").await?;
    colleague
        .set_data(format!("{PATH}/orders"), "many", None)
        .await?;
    let entry = caught_up(&limits, "orders").await?;
    let error = entry.value().err().ok_or("the data look valid")?;
    println!("{error}");
    println!("Its cause: {}", error.source().ok_or("no cause")?);
    let last = entry.last_valid().ok_or("no last value")?;
    println!("The last valid limit is {last}. It is written again.");
    limits.put("orders", last, entry.version()).await?;
    let repaired = limit(&limits, "orders").await?;

    delete(&client, "orders").await?;
    client.close().await?;
    colleague.close().await?;
    if (sum, repaired) != (22, before) {
        return Err(format!("the limits were {sum}, then {repaired}").into());
    }
    Ok(())
}

/// The entry, including every write that was confirmed before.
async fn caught_up(limits: &TypedCache<u32>, name: &str) -> Result<TypedEntry<u32>, Failure> {
    limits.cache().caught_up().await?;
    match limits.get(name)? {
        Lookup::Present(entry) => Ok(entry),
        other => Err(format!("the entry {name} is not present: {other:?}").into()),
    }
}

async fn limit(limits: &TypedCache<u32>, name: &str) -> Result<u32, Failure> {
    Ok(**caught_up(limits, name).await?.value()?)
}

/// Adds to a limit. After a conflict, reads the entry again.
async fn add(limits: &TypedCache<u32>, name: &str, more: u32) -> Result<(), Failure> {
    loop {
        let entry = caught_up(limits, name).await?;
        let sum = **entry.value()? + more;
        match limits.put(name, &sum, entry.version()).await {
            Err(ValueError::Conflict { .. }) => println!("another operator was first: again"),
            put => return Ok(put.map(drop)?),
        }
    }
}

async fn delete(client: &CuratorClient, name: &str) -> Result<(), Failure> {
    Ok(client.delete().for_path(format!("{PATH}/{name}")).await?)
}
