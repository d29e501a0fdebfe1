//! The checks of single operations: what the servers answer, whatever their version is.

use std::time::Duration;

use curator_recipes::client::{
    CreateMode, Error as ClientError, ReadOperation, ReadResult, TransactionResult,
};

use super::recursive_watches;
use super::site::{Check, Site, node, within_step};
use super::verdict::{Checked, MayRefuse as _, Problem, Verdict, expect};
use crate::settings::Settings;
use crate::time::text;

/// The time to live of a node, longer than the whole run.
const TTL: Duration = Duration::from_secs(600);

/// The checks of operations, in the order of the output.
pub(super) fn checks(settings: &Settings) -> Vec<Check<'_>> {
    let requested = settings.session_timeout;
    vec![
        Check::new("session", move |site| session(site, requested)),
        Check::new("resume", move |site| super::resume::check(site, settings)),
        Check::new("sync", sync),
        Check::new("create, read, write, delete", nodes),
        Check::new("sequential nodes", sequential),
        Check::new("watches", watches),
        Check::new("multi", transactions),
        Check::new("stats in transactions", stats),
        Check::new("multiRead", multi_read),
        Check::new("recursive watches", recursive_watches::check),
        Check::new("containers", containers),
        Check::new("TTL", ttl),
    ]
}

/// The granted timeout, and that a closed session leaves no ephemeral node.
async fn session(site: Site, requested: Duration) -> Checked {
    let Site {
        first,
        second,
        path,
    } = site;
    let granted = first.session().await?.timeout();
    let ephemeral = first.create().with_mode(CreateMode::Ephemeral);
    ephemeral.for_path(&path, "").await?;
    let id = first.session().await?.id();
    second.sync(&path).await?;
    let owner = second
        .check_exists(&path)
        .await?
        .map(|stat| stat.ephemeral_owner);
    expect(
        owner == Some(id),
        "an ephemeral node has another session as its owner",
    )?;
    let mut limitations = Vec::new();
    match first.close().await {
        Err(ClientError::CloseUnconfirmed { .. }) => {
            limitations.push("the server does not confirm the end of a session".to_owned());
        }
        closed => closed?,
    }
    let gone = "the node of a closed session is deleted";
    node(&second, &path, gone, |stat| stat.is_none()).await?;
    if granted != requested {
        limitations.push(format!(
            "the timeout is {}, not {}",
            text(granted),
            text(requested)
        ));
    }
    Ok(if limitations.is_empty() {
        Verdict::Works
    } else {
        Verdict::WorksBut(limitations.join("; "))
    })
}

async fn sync(site: Site) -> Checked {
    site.first.sync("/").await?;
    Ok(Verdict::Works)
}

/// The requests that every recipe needs.
async fn nodes(site: Site) -> Checked {
    let Site {
        first: client,
        path,
        ..
    } = site;
    let child = format!("{path}/child");
    expect(
        client.check_exists(&path).await?.is_none(),
        "a node exists that was not created",
    )?;
    client.create().for_path(&path, "1").await?;
    expect(
        matches!(
            client.create().for_path(&path, "1").await,
            Err(ClientError::NodeExists { .. })
        ),
        "a node was created twice",
    )?;
    client.create().for_path(&child, "").await?;
    expect(
        matches!(
            client.delete().for_path(&path).await,
            Err(ClientError::NotEmpty { .. })
        ),
        "a node with children was deleted",
    )?;
    expect(
        client.get_children(&path).await? == ["child"],
        "getChildren does not return the child",
    )?;
    client.set_data(&path, "2", Some(0)).await?;
    expect(
        matches!(
            client.set_data(&path, "3", Some(0)).await,
            Err(ClientError::BadVersion { .. })
        ),
        "setData ignores the version",
    )?;
    let (data, stat) = client.get_data(&path).await?;
    expect(
        data == b"2" && stat.version == 1 && stat.mzxid > stat.czxid,
        "getData does not return what was written",
    )?;
    client.delete().for_path(&child).await?;
    client.delete().with_version(1).for_path(&path).await?;
    expect(
        client.check_exists(&path).await?.is_none(),
        "a deleted node exists",
    )?;
    Ok(Verdict::Works)
}

/// The numbers of sequential nodes, and their `czxid`, increase: the order of queues, and the
/// fencing tokens.
async fn sequential(site: Site) -> Checked {
    let Site {
        first: client,
        path,
        ..
    } = site;
    client.create().for_path(&path, "").await?;
    let mut last = (String::new(), 0);
    for _ in 0..2 {
        let create = client.create().with_mode(CreateMode::EphemeralSequential);
        let created = create.for_path(format!("{path}/n-"), "").await?;
        let stat = client.check_exists(&created).await?;
        let czxid = stat.ok_or_else(|| Problem::fault("a created node does not exist"))?;
        let next = (created.name().to_owned(), czxid.czxid);
        expect(
            next.0 > last.0 && next.1 > last.1,
            "the numbers of sequential nodes do not increase",
        )?;
        last = next;
    }
    Ok(Verdict::Works)
}

/// One-shot watches on a node, its absence and its children.
async fn watches(site: Site) -> Checked {
    let Site {
        first,
        second,
        path,
    } = site;
    let child = format!("{path}/child");
    let (_, created) = first.watch_exists(&path).await?;
    second.create().for_path(&path, "").await?;
    within_step("the watch of a missing node fires", created).await?;
    first.sync(&path).await?;
    let (_, children) = first.watch_children(&path).await?;
    let (_, _, changed) = first.watch_data(&path).await?;
    second.set_data(&path, "1", None).await?;
    within_step("the watch of the data fires", changed).await?;
    second.create().for_path(&child, "").await?;
    within_step("the watch of the children fires", children).await?;
    first.sync(&child).await?;
    let (_, _, deleted) = first.watch_data(&child).await?;
    second.delete().for_path(&child).await?;
    within_step("the watch of a deleted node fires", deleted).await?;
    Ok(Verdict::Works)
}

/// A transaction is applied as a whole, or not at all.
async fn transactions(site: Site) -> Checked {
    let Site {
        first: client,
        path,
        ..
    } = site;
    let child = format!("{path}/child");
    let missing = format!("{path}/missing");
    client
        .transaction()
        .create(&path, "1", CreateMode::Persistent)?
        .create(&child, "", CreateMode::Ephemeral)?
        .check(&path, Some(0))?
        .set_data(&path, "2", Some(0))?
        .delete(&child, None)?
        .commit()
        .await?;
    let (data, stat) = client.get_data(&path).await?;
    expect(
        data == b"2" && stat.num_children == 0,
        "a transaction was not applied as a whole",
    )?;
    let failed = client
        .transaction()
        .set_data(&path, "3", None)?
        .delete(&missing, None)?
        .commit()
        .await;
    match failed {
        Err(ClientError::TransactionFailed { index: 1, cause })
            if matches!(*cause, ClientError::NoNode { .. }) => {}
        Err(error) if error.is_refusal() => return Err(error.into()),
        Err(error) => return Err(Problem::fault(format!("a failed transaction: {error}"))),
        Ok(_) => return Err(Problem::fault("a transaction that must fail has succeeded")),
    }
    expect(
        client.get_data(&path).await?.0 == b"2",
        "a part of a failed transaction was applied",
    )?;
    Ok(Verdict::Works)
}

/// The stats of nodes that a transaction creates: the fencing tokens of locks in missing
/// directories. Some servers omit them; the client then reads them, which is not possible if the
/// transaction also deletes the node.
async fn stats(site: Site) -> Checked {
    let Site {
        first: client,
        path,
        ..
    } = site;
    let child = format!("{path}/child");
    let results = client
        .transaction()
        .create(&path, "", CreateMode::Persistent)?
        .create(&child, "", CreateMode::Ephemeral)?
        .commit()
        .await?;
    for (path, result) in [&path, &child].into_iter().zip(results) {
        let TransactionResult::Created(created) = result else {
            return Err(Problem::fault(
                "a create has the result of another operation",
            ));
        };
        let found = client.check_exists(path).await?.map(|stat| stat.czxid);
        expect(
            found == Some(created.stat.czxid),
            "a transaction returns a wrong czxid",
        )?;
    }
    let deleted = format!("{path}/deleted");
    let deleted = client
        .transaction()
        .create(&deleted, "", CreateMode::Persistent)?
        .delete(&deleted, None)?
        .commit()
        .await;
    match deleted {
        Ok(_) => Ok(Verdict::Works),
        Err(ClientError::Ambiguous { cause, .. })
            if matches!(*cause, ClientError::StatUnknown { .. }) =>
        {
            Ok(Verdict::WorksBut(
                "the client reads the stat, because the server returns none".to_owned(),
            ))
        }
        Err(error) => Err(error.into()),
    }
}

/// Several reads in one request. Where the server does not know it, the client sends several. An
/// earlier check must not have sent this request in the same session.
async fn multi_read(site: Site) -> Checked {
    let Site {
        first: client,
        path,
        ..
    } = site;
    let root = client.create().for_path(&path, "1").await?;
    let missing = root.child("missing")?;
    let reads = [
        ReadOperation::Data(root.clone()),
        ReadOperation::Children(root),
        ReadOperation::Data(missing),
    ];
    let first = client.session().await?.read_all(reads.to_vec()).await;
    let is_known = first.is_ok();
    let replies = match first {
        Err(ClientError::ConnectionLost { .. }) => {
            client
                .retry(|session| session.read_all(reads.to_vec()))
                .await?
        }
        replies => replies?,
    };
    let is_right = match replies.as_slice() {
        [
            Ok(ReadResult::Data { data, .. }),
            Ok(ReadResult::Children(children)),
            Err(ClientError::NoNode { .. }),
        ] => data == b"1" && children.is_empty(),
        [Err(error), ..] if error.is_refusal() => return Err(error.clone().into()),
        _ => false,
    };
    expect(
        is_right,
        "multiRead returns something else than single reads",
    )?;
    Ok(if is_known {
        Verdict::Works
    } else {
        Verdict::WorksBut(
            "the client sends single reads, and the first such request of a session breaks the \
             connection: the first `try_acquire` can fail with `ConnectionLost`"
                .to_owned(),
        )
    })
}

/// Whether nodes with missing parents can be created, and whether these become containers, which
/// the servers remove when they are empty.
async fn containers(site: Site) -> Checked {
    let Site {
        first: client,
        path,
        ..
    } = site;
    let container = client.create().with_mode(CreateMode::Container);
    let direct = container.for_path(&path, "").await;
    let create = client.create().with_mode(CreateMode::Ephemeral);
    let create = create.creating_parent_containers();
    create.for_path(format!("{path}/a/b"), "").await?;
    match direct {
        Ok(_) => Ok(Verdict::Works),
        Err(ClientError::Unimplemented { .. }) => Ok(Verdict::WorksBut(
            "missing directories become persistent nodes, which stay".to_owned(),
        )),
        Err(error) => Err(error.into()),
    }
}

async fn ttl(site: Site) -> Checked {
    let create = site.first.create();
    let create = create.with_mode(CreateMode::PersistentWithTtl(TTL));
    create.for_path(&site.path, "").await?;
    Ok(Verdict::Works)
}
