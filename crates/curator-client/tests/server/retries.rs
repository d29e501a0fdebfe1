//! The client follows its retry policy.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use curator_client::{Error, retry_fn};
use curator_test::{OpCode, Simulation};

use crate::support::{Recorded, behind_proxy_with, builder, soon, unique_path};

const PAUSE: Duration = Duration::from_millis(20);

#[tokio::test(start_paused = true)]
async fn a_policy_is_given_the_number_of_retries_and_the_elapsed_time() {
    let policy = Recorded::new(3, PAUSE);
    let simulation = Simulation::new(1);
    let process = simulation.process("client");
    let client = builder(simulation.connect_string()).retry_policy(policy.clone());
    let client = process.run(client.connect()).await.unwrap();
    let calls = || std::mem::take(&mut *policy.calls.lock().unwrap());
    // The policy is not called for an error that the server returned.
    let error = client.get_data("/none").await.unwrap_err();
    assert!(matches!(error, Error::NoNode { .. }), "{error}");
    assert_eq!((calls(), process.requests()[&OpCode::GetData]), (vec![], 1));
    for (lost, expected) in [(3, &[0, 1, 2][..]), (4, &[0, 1, 2, 3])] {
        process.reset_counts();
        for _ in 0..lost {
            process.cut_before_reply(OpCode::Exists);
        }
        let succeeded = client.check_exists("/").await.is_ok();
        assert_eq!(
            (succeeded, process.requests()[&OpCode::Exists]),
            (lost < 4, 4)
        );
        let calls = calls();
        assert_eq!(
            calls
                .iter()
                .map(|(retries, _)| *retries)
                .collect::<Vec<_>>(),
            expected
        );
        // The elapsed time does not include the first attempt.
        assert_eq!(calls[0].1, Duration::ZERO);
        for pair in calls.windows(2) {
            assert!(pair[1].1 >= pair[0].1 + PAUSE, "{calls:?}");
        }
    }
}

/// The views share the session. A view with another namespace keeps the policy, and a view with
/// another policy keeps the namespace.
#[tokio::test]
async fn each_view_of_a_client_retries_by_its_own_policy() {
    let of_client = Recorded::new(9, PAUSE);
    let of_view = Recorded::new(0, PAUSE);
    let (proxy, client) = behind_proxy_with(|client| client.retry_policy(of_client.clone())).await;
    let calls = |policy: &Recorded| std::mem::take(&mut *policy.calls.lock().unwrap()).len();
    let view = client.using_retry_policy(of_view.clone());
    let views = [
        view.clone(),
        view.using_namespace("").unwrap(),
        client
            .using_namespace("")
            .unwrap()
            .using_retry_policy(of_view.clone()),
    ];
    let session = client.session().await.unwrap().id();
    for view in views {
        assert_eq!(view.session().await.unwrap().id(), session);
        proxy.cut_before_reply(OpCode::Exists);
        let error = soon(view.check_exists("/")).await.unwrap_err();
        assert!(matches!(error, Error::ConnectionLost { .. }), "{error}");
        assert_eq!((calls(&of_client), calls(&of_view)), (0, 1));
        proxy.cut_before_reply(OpCode::Exists);
        assert!(soon(client.check_exists("/")).await.is_ok());
        // One of the failures may be that the connection is still down.
        assert!(calls(&of_client) >= 1 && calls(&of_view) == 0);
    }
    // The last reads have not replaced the session.
    assert_eq!(client.session().await.unwrap().id(), session);
    // Closing a view closes the client.
    soon(view.close()).await.unwrap();
    assert!(matches!(client.try_session(), Err(Error::Closed)));
}

#[tokio::test]
async fn a_closure_sees_the_error_of_each_attempt() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let errors = Arc::clone(&seen);
    // A pause of zero is raised to 1 ms.
    let policy = retry_fn(move |failed| {
        errors.lock().unwrap().push(failed.error().cloned());
        (failed.retries() == 0).then_some(Duration::ZERO)
    });
    let (proxy, client) = behind_proxy_with(|client| client).await;
    let view = client.using_retry_policy(policy);
    let path = unique_path("node");
    // A refusal by the server is not retried.
    assert!(matches!(
        soon(view.get_data(&path)).await,
        Err(Error::NoNode { .. })
    ));
    // The write was applied, so a second one would fail: it is not repeated.
    client.create().for_path(&path, "").await.unwrap();
    proxy.cut_before_reply(OpCode::SetData);
    let error = soon(view.set_data(&path, "1", Some(0))).await.unwrap_err();
    assert!(matches!(error, Error::Ambiguous { .. }), "{error}");
    assert!(seen.lock().unwrap().is_empty());
    proxy.cut_before_reply(OpCode::Exists);
    proxy.cut_before_reply(OpCode::Exists);
    assert!(soon(view.check_exists(&path)).await.is_err());
    let seen = seen.lock().unwrap();
    // An attempt may find that the connection is still down.
    let is_failure = |error: &Option<Error>| {
        matches!(
            error,
            Some(Error::ConnectionLost { .. } | Error::Disconnected { .. })
        )
    };
    assert!(seen.len() == 2 && seen.iter().all(is_failure), "{seen:?}");
}
