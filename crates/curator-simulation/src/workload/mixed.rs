//! Several recipes in one client.

use std::sync::Arc;

use super::unpolled::keep_unpolled;
use super::{Make, WORKLOADS, Workload};
use crate::life::Life;
use crate::servers::Nodes;
use crate::world::World;
use async_trait::async_trait;
use curator_recipes::client::{CuratorClient, Error as ClientError};
use futures_util::FutureExt as _;

/// How many recipes each client uses.
const PARTS: usize = 3;

pub(super) fn make(root: String) -> Arc<dyn Workload> {
    let others = WORKLOADS
        .iter()
        .filter(|(name, _)| !["mixed", "cache-without-access"].contains(name));
    let parts = others
        .map(|(name, make): &(&str, Make)| (*name, make(format!("{root}/{name}"))))
        .collect();
    Arc::new(Mixed { root, parts })
}

#[derive(Debug)]
struct Mixed {
    root: String,
    parts: Vec<(&'static str, Arc<dyn Workload>)>,
}

#[async_trait]
impl Workload for Mixed {
    async fn prepare(&self, client: &CuratorClient) -> Result<(), ClientError> {
        for (_, part) in &self.parts {
            part.prepare(client).await?;
        }
        Ok(())
    }

    async fn live(&self, life: &Life) {
        // The first is often the same in all processes, so that they meet.
        let first = life.world().choice(self.parts.len());
        let chosen: Vec<_> = (0..PARTS)
            .map(|n| {
                if n == 0 {
                    first
                } else {
                    life.below(self.parts.len())
                }
            })
            .collect();
        let parts = chosen.into_iter().enumerate().map(|(number, chosen)| {
            let (name, workload) = &self.parts[chosen];
            let life = life.part(&format!("{name}-{number}"));
            async move { workload.live(&life).await }.boxed()
        });
        let unpolled = life.part("unpolled");
        let unpolled = async move { keep_unpolled(&unpolled, &self.root).await }.boxed();
        let parts: Vec<_> = parts.chain([unpolled]).collect();
        life.joined(parts).await;
    }

    fn check_end(&self, world: &World, nodes: &Nodes) {
        self.parts
            .iter()
            .for_each(|(_, part)| part.check_end(world, nodes));
    }

    fn may_leave(&self, path: &str) -> bool {
        self.parts.iter().any(|(_, part)| part.may_leave(path))
    }
}
