//! An assignment on a server, over both transports.

use std::time::Duration;

use curator_recipes::{ShardAssignment, Shards};
use tokio::sync::oneshot;

use super::members::Served;
use crate::support::{
    LONG_SESSION, builder, client as connected, path, shared_address, soon, until,
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn members_divide_the_shards_and_hand_them_over() {
    let path = format!("/shards{}", path("divided"));
    let served = Served::default();
    let mut members = Vec::new();
    for (id, counts) in [("a", &[6][..]), ("b", &[3, 3]), ("c", &[2, 2, 2])] {
        // One of them names the path by a namespace.
        let (client, path) = match id {
            "b" => {
                let client = builder(&shared_address().await.to_string(), LONG_SESSION);
                let client = client.namespace("shards").connect().await.unwrap();
                (client, path.strip_prefix("/shards").unwrap())
            }
            _ => (connected().await, &*path),
        };
        let assignment = ShardAssignment::builder(&client, path, id, Shards::Count(6)).unwrap();
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
