//! Recipes that act in the background start without a connection, and end with their client and
//! with its runtime.

use curator_recipes::client::{CreateMode, CuratorClient, Error as ClientError};
use curator_recipes::{
    CacheState, Config, ConfigError, ConfigStatus, GroupMember, LeaderLatch, LeaderObserver,
    LeaderState, ObservedLeader, PersistentNode, PersistentNodeState, SharedCount,
};
use curator_test::TestingServer;
use futures_util::{FutureExt as _, StreamExt as _};
use tokio::runtime::Builder;

use crate::releases::cache::cache;
use crate::releases::config::{is_ended, is_invalid, number, until_status, until_value, write};
use crate::releases::leader_latch::{latch, until_leader};
use crate::releases::persistent_node::{configured, created, exists};
use crate::support::{
    LONG_SESSION, SHORT_SESSION, builder, client as connected, path, proxy, soon, until,
};

#[tokio::test]
async fn recipes_start_before_their_client_is_connected_and_end_with_it() {
    let proxy = proxy().await;
    let others = connected().await;
    let base = path("life");
    let path_of = |name: &str| format!("{base}/{name}");
    write(&others, &path_of("config"), "bad").await;
    proxy.refuse(true).unwrap();
    let client = builder(&proxy.connect_string(), LONG_SESSION)
        .start()
        .unwrap();
    let cache_of = |client: &CuratorClient| cache(client, &path_of("cache")).start().unwrap();
    let node_of = |client: &CuratorClient| {
        PersistentNode::builder(client, path_of("node"))
            .unwrap()
            .start()
    };
    let observer_of = |client: &CuratorClient| {
        LeaderObserver::observe_latch(client, path_of("observed")).unwrap()
    };
    let cache = cache_of(&client);
    let node = node_of(&client);
    let observer = observer_of(&client);
    let latch = latch(&client, &path_of("latch"));
    let lasting = configured(&client, &path_of("lasting"))
        .mode(CreateMode::Persistent)
        .start();
    let member = GroupMember::builder(&client, path_of("group"), "a")
        .unwrap()
        .start();
    let mut events = cache.events();
    let mut leaders = observer.changes();
    let mut counts = SharedCount::new(&client, path_of("count"), 0)
        .unwrap()
        .changes();
    let config = number(&client, &path_of("config")).start(7);
    assert!(client.try_session().is_err() && *config.current() == 7);
    assert!(matches!(config.status().get(), ConfigStatus::Stale { .. }));
    assert!(cache.ready().now_or_never().is_none() && node.created().now_or_never().is_none());
    assert!(
        observer.leader().now_or_never().is_none() && latch.leadership().now_or_never().is_none()
    );
    assert_eq!(
        (observer.state().get(), latch.state().get()),
        (ObservedLeader::Unknown, LeaderState::Unknown)
    );

    proxy.refuse(false).unwrap();
    soon(cache.ready()).await.unwrap();
    assert_eq!(soon(observer.leader()).await.unwrap(), None);
    // Bad data do not keep a service from starting.
    until_status(&config, is_invalid).await;
    assert_eq!(*config.current(), 7);
    write(&others, &path_of("config"), "1").await;
    until_value(&config, 1).await;
    soon(counts.next()).await.unwrap().unwrap();
    let leadership = until_leader(&latch).await;
    for node in [&node, &lasting, member.node()] {
        created(node).await;
    }

    let follower = LeaderLatch::builder(&client, path_of("latch"))
        .unwrap()
        .start();
    let opening = tokio::spawn(number(&client, &path_of("absent")).open());
    client.close().await.unwrap();
    while soon(events.next()).await.is_some() {}
    let mut last = None;
    while let Some(leader) = soon(leaders.next()).await {
        last = Some(leader);
    }
    assert_eq!(
        (cache.state().get(), last),
        (CacheState::Ended, Some(ObservedLeader::Unknown))
    );
    assert!(soon(counts.next()).await.is_none() && !leadership.is_valid());
    until_status(&config, is_ended).await;
    assert!(soon(config.ended()).await.is_closed() && *config.current() == 1);
    assert!(soon(opening).await.unwrap().unwrap_err().is_closed());
    assert!(
        soon(number(&client, &path_of("config")).open())
            .await
            .unwrap_err()
            .is_closed()
    );
    for error in [
        soon(cache.ready()).await.unwrap_err(),
        soon(member.members().caught_up()).await.unwrap_err(),
    ] {
        assert!(error.is_closed(), "{error}");
    }
    for node in [&node, &lasting, member.node()] {
        assert!(soon(node.created()).await.unwrap_err().is_closed());
        assert!(matches!(node.state().get(), PersistentNodeState::Closed));
    }
    assert!(
        soon(node_of(&client).created())
            .await
            .unwrap_err()
            .is_closed()
    );
    for latch in [&latch, &follower] {
        assert!(soon(latch.leadership()).await.unwrap_err().is_closed());
        soon(latch.close()).await.unwrap();
        assert_eq!(latch.state().get(), LeaderState::Unknown);
        // The latch does not try again.
        assert!(latch.last_error().is_none(), "{:?}", latch.last_error());
    }
    for observer in [observer, observer_of(&client)] {
        assert!(soon(observer.leader()).await.unwrap_err().is_closed());
    }
    assert!(
        soon(cache_of(&client).ready())
            .await
            .unwrap_err()
            .is_closed()
    );
    cache.close().await.unwrap();
    soon(node.close()).await.unwrap();
    soon(member.close()).await.unwrap();
    assert!(soon(lasting.close()).await.unwrap_err().is_closed());
    until(async || proxy.connections() == 0).await;
    assert!(!exists(&others, &path_of("node")).await && exists(&others, &path_of("lasting")).await);
}

#[test]
fn a_latch_and_a_config_end_with_their_runtime() {
    let runtime = || {
        Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap()
    };
    let dying = runtime();
    let steady = runtime();
    let path = path("life-runtime");
    let (client, latch, leadership, config): (_, _, _, Config<u32>) = dying.block_on(async {
        let server = TestingServer::shared().await;
        let client = builder(&server.connect_string(), SHORT_SESSION)
            .connect()
            .await
            .unwrap();
        write(&client, &format!("{path}/config"), "1").await;
        let latch = latch(&client, &format!("{path}/latch"));
        let leadership = until_leader(&latch).await;
        let config = number(&client, &format!("{path}/config"))
            .open()
            .await
            .unwrap();
        (client, latch, leadership, config)
    });
    drop(dying);
    steady.block_on(async {
        for error in [
            soon(latch.leadership()).await.unwrap_err(),
            soon(latch.close()).await.unwrap_err(),
        ] {
            assert!(
                matches!(
                    error,
                    curator_recipes::Error::Client(ClientError::ClientEnded { .. })
                ),
                "{error}"
            );
        }
        assert!(!latch.state().get().is_leader());
        soon(leadership.lost()).await;
        let opened = soon(number(&client, &format!("{path}/config")).open())
            .await
            .unwrap_err();
        for error in [soon(config.ended()).await, opened] {
            assert!(
                matches!(error, ConfigError::Client(ClientError::ClientEnded { .. })),
                "{error}"
            );
        }
        assert!(matches!(config.status().get(), ConfigStatus::Ended) && *config.current() == 1);
    });
}
