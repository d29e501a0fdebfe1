//! The checks of counters, shared values and settings: two sessions change them, and see the
//! changes.

use std::convert::Infallible;

use curator_recipes::{
    BigEndian, Config, DistributedAtomicLong, DistributedAtomicValue, IdGenerator, SharedCount,
    SharedValue, ValueError,
};

use super::site::{Check, STEP, Site, within_step};
use super::verdict::{Checked, Problem, Verdict, expect};

/// How often each session changes a counter.
const CHANGES: i64 = 5;

/// The checks of values, in the order of the output.
pub(super) fn checks<'a>() -> Vec<Check<'a>> {
    vec![
        Check::new("DistributedAtomicLong", atomic_long),
        Check::new("DistributedAtomicLong::exactly_once", exactly_once),
        Check::new("DistributedAtomicValue", atomic_value),
        Check::new("IdGenerator", ids),
        Check::new("SharedCount", shared_count),
        Check::new("SharedValue", shared_value),
        Check::new("Config", config),
    ]
}

/// No change of two sessions at the same time is lost.
async fn counted(site: &Site, one: &DistributedAtomicLong, two: &DistributedAtomicLong) -> Checked {
    let increment = async |counter: &DistributedAtomicLong| {
        for _ in 0..CHANGES {
            counter.increment().await?;
        }
        Ok::<_, ValueError>(())
    };
    tokio::try_join!(increment(one), increment(two))?;
    site.first.sync("/").await?;
    expect(
        one.get().await? == 2 * CHANGES,
        "changes of a counter were lost",
    )?;
    Ok(Verdict::Works)
}

async fn atomic_long(site: Site) -> Checked {
    let one = DistributedAtomicLong::new(&site.first, &site.path)?;
    let two = DistributedAtomicLong::new(&site.second, &site.path)?;
    counted(&site, &one, &two).await
}

async fn exactly_once(site: Site) -> Checked {
    let number = format!("{}/number", site.path);
    let [one, two] = [(&site.first, "first"), (&site.second, "second")].map(|(client, name)| {
        DistributedAtomicLong::new(client, &number)?
            .exactly_once(format!("{}/receipts/{name}", site.path))
    });
    counted(&site, &one?, &two?).await
}

async fn atomic_value(site: Site) -> Checked {
    let one = DistributedAtomicValue::<i32>::with_codec(&site.first, &site.path, BigEndian, 1)?;
    let two = DistributedAtomicValue::<i32>::with_codec(&site.second, &site.path, BigEndian, 1)?;
    expect(one.initialize(2).await?, "a missing value was not set")?;
    site.second.sync("/").await?;
    expect(
        !two.compare_and_set(&1, 3).await? && two.compare_and_set(&2, 4).await?,
        "compareAndSet does not compare",
    )?;
    site.first.sync("/").await?;
    expect(one.get().await? == 4, "a value is not the last one written")?;
    Ok(Verdict::Works)
}

/// Two sessions get different ids.
async fn ids(site: Site) -> Checked {
    let one = IdGenerator::new(&site.first, &site.path, 2)?;
    let two = IdGenerator::new(&site.second, &site.path, 2)?;
    let mut ids = Vec::new();
    for _ in 0..3 {
        let (first, second) = tokio::try_join!(one.next(), two.next())?;
        ids.extend([first, second]);
    }
    ids.sort_unstable();
    ids.dedup();
    expect(ids.len() == 6, "an id was returned twice")?;
    Ok(Verdict::Works)
}

async fn shared_count(site: Site) -> Checked {
    let one = SharedCount::new(&site.first, &site.path, 1)?;
    let two = SharedCount::new(&site.second, &site.path, 1)?;
    followed(&one, &two, [1, 2, 3]).await
}

async fn shared_value(site: Site) -> Checked {
    let codec = (
        |value: &String| value.clone().into_bytes(),
        |data: &[u8]| String::from_utf8(data.to_vec()),
    );
    let [seed, changed, compared] = ["one", "two", "three"].map(str::to_owned);
    let one = SharedValue::with_codec(&site.first, &site.path, codec, seed.clone())?;
    let two = SharedValue::with_codec(&site.second, &site.path, codec, seed.clone())?;
    followed(&one, &two, [seed, changed, compared]).await
}

/// One session sets a value, and the other follows it: first the seed, then a value that is set,
/// then one that is set in place of the second.
async fn followed<T: Clone + PartialEq + Send + Sync + 'static>(
    one: &SharedValue<T>,
    two: &SharedValue<T>,
    [seed, changed, compared]: [T; 3],
) -> Checked {
    let mut changes = two.changes();
    let mut is_followed = async |value: &T| {
        let next = async {
            loop {
                let next = changes.next().await;
                let next = next.ok_or_else(|| Problem::fault("the changes have ended"))??;
                if next.value == *value {
                    return Ok::<_, Problem>(next);
                }
            }
        };
        within_step("the other session sees the value", next).await?
    };
    let before = is_followed(&seed).await?;
    one.set(changed.clone()).await?;
    let now = is_followed(&changed).await?;
    expect(
        !one.compare_and_set(&before, seed).await?
            && one.compare_and_set(&now, compared.clone()).await?,
        "compareAndSet does not compare",
    )?;
    is_followed(&compared).await?;
    Ok(Verdict::Works)
}

/// A change of settings reaches the other session, also when their node is created again.
async fn config(site: Site) -> Checked {
    let Site {
        first,
        second,
        path,
    } = site;
    first.create().for_path(&path, "1").await?;
    let decode = |data: &[u8]| Ok::<_, Infallible>(data.to_vec());
    let config = Config::builder(&second, &path, decode)?;
    let config = config.open_timeout(STEP).await?;
    expect(
        *config.current() == b"1",
        "the settings are not the data of their node",
    )?;
    let mut values = config.values();
    first.set_data(&path, "2", None).await?;
    let changed = values.wait_for(|value| **value == b"2");
    within_step("the other session has the new settings", changed).await??;
    first.delete().for_path(&path).await?;
    first.create().for_path(&path, "3").await?;
    let changed = values.wait_for(|value| **value == b"3");
    within_step("the other session has the settings of a new node", changed).await??;
    Ok(Verdict::Works)
}
