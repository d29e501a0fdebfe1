//! The client follows its retry policy.

use std::time::Duration;

use curator_client::Error;
use curator_test::OpCode;

use crate::support::{Recorded, behind_proxy_with, soon, unique_path};

const PAUSE: Duration = Duration::from_millis(20);

#[tokio::test]
async fn a_policy_is_given_the_number_of_retries_and_the_elapsed_time() {
    let policy = Recorded::new(3, PAUSE);
    let (proxy, client) = behind_proxy_with(|client| client.retry_policy(policy.clone())).await;
    let calls = || std::mem::take(&mut *policy.calls.lock().unwrap());
    // The policy is not called for an error that the server replied.
    let error = soon(client.get_data(unique_path("node"))).await.unwrap_err();
    assert!(matches!(error, Error::NoNode { .. }), "{error}");
    assert_eq!((calls(), proxy.requests()[&OpCode::GetData]), (vec![], 1));
    for (lost, expected) in [(3, &[0, 1, 2][..]), (4, &[0, 1, 2, 3])] {
        proxy.reset_counts();
        for _ in 0..lost {
            proxy.cut_before_reply(OpCode::Exists);
        }
        let succeeded = soon(client.check_exists("/")).await.is_ok();
        assert_eq!((succeeded, proxy.requests()[&OpCode::Exists]), (lost < 4, 4));
        let calls = calls();
        assert_eq!(calls.iter().map(|(retries, _)| *retries).collect::<Vec<_>>(), expected);
        // The elapsed time does not include the first attempt.
        assert_eq!(calls[0].1, Duration::ZERO);
        for pair in calls.windows(2) {
            assert!(pair[1].1 >= pair[0].1 + PAUSE, "{calls:?}");
        }
    }
}
