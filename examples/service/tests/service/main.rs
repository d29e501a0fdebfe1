//! Tests the service over HTTP, with network failures and a signal that stops it.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "in a test, a panic is the way to fail"
)]

mod driver;

use curator_recipes::InterProcessMutex;
use curator_recipes::client::CuratorClient;
use curator_test::{Direction, FaultProxy, TestingServer, until};

use driver::{Connection, Service};

#[tokio::test]
async fn requests_for_one_order_exclude_each_other_even_on_one_connection() {
    let server = TestingServer::start().await.unwrap();
    let service = Service::start(server.connect_string(), &[("SESSION_TIMEOUT", "20")]).await;
    service.wait_for_answer("GET /health/ready", 200, "").await;

    let mut connection = Connection::to(&service.address).await;
    let (status, token) = connection.ask("POST /orders/7/reservation", "").await;
    assert_eq!(status, 201, "{token}");
    assert_eq!(
        connection.ask("POST /orders/7/reservation", "").await.0,
        409
    );
    assert_eq!(connection.ask("POST /orders/7", "tea").await.0, 409);
    assert_eq!(service.ask("POST /orders/7/reservation", "").await.0, 409);
    assert_eq!(
        connection.ask("POST /orders/8", "tea").await,
        (200, "tea\n".to_owned())
    );
    assert_eq!(
        connection
            .ask(&with_token("PUT /orders/7", &token), "milk")
            .await
            .0,
        204
    );
    assert_eq!(
        connection
            .ask(&with_token("DELETE /orders/7/reservation", &token), "")
            .await
            .0,
        204
    );
    assert_eq!(
        connection.ask("POST /orders/7", "sugar").await,
        (200, "milk\nsugar\n".to_owned())
    );
    assert_eq!(
        connection.ask("GET /orders/7", "").await,
        (200, "milk\nsugar\n".to_owned())
    );
    for _ in 0..2 {
        assert_eq!(
            connection.ask("GET /orders/9", "").await.0,
            404,
            "a read creates no order"
        );
    }
    for wrong in [
        "POST /orders/a%2Fb",
        "POST /orders/..",
        "PUT /orders/7\r\nFencing-Token: x",
        "PUT /orders/7",
    ] {
        assert_eq!(connection.ask(wrong, "").await.0, 400, "{wrong}");
    }
}

#[tokio::test]
async fn the_service_works_under_a_chroot_and_in_a_namespace() {
    let server = TestingServer::start().await.unwrap();
    let client = CuratorClient::builder(server.connect_string())
        .connect()
        .await
        .unwrap();
    for (chroot, namespace, root) in [("/chroot", "", "/chroot"), ("", "namespace", "/namespace")] {
        let connect_string = format!("{}{chroot}", server.connect_string());
        let settings = [
            ("SESSION_TIMEOUT", "20"),
            ("ZOOKEEPER_NAMESPACE", namespace),
        ];
        let service = Service::start(connect_string, &settings).await;
        service
            .wait_for_answer("POST /orders/7/reservation", 201, "")
            .await;
        let taken = client
            .get_children(format!("{root}/curator-examples/service/orders/7"))
            .await
            .unwrap();
        assert_eq!(taken.len(), 1, "{taken:?}");
        assert_eq!(service.ask("POST /orders/7", "tea").await.0, 409);
        assert_eq!(service.ask("POST /orders/8", "tea").await.0, 200);
        service.terminate();
        let (status, printed) = service.end().await;
        assert!(status.success(), "{printed:?}");
    }
    client.close().await.unwrap();
}

#[tokio::test]
async fn a_reservation_can_be_used_only_with_its_token() {
    let server = TestingServer::start().await.unwrap();
    let service = Service::start(server.connect_string(), &[("SESSION_TIMEOUT", "20")]).await;
    let token = service
        .wait_for_answer("POST /orders/7/reservation", 201, "")
        .await;
    let other = service
        .wait_for_answer("POST /orders/8/reservation", 201, "")
        .await;
    for wrong in [i64::MAX.to_string(), "1".to_owned(), other] {
        for request in [
            "PUT /orders/7",
            "DELETE /orders/7/reservation",
            "PUT /orders/9",
        ] {
            assert_eq!(
                service.ask(&with_token(request, &wrong), "water").await.0,
                410,
                "{request} {wrong}"
            );
        }
    }
    assert_eq!(service.ask("DELETE /orders/7/reservation", "").await.0, 400);
    assert_eq!(
        service.ask("POST /orders/7/reservation", "").await.0,
        409,
        "the reservation still lasts"
    );
    assert_eq!(
        service
            .ask(&with_token("PUT /orders/7", &token), "milk")
            .await
            .0,
        204
    );
    assert_eq!(
        service
            .ask(&with_token("DELETE /orders/7/reservation", &token), "")
            .await
            .0,
        204
    );
    assert_eq!(
        service
            .ask(&with_token("PUT /orders/7", &token), "water")
            .await
            .0,
        410
    );
    assert_eq!(
        service.ask("POST /orders/7", "tea").await,
        (200, "milk\ntea\n".to_owned())
    );
}

#[tokio::test]
async fn the_store_refuses_a_write_that_arrives_after_its_reservation_was_given_back() {
    let server = TestingServer::start().await.unwrap();
    let service = Service::start(server.connect_string(), &[("SESSION_TIMEOUT", "20")]).await;
    let token = service
        .wait_for_answer("POST /orders/7/reservation", 201, "")
        .await;
    let mut late = Connection::to(&service.address).await;
    late.begin(&with_token("PUT /orders/7", &token), "water".len())
        .await;
    assert_eq!(
        service
            .ask(&with_token("DELETE /orders/7/reservation", &token), "")
            .await
            .0,
        204
    );
    assert_eq!(service.ask("POST /orders/7", "tea").await.0, 200);

    late.send("water").await;
    let (status, reason) = late.answer().await;
    assert!(
        status == 409 && reason.contains("is stale"),
        "{status} {reason}"
    );
    assert_eq!(service.ask("GET /orders/7", "").await.1, "tea\n");
}

#[tokio::test]
async fn using_or_deleting_a_lost_or_expired_reservation_is_refused() {
    let server = TestingServer::start().await.unwrap();
    let other = CuratorClient::builder(server.connect_string())
        .connect()
        .await
        .unwrap();
    let order =
        InterProcessMutex::non_reentrant(&other, "/curator-examples/service/orders/7").unwrap();
    let service = Service::start(server.connect_string(), &[("SESSION_TIMEOUT", "20")]).await;
    let token = service
        .wait_for_answer("POST /orders/7/reservation", 201, "")
        .await;
    other
        .delete()
        .for_path(&order.participants().await.unwrap()[0].path)
        .await
        .unwrap();
    service
        .wait_for_answer(
            &with_token("PUT /orders/7", &token),
            410,
            "the reservation is lost: ",
        )
        .await;
    let (status, reason) = service
        .ask(&with_token("DELETE /orders/7/reservation", &token), "")
        .await;
    assert!(
        status == 410 && reason.contains("its node no longer exists"),
        "{status} {reason}"
    );
    drop(service);

    let settings = [("SESSION_TIMEOUT", "20"), ("RESERVED_FOR", "0.1")];
    let service = Service::start(server.connect_string(), &settings).await;
    let token = service
        .wait_for_answer("POST /orders/8/reservation", 201, "")
        .await;
    service
        .wait_for_answer(
            &with_token("PUT /orders/8", &token),
            410,
            "the reservation has expired",
        )
        .await;
    assert_eq!(
        service
            .ask(&with_token("DELETE /orders/8/reservation", &token), "")
            .await
            .0,
        410
    );
    other.close().await.unwrap();
}

#[tokio::test]
async fn the_service_starts_without_servers_and_is_ready_once_they_are_reachable() {
    let server = TestingServer::start().await.unwrap();
    let network = FaultProxy::start(server.address()).unwrap();
    network.refuse(true).unwrap();
    let service = Service::start(network.connect_string(), &[("SESSION_TIMEOUT", "20")]).await;
    assert_eq!(service.ask("GET /health/live", "").await.0, 200);
    assert_eq!(service.ask("GET /health/ready", "").await.0, 503);
    assert_eq!(service.ask("POST /orders/7", "tea").await.0, 503);
    assert_eq!(service.ask("POST /orders/7/reservation", "").await.0, 503);
    assert_eq!(
        service.ask("GET /job", "").await,
        (200, "does not lead\n".to_owned())
    );

    network.refuse(false).unwrap();
    service.wait_for_answer("GET /health/ready", 200, "").await;
    service.wait_for_term().await;
    assert_eq!(
        service.ask("POST /orders/7", "tea").await,
        (200, "tea\n".to_owned())
    );
}

#[tokio::test]
async fn after_an_outage_the_job_has_a_new_lock_and_late_requests_are_refused() {
    let server = TestingServer::start().await.unwrap();
    let network = FaultProxy::start(server.address()).unwrap();
    // Short, because the test waits until the session expires, but long enough for a busy machine.
    let service = Service::start(network.connect_string(), &[("SESSION_TIMEOUT", "6")]).await;
    let before = service.wait_for_term().await;
    let token = service
        .wait_for_answer("POST /orders/7/reservation", 201, "")
        .await;

    network.black_hole(Direction::Both);
    service.wait_for_answer("GET /health/ready", 503, "").await;
    service
        .wait_for_answer("GET /job", 200, "does not lead")
        .await;
    assert_eq!(service.ask("GET /health/live", "").await.0, 200);
    assert_eq!(service.ask("POST /orders/8", "tea").await.0, 503);

    network.heal();
    service.wait_for_answer("GET /health/ready", 200, "").await;
    assert!(service.wait_for_term().await > before);
    assert_eq!(
        service.ask("POST /orders/7", "milk").await,
        (200, "milk\n".to_owned())
    );
    for late in ["PUT /orders/7", "DELETE /orders/7/reservation"] {
        let (status, reason) = service.ask(&with_token(late, &token), "water").await;
        assert!(
            status == 410 && reason.contains("its session ended"),
            "{late}: {status} {reason}"
        );
    }
    assert_eq!(service.ask("GET /orders/7", "").await.1, "milk\n");
}

#[tokio::test]
async fn the_exported_metrics_count_the_events_and_cover_alerts_and_dashboard() {
    let server = TestingServer::start().await.unwrap();
    let network = FaultProxy::start(server.address()).unwrap();
    let service = Service::start(network.connect_string(), &[("SESSION_TIMEOUT", "12")]).await;
    service.wait_for_term().await;
    service
        .wait_for_answer("POST /orders/7/reservation", 201, "")
        .await;
    service
        .wait_for_answer("GET /orders", 200, "7: 0 waiting")
        .await;
    // The request waits for `LOCK_TIMEOUT`, and then fails.
    assert_eq!(service.ask("POST /orders/7", "tea").await.0, 409);
    assert_eq!(service.ask("POST /orders/7/reservation", "").await.0, 409);
    network.black_hole(Direction::Both);
    service.wait_for_answer("GET /health/ready", 503, "").await;
    service
        .wait_for_answer("GET /job", 200, "does not lead")
        .await;
    service
        .wait_for_answer("GET /orders", 503, "not known")
        .await;
    network.heal();
    service.wait_for_term().await;
    service.wait_for_answer("GET /orders", 200, "").await;
    assert_eq!(service.ask("POST /orders/7", "milk").await.0, 200);

    network.cut();
    until(async || {
        let text = service.wait_for_answer("GET /metrics", 200, "").await;
        // The counter is exported from the start.
        !text.contains("\ncurator_client_reconnects_total{client=\"orders\"} 0\n")
    })
    .await;
    service.wait_for_answer("GET /orders", 200, "").await;

    let text = service.wait_for_answer("GET /metrics", 200, "").await;
    let value_of = |name: &str| {
        text.lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))
            .unwrap_or_else(|| panic!("{name} is not in\n{text}"))
            .parse::<f64>()
            .unwrap()
    };
    for (name, value) in [
        (
            r#"curator_lock_acquires_total{kind="mutex",lock="orders",outcome="acquired"}"#,
            2.0,
        ),
        (
            r#"curator_lock_acquires_total{kind="mutex",lock="orders",outcome="timed-out"}"#,
            1.0,
        ),
        (
            r#"curator_lock_acquires_total{kind="mutex",lock="orders",outcome="busy"}"#,
            1.0,
        ),
        (
            r#"curator_lock_lost_total{kind="mutex",lock="orders",reason="session"}"#,
            1.0,
        ),
        (
            r#"curator_lock_acquires_total{kind="leader selector",lock="job",outcome="acquired"}"#,
            2.0,
        ),
        (
            r#"curator_lock_lost_total{kind="leader selector",lock="job",reason="session"}"#,
            1.0,
        ),
        (
            r#"curator_lock_held{kind="leader selector",lock="job"}"#,
            1.0,
        ),
        (
            r#"curator_lock_wait_seconds_count{kind="mutex",lock="orders"}"#,
            2.0,
        ),
        (r#"curator_client_sessions_total{client="orders"}"#, 2.0),
        (
            r#"curator_client_sessions_lost_total{client="orders",reason="lease-over"}"#,
            1.0,
        ),
        (r#"curator_client_connected{client="orders"}"#, 1.0),
        (r#"curator_cache_stale{cache="locks"}"#, 0.0),
    ] {
        assert_eq!(value_of(name), value, "{name}\n{text}");
    }
    let operations = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/operations");
    for file in ["alerts.yml", "dashboard.json"] {
        let file = std::fs::read_to_string(format!("{operations}/{file}")).unwrap();
        let names: std::collections::BTreeSet<_> = file
            .split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
            .filter(|word| word.starts_with("curator_"))
            .collect();
        assert!(names.len() > 5);
        for name in names {
            assert!(
                text.contains(&format!("\n{name}{{")),
                "{name} is not in\n{text}"
            );
        }
    }
}

#[tokio::test]
async fn a_stopping_service_answers_requests_then_releases_its_locks_then_closes() {
    let server = TestingServer::start().await.unwrap();
    let other = CuratorClient::builder(server.connect_string())
        .connect()
        .await
        .unwrap();
    let job = InterProcessMutex::non_reentrant(&other, "/curator-examples/service/job").unwrap();
    let order =
        InterProcessMutex::non_reentrant(&other, "/curator-examples/service/orders/7").unwrap();
    // Long enough that no node can expire during the test.
    let service = Service::start(server.connect_string(), &[("SESSION_TIMEOUT", "40")]).await;
    service.wait_for_term().await;
    assert_eq!(service.ask("POST /orders/7/reservation", "").await.0, 201);
    let wait = || {
        let address = service.address.clone();
        tokio::spawn(async move {
            Connection::to(&address)
                .await
                .ask("POST /orders/7", "tea")
                .await
        })
    };
    let mut waiting = wait();
    until(async || {
        // The request waits only for `LOCK_TIMEOUT`, and may have ended before the test has read
        // the participants.
        if waiting.is_finished() {
            waiting = wait();
        }
        order.participants().await.unwrap().len() == 2
    })
    .await;

    service.terminate();
    let (status, _) = waiting.await.unwrap();
    assert_eq!(status, 409, "a request that is under way is answered");
    let (status, printed) = service.end().await;
    assert!(status.success(), "{status}: {printed:#?}");
    for lock in [&job, &order] {
        assert!(lock.participants().await.unwrap().is_empty());
        lock.try_acquire()
            .await
            .unwrap()
            .expect("the lock is free")
            .release()
            .await
            .unwrap();
    }
    assert_order(
        &printed,
        &[
            "the job leads",
            "asked to stop by SIGTERM",
            "all requests are answered",
            "the job has ended",
            "gives back a reservation",
            "all reservations are given back",
            "the client is closed",
        ],
    );
    other.close().await.unwrap();
}

#[tokio::test]
async fn a_stopping_service_is_not_ready_but_still_answers_requests() {
    let server = TestingServer::start().await.unwrap();
    // `UNREADY_FOR` is so long that it does not end during the test.
    let settings = [("SESSION_TIMEOUT", "20"), ("UNREADY_FOR", "600")];
    let service = Service::start(server.connect_string(), &settings).await;
    service.wait_for_answer("GET /health/ready", 200, "").await;
    service.terminate();
    service
        .wait_for_answer("GET /health/ready", 503, "stopping")
        .await;
    assert_eq!(service.ask("GET /health/live", "").await.0, 200);
    assert_eq!(
        service.ask("POST /orders/7", "tea").await,
        (200, "tea\n".to_owned())
    );
}

#[tokio::test]
async fn a_request_that_exceeds_the_drain_time_is_cut_off_before_the_job_ends() {
    let server = TestingServer::start().await.unwrap();
    let settings = [("SESSION_TIMEOUT", "40"), ("DRAIN", "0.1")];
    let service = Service::start(server.connect_string(), &settings).await;
    service.wait_for_term().await;
    let token = service
        .wait_for_answer("POST /orders/7/reservation", 201, "")
        .await;
    let mut late = Connection::to(&service.address).await;
    late.begin(&with_token("PUT /orders/7", &token), "water".len())
        .await;

    service.terminate();
    assert_eq!(late.answer().await, (503, "the service stops\n".to_owned()));
    let (status, printed) = service.end().await;
    assert!(status.success(), "{status}: {printed:#?}");
    assert_order(
        &printed,
        &[
            "connections are cut off",
            "the job has ended",
            "all reservations are given back",
            "the client is closed",
        ],
    );
    assert!(
        !printed
            .iter()
            .any(|line| line.contains("all requests are answered")),
        "{printed:#?}"
    );
}

#[tokio::test]
async fn a_service_that_stops_in_an_outage_runs_every_step_of_its_shutdown() {
    let server = TestingServer::start().await.unwrap();
    let network = FaultProxy::start(server.address()).unwrap();
    let service = Service::start(network.connect_string(), &[("SESSION_TIMEOUT", "40")]).await;
    service.wait_for_term().await;
    service
        .wait_for_answer("POST /orders/7/reservation", 201, "")
        .await;
    service
        .wait_for_answer("POST /orders/8/reservation", 201, "")
        .await;
    network.black_hole(Direction::Both);
    service.terminate();
    let (status, printed) = service.end().await;
    assert!(status.success(), "{status}: {printed:#?}");
    assert_order(
        &printed,
        &[
            "all requests are answered",
            "its release is not confirmed",
            "the job has ended",
            // Both reservations are ended before the first release is awaited.
            "gives back a reservation",
            "gives back a reservation",
            "a release continues in the background",
            "a release continues in the background",
            "not all reservations could be given back",
            "the client is closed, but the servers have not confirmed it",
        ],
    );
}

fn with_token(request: &str, token: &str) -> String {
    format!("{request}\r\nFencing-Token: {}", token.trim())
}

fn assert_order(printed: &[String], expected: &[&str]) {
    let mut lines = printed.iter();
    for expected in expected {
        assert!(
            lines.any(|line| line.contains(expected)),
            "no {expected:?} in its place in: {printed:#?}"
        );
    }
}
