//! Ids that no two calls may get.

use std::sync::Arc;

use async_trait::async_trait;
use curator_recipes::IdGenerator;

use super::{Workload, must_succeed, try_call};
use crate::checks::Unique;
use crate::life::Life;

pub(super) fn make(root: String) -> Arc<dyn Workload> {
    Arc::new(Ids {
        root,
        ids: Unique::default(),
    })
}

#[derive(Debug)]
struct Ids {
    root: String,
    ids: Unique<i64>,
}

#[async_trait]
impl Workload for Ids {
    async fn live(&self, life: &Life) {
        let generator =
            IdGenerator::new(life.client(), self.root.as_str(), [1, 3, 10][life.below(3)]);
        let Some(generator) = must_succeed(life, "make a generator", generator) else {
            return;
        };
        let tasks = (0..=life.below(3)).map(|number| life.part(&number.to_string()));
        let tasks: Vec<_> = tasks
            .map(|life| {
                let generator = generator.clone();
                async move {
                    while life.goes_on() {
                        if let Some(id) = try_call(&life, "next", generator.next()).await {
                            self.ids.note(life.world(), &self.root, id);
                        }
                        life.think().await;
                    }
                    if life.at_rest().await
                        && let Some(id) = must_succeed(
                            &life,
                            "next",
                            life.complete("next", generator.next()).await,
                        )
                    {
                        self.ids.note(life.world(), &self.root, id);
                    }
                    life.idle().await;
                }
            })
            .collect();
        life.joined(tasks).await;
    }

    fn may_leave(&self, path: &str) -> bool {
        path == self.root
    }
}
