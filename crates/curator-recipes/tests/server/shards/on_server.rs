//! An assignment on a server, over both transports.

use std::time::Duration;

use curator_recipes::{ShardAssignment, Shards};
use tokio::sync::oneshot;

use super::members::Served;
use crate::support::{client as connected, path, soon, until};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn members_divide_the_shards_and_hand_them_over() {
    let path = path("shards");
    let served = Served::default();
    let mut members = Vec::new();
    for (id, counts) in [("a", &[6][..]), ("b", &[3, 3]), ("c", &[2, 2, 2])] {
        let client = connected().await;
        let assignment = ShardAssignment::builder(&client, &path, id, Shards::Count(6)).unwrap();
        // The test would fail if it waited for this time.
        let assignment = assignment.reserve_for(Duration::from_secs(3_600)).build();
        let (stop, stop_rx) = oneshot::channel::<()>();
        let run = tokio::spawn(assignment.run(served.job(id), stop_rx));
        until(async || served.counts() == counts).await;
        members.push((client, stop, run));
    }
    for counts in [&[3, 3][..], &[6], &[]] {
        let (client, stop, run) = members.pop().unwrap();
        stop.send(()).unwrap();
        soon(run).await.unwrap().unwrap();
        until(async || served.counts() == counts).await;
        client.close().await.unwrap();
    }
}
