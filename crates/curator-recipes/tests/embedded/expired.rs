//! A session that the embedded server expires before its time, as the test of a service sees it.

use curator_recipes::client::SessionEnd;
use curator_recipes::{InterProcessMutex, LossReason};
use curator_test::EmbeddedServer;

use crate::support::{connect, queue_of, soon};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_holder_sees_its_session_expire_before_another_client_holds_the_lock() {
    let server = EmbeddedServer::start().unwrap();
    for round in 0..40 {
        let (one, two) = (connect(&server.connect_string()).await, connect(&server.connect_string()).await);
        let guard = InterProcessMutex::non_reentrant(&one, "/lock").unwrap().acquire().await.unwrap();
        let (loss, waiting) = (guard.loss(), InterProcessMutex::non_reentrant(&two, "/lock").unwrap());
        let waiting = tokio::spawn(async move {
            let next = waiting.acquire().await.unwrap();
            (next, loss.is_valid())
        });
        queue_of(&two, "/lock", 2).await;

        server.expire_session(guard.session_id()).unwrap();
        assert_eq!(soon(guard.lost()).await.reason, LossReason::SessionLost(SessionEnd::Expired), "round {round}");
        let (next, is_first_valid) = soon(waiting).await.unwrap();
        assert_eq!((next.is_valid(), is_first_valid), (true, false), "round {round}");
        next.release().await.unwrap();
        one.close().await.unwrap();
        two.close().await.unwrap();
    }
}
