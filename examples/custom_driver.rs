//! A lock with another node layout: the `[hostname]-W-<sequence>` names of the shared-lock recipe,
//! with an id in them, for a directory that programs in other languages already use.
//!
//! ```console
//! cargo run --example custom_driver
//! ```

use std::time::Duration;

use curator_examples::{Ensemble, Failure, builder};
use curator_recipes::{
    InterProcessMutex,
    driver::{LockInternalsDriver, Queue, Uuid, Verdict, sequence_after},
};

/// An exclusive lock whose node names contain the host.
#[derive(Debug)]
struct HostnameDriver {
    hostname: String,
}

impl LockInternalsDriver for HostnameDriver {
    /// The id distinguishes the contenders of one host. The library also finds a node by its id if
    /// the reply to the create was lost.
    fn node_prefix(&self, id: &Uuid) -> String {
        format!("{}-{id}-W-", self.hostname)
    }

    /// Nodes of all hosts count, including nodes of readers. Other names in the directory are
    /// ignored.
    fn sequence(&self, child: &str) -> Option<i32> {
        sequence_after(child, "-W-").or_else(|| sequence_after(child, "-R-"))
    }

    /// A writer waits for the node before its own, whether that is a reader's or a writer's.
    fn verdict(&self, _queue: &Queue, own: usize) -> Verdict {
        match own.checked_sub(1) {
            None => Verdict::Owns,
            Some(before) => Verdict::WaitsFor(before),
        }
    }
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let ensemble = Ensemble::find().await?;
    let client = builder(ensemble.connect_string()).connect().await?;
    let lock = |hostname: &str| -> Result<_, Failure> {
        let driver = HostnameDriver {
            hostname: hostname.to_owned(),
        };
        Ok(
            InterProcessMutex::non_reentrant(&client, "/curator-examples/shared-lock")?
                .with_driver(driver)?,
        )
    };
    let web = lock("web-3")?;
    let batch = lock("batch-1")?;

    let guard = web.acquire().await?;
    println!("web-3 holds the lock: {}", guard.node());
    assert!(batch.try_acquire().await?.is_none());
    println!("batch-1 cannot acquire it now.");

    let waiting = tokio::spawn({
        let batch = batch.clone();
        async move { batch.acquire().await }
    });
    while web.participants().await?.len() < 2 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    for participant in web.participants().await? {
        println!(
            "in the queue: {} {}",
            participant.path,
            if participant.owns {
                "(holds)"
            } else {
                "(waits)"
            }
        );
    }
    guard.release().await?;
    let guard = waiting.await??;
    println!("batch-1 holds the lock: {}", guard.node());
    guard.release().await?;
    client.close().await?;
    Ok(())
}
