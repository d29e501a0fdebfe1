//! The client follows its retry policy.

use std::time::Duration;

use curator_client::Error;
use curator_test::OpCode;

use crate::support::{Noted, behind_proxy_with, soon, unique_path};

const PAUSE: Duration = Duration::from_millis(20);

#[tokio::test]
async fn a_policy_is_given_the_number_of_retries_and_the_elapsed_time() {
    let policy = Noted::new(3, PAUSE);
    let (proxy, client) = behind_proxy_with(|client| client.retry_policy(policy.clone())).await;
    let asked = || std::mem::take(&mut *policy.asked.lock().unwrap());
    // The policy is not asked about a server's reply.
    let error = soon(client.get_data(unique_path("node"))).await.unwrap_err();
    assert!(matches!(error, Error::NoNode { .. }), "{error}");
    assert_eq!((asked(), proxy.requests()[&OpCode::GetData]), (vec![], 1));
    for (lost, expected) in [(3, &[0, 1, 2][..]), (4, &[0, 1, 2, 3])] {
        proxy.reset_counts();
        for _ in 0..lost {
            proxy.cut_before_reply(OpCode::Exists);
        }
        let succeeded = soon(client.check_exists("/")).await.is_ok();
        assert_eq!((succeeded, proxy.requests()[&OpCode::Exists]), (lost < 4, 4));
        let notes = asked();
        assert_eq!(notes.iter().map(|(retries, _)| *retries).collect::<Vec<_>>(), expected);
        // The time of the first attempt does not count.
        assert_eq!(notes[0].1, Duration::ZERO);
        for pair in notes.windows(2) {
            assert!(pair[1].1 >= pair[0].1 + PAUSE, "{notes:?}");
        }
    }
}
