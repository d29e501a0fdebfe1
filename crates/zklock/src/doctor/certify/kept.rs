//! The checks of caches, persistent nodes and groups.

use curator_recipes::client::CuratorClient;
use curator_recipes::{CuratorCache, GroupMember, PersistentNode, PersistentNodeError, Snapshot};

use super::recursive_watches::{Names, names_of_events};
use super::site::{Check, STEP, Site, node, soon};
use super::verdict::{Checked, Problem, Verdict, expect};

/// The checks of caches, persistent nodes and groups, in the order of the output.
pub(super) fn checks<'a>() -> Vec<Check<'a>> {
    vec![
        Check::new("CuratorCache", cache),
        Check::new("PersistentNode", persistent_node),
        Check::new("GroupMember", group),
    ]
}

/// A cache sees nodes that are created, changed and deleted, at its root and deep below it. The
/// verdict depends on what the cache has at the end, not on its events.
async fn cache(site: Site) -> Checked {
    let Site {
        first,
        second,
        path,
    } = &site;
    let root = format!("{path}/tree");
    let [branch, gone, created] = ["branch", "branch/gone", "branch/a"].map(|name| {
        let name = format!("{root}/{name}");
        second.resolve(&name).map(|path| (name, path))
    });
    let (branch, gone, created) = (branch?, gone?, created?);
    for node in [path, &root, &branch.0, &gone.0] {
        first.create().for_path(node, "1").await?;
    }
    second.sync("/").await?;
    let cache = CuratorCache::builder(second, &root)?.start()?;
    let loaded = soon("the cache has loaded its nodes", cache.ready(), || {
        cache.last_error()
    })
    .await?;
    expect(
        loaded.len() == 3,
        "the cache is current, and lacks nodes that exist",
    )?;
    first.create().for_path(&created.0, "1").await?;
    first.set_data(&branch.0, "2", None).await?;
    first.delete().for_path(&gone.0).await?;
    // No event has shown before this call which nodes the events name.
    let nodes = caught_up(&cache).await?;
    let data = nodes.get(&branch.1).node();
    expect(
        data.is_some_and(|node| node.data() == b"2")
            && nodes.get(&created.1).node().is_some()
            && nodes.get(&gone.1).node().is_none(),
        "the cache has caught up, and lacks a change",
    )?;
    first.set_data(&created.0, "3", None).await?;
    is_cached(&cache, |nodes| {
        let data = nodes.get(&created.1).node();
        data.is_some_and(|node| node.data() == b"3")
    })
    .await?;
    first.set_data(&created.0, "4", None).await?;
    let nodes = caught_up(&cache).await?;
    let data = nodes.get(&created.1).node();
    expect(
        data.is_some_and(|node| node.data() == b"4"),
        "the cache has caught up, and lacks a change",
    )?;
    cache.close().await?;
    by_events(second, &format!("{path}/probe")).await
}

/// The nodes of a cache that has caught up.
async fn caught_up(cache: &CuratorCache) -> Result<Snapshot, Problem> {
    let caught_up = cache.caught_up();
    soon("the cache has caught up", caught_up, || cache.last_error()).await
}

/// Waits until the nodes of a cache are as expected.
async fn is_cached(
    cache: &CuratorCache,
    is_expected: impl Fn(&Snapshot) -> bool,
) -> Result<(), Problem> {
    let mut snapshots = cache.snapshots();
    let waiting = async {
        let expected = snapshots.wait_for(is_expected).await;
        expected.map_err(|ended| {
            cache
                .last_error()
                .map_or_else(|| Problem::from(ended), Problem::from)
        })
    };
    soon("the cache has the changes", waiting, || cache.last_error()).await?;
    Ok(())
}

/// The verdict on a recipe with a cache that works.
async fn by_events(client: &CuratorClient, path: &str) -> Checked {
    Ok(match names_of_events(client, path).await? {
        Names::Changed => Verdict::Works,
        Names::Watched => Verdict::WorksBut(
            "reads everything again after each change; until the event of the first change is checked (up to three reads of \
             the root, and a read of everything), it is `Current` without that change"
                .to_owned(),
        ),
    })
}

/// A persistent node is created again after another client's delete, until it is closed.
async fn persistent_node(site: Site) -> Checked {
    let Site {
        first,
        second,
        path,
    } = &site;
    let kept = PersistentNode::builder(first, path)?.data("1").start();
    kept.created_timeout(STEP).await?;
    let czxid = async || {
        second.sync(path).await?;
        let stat = second.check_exists(path).await?;
        let stat = stat.ok_or_else(|| Problem::fault("a created node does not exist"))?;
        Ok::<_, Problem>(stat.czxid)
    };
    let created = czxid().await?;
    second.delete().for_path(path).await?;
    let again = "the node is created again";
    node(second, path, again, |stat| {
        stat.is_some_and(|stat| stat.czxid > created)
    })
    .await?;
    kept.close().await?;
    second.sync(path).await?;
    expect(
        second.check_exists(path).await?.is_none(),
        "the node of a closed persistent node exists",
    )?;
    Ok(Verdict::Works)
}

/// Two members know each other, until one leaves. A member joins even where its cache of the members
/// is refused.
async fn group(site: Site) -> Checked {
    let Site {
        first,
        second,
        path,
    } = &site;
    let one = GroupMember::builder(first, path, "first")?.start();
    let two = GroupMember::builder(second, path, "second")?.start();
    for member in [&one, &two] {
        joined(member).await?;
        match knows(member, 2).await.map_err(Problem::verdict) {
            Ok(()) => {}
            Err(Verdict::Refused(error)) => {
                one.close().await?;
                two.close().await?;
                let limitation = format!("its members are refused: {error}");
                return Ok(Verdict::WorksBut(limitation));
            }
            Err(verdict) => return Ok(verdict),
        }
    }
    one.close().await?;
    knows(&two, 1).await?;
    two.close().await?;
    by_events(second, &format!("{path}-probe")).await
}

async fn joined(member: &GroupMember) -> Result<(), Problem> {
    let joined: Result<_, PersistentNodeError> = member.node().created_timeout(STEP).await;
    joined?;
    Ok(())
}

/// Waits until the member knows this number of members, itself included.
async fn knows(member: &GroupMember, number: usize) -> Result<(), Problem> {
    let group = member.group().clone();
    is_cached(member.members(), |nodes| {
        nodes.children(&group).count() == number
    })
    .await
}
