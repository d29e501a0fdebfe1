//! `zklock doctor --certify` on servers where every recipe works.

use curator_recipes::client::CuratorClient;
use curator_test::{TestingServer, soon, until};
use rustix::process::Signal;

use crate::certified::{certified, certify};
use crate::support::{client, finished, path, signal};

async fn names_below(client: &CuratorClient, root: &str) -> Vec<String> {
    client.get_children(root).await.unwrap()
}

#[tokio::test]
async fn every_recipe_works_and_no_node_remains() {
    let server = TestingServer::shared().await;
    let others = client().await;
    let root = path("certify");
    others.create().for_path(&root, "").await.unwrap();
    let options = format!("--root {root} --session-timeout 9999s");
    let run = &mut certify(&server.connect_string(), &options);
    let (printed, certified) = certified(run).await;
    assert_eq!(
        (printed.code, printed.error.as_str()),
        (Some(0), ""),
        "{printed:?}"
    );
    assert!(
        printed.out.ends_with("\n\nnothing is wrong\n"),
        "{printed:?}"
    );
    assert!(
        printed
            .out
            .starts_with(&format!("{}, transport ", server.connect_string())),
        "{printed:?}"
    );
    assert_eq!(certified.recipes.len(), 23, "{certified:?}");
    assert!(certified.limited_recipes().is_empty(), "{certified:?}");
    for operation in ["resume", "sync", "multi", "multiRead", "recursive watches"] {
        assert_eq!(certified.verdict(operation), "works", "{operation}");
    }
    let session = certified.verdict("session");
    assert!(
        session.starts_with("works, but the timeout is ") && session.ends_with(", not 2h 46m 39s"),
        "{session}"
    );
    assert!(names_below(&others, &root).await.is_empty());
}

/// The nodes are removed before zklock ends by the signal.
#[tokio::test]
async fn a_signal_ends_the_run_and_no_node_remains() {
    let server = TestingServer::shared().await;
    let others = client().await;
    let root = path("certify-signal");
    others.create().for_path(&root, "").await.unwrap();
    let run = certify(&server.connect_string(), &format!("--root {root}"))
        .spawn()
        .unwrap();
    until(async || !names_below(&others, &root).await.is_empty()).await;
    signal(&run, Signal::INT);
    let printed = soon(finished(run)).await;
    assert_eq!(printed.code, Some(130), "{printed:?}");
    assert!(!printed.out.contains("RESULT"), "{printed:?}");
    assert!(names_below(&others, &root).await.is_empty());
}

#[tokio::test]
async fn a_missing_permission_is_an_error_that_names_it() {
    use curator_recipes::client::{Acl, AuthId, Permission};

    let server = TestingServer::shared().await;
    let others = client().await;
    let root = path("certify-denied");
    let read_only = Acl::new(Permission::READ, AuthId::anyone());
    let create = others.create().with_acl([read_only]);
    create.for_path(&root, "").await.unwrap();
    let run = certify(&server.connect_string(), &format!("--root {root}/none"))
        .spawn()
        .unwrap();
    let printed = soon(finished(run)).await;
    assert_eq!(printed.code, Some(123), "{printed:?}");
    assert!(
        printed
            .error
            .contains("give this client CREATE, or name another --root"),
        "{printed:?}"
    );
}
