//! Recipes of Curator that are short compositions of the public API: a barrier, a double barrier, a
//! queue of tasks, and a node with a time to live. Copy the file that you need. Fails if a member
//! passes a barrier early, or if a task is lost.
//!
//! ```console
//! cargo run --example compositions
//! ```

pub mod barrier;
pub mod double_barrier;
pub mod task_queue;
pub mod ttl_node;

use std::time::Duration;

use curator_examples::{Ensemble, Failure, builder};
use curator_recipes::client::{CuratorClient, Error};
use tokio::task::JoinSet;
use tokio::time::timeout;

use self::barrier::DistributedBarrier;
use self::double_barrier::Member;
use self::task_queue::TaskQueue;
use self::ttl_node::keep_alive;

const ROOT: &str = "/curator-examples/compositions";
const MEMBERS: usize = 3;
const TASKS: usize = 6;

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let ensemble = Ensemble::find().await?;
    let connect = async || builder(ensemble.connect_string()).connect().await;
    let client = connect().await?;

    let barrier = DistributedBarrier::new(&client, format!("{ROOT}/barrier"))?;
    barrier.set().await?;
    let mut waiting = tokio::spawn({
        let barrier = DistributedBarrier::new(&connect().await?, format!("{ROOT}/barrier"))?;
        async move { barrier.wait().await }
    });
    if timeout(Duration::from_millis(200), &mut waiting)
        .await
        .is_ok()
    {
        return Err("somebody has passed the barrier".into());
    }
    println!("The barrier is set: all wait.");
    barrier.remove().await?;
    waiting.await??;
    println!("The barrier is removed: all pass.");

    let mut members = JoinSet::new();
    for number in 1..=MEMBERS {
        members.spawn(compute(connect().await?, number));
    }
    while let Some(member) = members.join_next().await {
        member??;
    }
    println!("All members have left together.");

    let queue = TaskQueue::open(&client, format!("{ROOT}/queue")).await?;
    for number in 1..=TASKS {
        queue.put(format!("task {number}")).await?;
    }
    // This worker ends in the middle of its task.
    let abandoned = queue.take().await?;
    println!("A worker ends during {}.", text(&abandoned.data));
    drop(abandoned);
    for _ in 0..TASKS {
        let task = queue.take().await?;
        let work = async { println!("Another worker does {}.", text(&task.data)) };
        task.guard.run(work).await?;
        task.done().await?;
    }

    let path = format!("{ROOT}/ttl");
    let keeping = keep_alive(&client, &*path, "alive", Duration::from_secs(10));
    let seeing = async {
        loop {
            let (node, mut changed) = client.watch_exists(&*path).await?;
            if node.is_some() {
                return Ok(());
            }
            changed.fired().await;
        }
    };
    let kept: Result<(), Error> = tokio::select! {
        Err(error) = keeping => Err(error),
        seen = seeing => seen,
    };
    match kept {
        Ok(()) => println!("The servers delete the node 10 s after the program's last write."),
        Err(error @ Error::Unimplemented { .. }) => println!("No time to live: {error}."),
        Err(error) => return Err(error.into()),
    }
    client.close().await?;
    Ok(())
}

fn text(data: &[u8]) -> String {
    String::from_utf8_lossy(data).into_owned()
}

async fn compute(client: CuratorClient, number: usize) -> Result<(), Failure> {
    println!("Member {number} arrives.");
    let member = Member::enter(&client, &format!("{ROOT}/double-barrier"), MEMBERS).await?;
    println!("Member {number} computes.");
    member.leave().await
}
