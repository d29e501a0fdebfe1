//! The check of recursive watches, and which nodes their events name.

use curator_recipes::client::{CuratorClient, RecursiveWatch, TreeEvent, ZPath};

use super::site::{STEP, Site};
use super::verdict::{Checked, Problem, Verdict, expect};

pub(super) async fn check(site: Site) -> Checked {
    Ok(match names_of_events(&site.first, &site.path).await? {
        Names::Changed => Verdict::Works,
        Names::Watched => {
            Verdict::WorksBut("their events name the watched node, not the changed one".to_owned())
        }
    })
}

/// Which node the events of a recursive watch name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Names {
    /// The node that has changed.
    Changed,
    /// The node that is watched, whatever has changed.
    Watched,
}

/// Watches a node that does not exist yet, and changes nodes at it and below it.
pub(super) async fn names_of_events(client: &CuratorClient, path: &str) -> Result<Names, Problem> {
    let root = client.resolve(path)?;
    let child = root.child("a")?;
    let session = client.watching_client()?.session().await?;
    let mut watch = session.watch_recursive(&root).await?;
    for node in [&root, &child] {
        client.create().for_path(node, "").await?;
    }
    client.set_data(&child, "1", None).await?;
    client.delete().for_path(&child).await?;
    let seen = events(&mut watch, 4).await?;
    let expected = |changed: &ZPath| {
        [
            TreeEvent::Created(root.clone()),
            TreeEvent::Created(changed.clone()),
            TreeEvent::DataChanged(changed.clone()),
            TreeEvent::Deleted(changed.clone()),
        ]
    };
    if seen == expected(&child) {
        Ok(Names::Changed)
    } else if seen == expected(&root) {
        Ok(Names::Watched)
    } else {
        Err(Problem::fault(format!(
            "a recursive watch reports {seen:?} instead of {:?}",
            expected(&child)
        )))
    }
}

/// The first events of a watch; fewer if the others do not arrive in time.
async fn events(watch: &mut RecursiveWatch, number: usize) -> Result<Vec<TreeEvent>, Problem> {
    let mut seen = Vec::new();
    let collecting = async {
        while seen.len() < number {
            seen.push(watch.next().await);
        }
    };
    let _ = tokio::time::timeout(STEP, collecting).await;
    expect(!seen.is_empty(), "a recursive watch reports nothing")?;
    Ok(seen)
}
