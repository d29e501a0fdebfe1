//! Persistent nodes of all kinds, which an operator deletes.

use std::future::pending;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use curator_recipes::client::CreateMode;
use curator_recipes::{PersistentNode, PersistentNodeState};
use curator_test::{Fault, Faults};
use futures_util::future::select;
use tokio::time::timeout;

use super::{Workload, explain, must_succeed, try_call};
use crate::life::Life;

/// An operator deletes nodes.
pub(super) fn deleted(root: String) -> Arc<dyn Workload> {
    Arc::new(Persistent {
        root,
        hazard: Hazard::Deletes,
    })
}

/// An operator deletes nodes, and restores the servers from older copies.
pub(super) fn restored(root: String) -> Arc<dyn Workload> {
    Arc::new(Persistent {
        root,
        hazard: Hazard::DeletesAndRestores,
    })
}

/// Clients lose access to nodes for a time.
pub(super) fn without_access(root: String) -> Arc<dyn Workload> {
    Arc::new(Persistent {
        root,
        hazard: Hazard::TakesAccess,
    })
}

#[derive(Debug)]
struct Persistent {
    root: String,
    hazard: Hazard,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Hazard {
    Deletes,
    DeletesAndRestores,
    /// Clients lose access to nodes. Nodes are not deleted, because servers send no events of a
    /// node to a client that is not permitted to read it.
    TakesAccess,
}

/// How a node is kept.
#[derive(Debug, Clone, Copy)]
struct Kind {
    mode: CreateMode,
    is_protected: bool,
    /// Whether all processes keep the same node.
    is_shared: bool,
}

impl Kind {
    fn is_ephemeral(self) -> bool {
        matches!(
            self.mode,
            CreateMode::Ephemeral | CreateMode::EphemeralSequential
        )
    }

    fn random(life: &Life) -> Self {
        let modes = [
            CreateMode::Ephemeral,
            CreateMode::Ephemeral,
            CreateMode::EphemeralSequential,
            CreateMode::Persistent,
            CreateMode::PersistentSequential,
        ];
        let mode = modes[life.below(modes.len())];
        // A node that is not ephemeral is always protected: if the reply to the create of an
        // unprotected one were lost, the node would count as another client's.
        let is_ephemeral = matches!(
            mode,
            CreateMode::Ephemeral | CreateMode::EphemeralSequential
        );
        let is_protected = !is_ephemeral || life.one_in(2);
        // Sequential nodes with the same name can get each other's numbers after their directory
        // was created again, so they count as shared.
        let is_shared = is_ephemeral && !is_protected && (mode.is_sequential() || life.one_in(2));
        Self {
            mode,
            is_protected,
            is_shared,
        }
    }
}

#[async_trait]
impl Workload for Persistent {
    async fn live(&self, life: &Life) {
        let tasks = life.tasks().map(|life| async move {
            while life.goes_on() && life.one_in(2) {
                self.keep(&life, life.time(Duration::from_secs(10))).await;
            }
            self.keep(&life, Duration::MAX).await;
        });
        life.joined(tasks).await;
    }

    fn faults(&self) -> Faults {
        let mut faults = Faults::all();
        if self.hazard == Hazard::TakesAccess {
            faults.delete = 0.0;
        } else {
            faults.take_access = Fault::default();
        }
        if self.hazard != Hazard::DeletesAndRestores {
            faults.restore = Fault::default();
        }
        faults
    }

    fn may_leave(&self, path: &str) -> bool {
        // A node that is not ephemeral stays if the client is closed before the node.
        path.starts_with(&self.root)
    }
}

impl Persistent {
    /// Keeps a node for this long; if `time` is `MAX`, until the client's lifetime ends.
    async fn keep(&self, life: &Life, time: Duration) {
        let kind = Kind::random(life);
        let name = if kind.is_shared {
            format!("{:?}-", kind.mode)
        } else {
            life.name().replace('/', "-")
        };
        let name = if kind.is_ephemeral() {
            name
        } else {
            format!("persistent-{name}-{}", life.number())
        };
        let builder = PersistentNode::builder(life.client(), format!("{}/{name}", self.root));
        let Some(builder) = must_succeed(life, "make a node", builder) else {
            return;
        };
        let writer = format!("{} since {:?}: ", life.name(), life.world().elapsed());
        let mut data = format!("{writer}first");
        let mut builder = builder.mode(kind.mode).data(&data);
        if kind.is_protected {
            builder = builder.with_protection();
        }
        let node = builder.start();
        life.note(|| format!("keeps {} as {kind:?}", node.path()));
        let work = async {
            while life.goes_on() {
                self.step(life, &node, &writer, &mut data).await;
                life.think_for(Duration::from_secs(3)).await;
            }
        };
        let work = async {
            select(pin!(work), pin!(watch_owner(life, &node, kind))).await;
        };
        let has_ended = timeout(time, work).await.is_err();
        if !has_ended {
            if life.at_rest().await {
                life.eventually("keep the node", || {
                    is_kept(life, &node, kind, &writer, &data)
                })
                .await;
                self.number_nodes(life).await;
            }
            life.idle().await;
        }
        if life.one_in(3) {
            return life.note(|| "drops the node".to_owned());
        }
        let path = node.actual_path();
        if try_call(life, "close the node", node.close())
            .await
            .is_none()
        {
            return;
        }
        // If the session of the node has ended, the servers delete the node later.
        let session = life
            .client()
            .current_session()
            .filter(|session| session.end().is_none());
        let Some((path, session)) = path
            .filter(|_| self.hazard == Hazard::Deletes && !kind.is_shared)
            .zip(session)
        else {
            return;
        };
        let left = life.world().servers().node(path.as_str());
        let is_left = left.is_some_and(|node| node.owner == Some(session.id()));
        life.world().check(!is_left, || {
            format!("{}: {path} is left after a confirmed close", life.name())
        });
    }

    /// Creates sequential nodes one after another. All of them must get a number, even if other
    /// nodes already have the next numbers.
    async fn number_nodes(&self, life: &Life) {
        let path = format!("{}/{:?}-", self.root, CreateMode::EphemeralSequential);
        let mut nodes = Vec::new();
        for _ in 0..life.below(8) {
            let builder = PersistentNode::builder(life.client(), path.as_str());
            let Some(builder) = must_succeed(life, "make a node", builder) else {
                return;
            };
            let node = builder.mode(CreateMode::EphemeralSequential).start();
            let created = life
                .complete("get a number", node.created_timeout(Duration::from_secs(3)))
                .await;
            if must_succeed(life, "get a number", created).is_none() {
                return;
            }
            nodes.push(node);
        }
        for node in nodes {
            must_succeed(
                life,
                "close a node",
                life.complete("close a node", node.close()).await,
            );
        }
    }

    async fn step(&self, life: &Life, node: &PersistentNode, writer: &str, data: &mut String) {
        match life.below(6) {
            0 if self.hazard != Hazard::TakesAccess => {
                if life.one_in(4) {
                    // Deletes the directory too, so that its next sequential node gets the number 0
                    // again.
                    life.world().delete(&self.root);
                } else if let Some(path) = node.actual_path() {
                    life.world().delete(path.as_str());
                }
            }
            1 | 2 => {
                let created = node.created_timeout(life.time(Duration::from_secs(5)));
                try_call(life, "wait for the node", created).await;
            }
            _ => {
                let next = format!("{writer}{}", life.number());
                *data = next.clone();
                // Uses `complete`, because the write happens only once the future is polled, and a
                // dropped future may never be polled.
                match life
                    .complete(
                        "set data",
                        timeout(Duration::from_secs(4), node.set_data(&next)),
                    )
                    .await
                {
                    Ok(Ok(())) => life.note(|| format!("has set {next}")),
                    Ok(Err(error)) => explain(life, "set data", &error),
                    Err(_) => life.note(|| "set data takes long".to_owned()),
                }
            }
        }
    }
}

/// Fails if an ephemeral node is reported as present, but belongs to a session that has ended.
/// Never returns.
async fn watch_owner(life: &Life, node: &PersistentNode, kind: Kind) {
    let mut states = node.state();
    while states.changed().await.is_ok() {
        let PersistentNodeState::Present { path } = states.get_and_update() else {
            continue;
        };
        let Some(session) = life
            .client()
            .current_session()
            .filter(|session| session.end().is_none())
        else {
            continue;
        };
        // Other processes may have replaced a shared node, which the client detects later.
        if kind.is_ephemeral() && !kind.is_shared {
            let owner = life
                .world()
                .servers()
                .node(path.as_str())
                .map(|found| found.owner.unwrap_or_default());
            life.world()
                .check(owner.is_none_or(|owner| owner == session.id()), || {
                    format!(
                        "{}: {path} is reported as present, but its owner is {owner:x?}, not {:x}",
                        life.name(),
                        session.id()
                    )
                });
        }
    }
    pending::<()>().await;
}

fn is_kept(
    life: &Life,
    node: &PersistentNode,
    kind: Kind,
    writer: &str,
    data: &str,
) -> Result<(), String> {
    let state = node.state().get();
    let path = match &state {
        PersistentNodeState::Present { path } => path,
        PersistentNodeState::Foreign { .. } if kind.is_shared => return Ok(()),
        _ => {
            return Err(format!(
                "{} as {kind:?} is {state:?}: {:?}",
                node.path(),
                node.last_error()
            ));
        }
    };
    match life.world().servers().node(path.as_str()) {
        None => Err(format!(
            "{path} as {kind:?} is reported as present, but is missing"
        )),
        // Another process's write can apply to this process's node, if this node has replaced the
        // other's and has the same version.
        Some(found) if kind.is_shared && !found.data.starts_with(writer.as_bytes()) => Ok(()),
        Some(found) if found.data != data.as_bytes() => Err(format!(
            "{path} as {kind:?} has the data {}, not {data}",
            found.data.escape_ascii()
        )),
        Some(found) if found.owner.is_some() != kind.is_ephemeral() => Err(format!(
            "{path} as {kind:?} has the owner {:?}",
            found.owner
        )),
        Some(_) => Ok(()),
    }
}
