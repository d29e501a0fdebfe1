//! go-zookeeper's lock and this project's mutex on one path.

use curator_recipes::InterProcessMutex;
use curator_test::{TestingServer, unique_path};

use super::start;
use crate::{
    ours::{client, until_another_watches},
    sharing::{
        Peer, killed_programs_give_way, lost_sessions_of_ours_give_way, stand_in_one_queue,
        take_turns,
    },
    still_waits::round_trips,
};

const GO: Peer = Peer {
    start,
    acquire: ("acquire", "ok _c_"),
    release: ("release", "ok"),
    cycles: "cycles",
    mutex: |client, path| InterProcessMutex::non_reentrant(client, path).unwrap(),
};

#[tokio::test]
async fn go_zookeepers_lock_and_a_mutex_stand_in_one_queue() {
    stand_in_one_queue(&GO).await;
}

#[tokio::test]
async fn go_zookeepers_lock_and_a_mutex_take_turns_in_the_order_of_the_server() {
    take_turns(&GO).await;
}

#[tokio::test]
async fn the_lock_of_a_killed_go_program_goes_to_our_mutex() {
    killed_programs_give_way(&GO).await;
}

#[tokio::test]
async fn the_lock_of_our_lost_session_goes_to_go_zookeeper() {
    lost_sessions_of_ours_give_way(&GO).await;
}

#[tokio::test]
async fn go_zookeepers_lock_waits_for_a_mutex_with_kazoos_names_but_not_the_other_way_round() {
    let server = TestingServer::shared().await;
    let path = unique_path("lock");
    let mut go = start("go", &server.connect_string());
    let client = client(server).await;
    let mutex = InterProcessMutex::compatible_with_kazoo(&client, &path).unwrap();

    let guard = mutex.acquire().await.unwrap();
    go.send(&format!("acquire {path}"));
    until_another_watches(server, &guard).await;
    round_trips(&client).await;
    assert!(go.is_silent());
    guard.release().await.unwrap();
    assert!(go.answer().starts_with("ok _c_"));
    mutex
        .try_acquire()
        .await
        .unwrap()
        .expect("go-zookeeper's node is ignored")
        .release()
        .await
        .unwrap();
}
