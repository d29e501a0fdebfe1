//! Deletes nodes of locks, as an operator may.

use std::collections::BTreeMap;

use tokio::time::{Instant, sleep, timeout_at};

use super::Strike;

impl Strike<'_> {
    pub(super) async fn delete_nodes(&mut self) -> anyhow::Result<()> {
        self.begin("nodes of all locks")?;
        let (end, mut deleted) = (Instant::now() + self.length, BTreeMap::<String, u32>::new());
        while Instant::now() < end {
            // The ensemble may not reply while other nemeses are active.
            let nodes = self.scene.nodes_of_one(&mut self.random);
            let Ok(Ok(nodes)) = timeout_at(end, nodes).await else {
                continue;
            };
            let Some(node) = self.random.choice(&nodes) else {
                continue;
            };
            // One or two nodes of the same queue: the worst case is a delete of the nodes of a
            // holder and of a waiter together.
            let directory = |path: &str| {
                path.rsplit_once('/')
                    .map(|(directory, _)| directory.to_owned())
            };
            let queue = nodes
                .iter()
                .filter(|other| directory(&other.path) == directory(&node.path));
            let count = self.random.usize(1..=2);
            let mut victims: Vec<_> = queue.collect();
            self.random.shuffle(&mut victims);
            for node in victims.into_iter().take(count) {
                if self
                    .scene
                    .delete(node, end.saturating_duration_since(Instant::now()))
                    .await
                {
                    *deleted
                        .entry(directory(&node.path).unwrap_or_default())
                        .or_default() += 1;
                }
            }
            sleep(self.between(50, 300)).await;
        }
        let deleted: Vec<_> = deleted
            .iter()
            .map(|(directory, count)| format!("{count} of {directory}"))
            .collect();
        self.scene
            .journal
            .say(&format!("deleted {}", deleted.join(", ")));
        self.scene.check()
    }
}
