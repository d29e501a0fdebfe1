//! What recipes log about their failures in the background: the same one once in many attempts, and its recovery once.
//! The rule itself is tested beside `FailureLog`.

use std::future::{pending, ready};
use std::io;
use std::time::Instant;

use curator_recipes::client::{Acl, AuthId, CreateMode, CuratorClient, Error as ClientError, Permission};
use curator_recipes::{
    Config, ConfigStatus, Error, InterProcessMutex, LeaderLatch, LeaderObserver, LeaderSelector, LeaderState,
    PersistentNode, PersistentNodeState,
};
use curator_test::{FaultProxy, OpCode};
use tokio::sync::mpsc;
use tracing::Level;

use crate::support::{Logs, behind_proxy, client as connected, path, requests_of, soon, until};

/// The attempts before a permission is granted. Few, because the pauses between them grow.
const ATTEMPTS: u64 = 6;

/// Runs a test whose tasks all run on this thread, and captures their logs.
fn logged(test: impl AsyncFnOnce(&Logs)) {
    let logs = Logs::at(Level::INFO);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    logs.capture_call(|| runtime.block_on(test(&logs)));
}

/// A directory in which the client behind the proxy misses a permission.
struct Denied {
    proxy: FaultProxy,
    client: CuratorClient,
    admin: CuratorClient,
    path: String,
    since: Instant,
}

impl Denied {
    async fn with(path: String, permissions: Permission) -> Self {
        let ((proxy, client), admin) = (behind_proxy().await, connected().await);
        let acl = [Acl::new(permissions | Permission::ADMIN, AuthId::anyone())];
        admin.create().creating_parent_containers().with_acl(acl).for_path(&path, "1").await.unwrap();
        Self { proxy, client, admin, path, since: Instant::now() }
    }

    /// Waits until the client has sent this many more requests.
    async fn attempts(&self, op: OpCode) {
        let before = requests_of(&self.proxy, op);
        until(async || requests_of(&self.proxy, op) >= before + ATTEMPTS).await;
    }

    async fn grant(&self) {
        self.admin.set_acl(&self.path, [Acl::new(Permission::ALL, AuthId::anyone())], None).await.unwrap();
    }

    /// The messages about the path, without repetitions after each full minute.
    fn messages(&self, logs: &Logs) -> Vec<String> {
        let of_path = |field| {
            move |line: &&crate::support::Line| line.fields.get(field).is_some_and(|of| of.starts_with(&self.path))
        };
        let lines = logs.all();
        let mut messages: Vec<_> = lines.iter().filter(of_path("path")).map(|line| line.message.clone()).collect();
        let (all, minutes) = (messages.len(), self.since.elapsed().as_secs() / 60);
        messages.dedup();
        assert!((all - messages.len()) as u64 <= minutes, "{lines:#?}");
        messages
    }
}

fn is_denied(error: Option<&Error>) -> bool {
    matches!(error, Some(Error::Client(ClientError::NoAuth { .. })))
}

#[test]
fn a_latch_that_may_not_create_its_node_says_so_once_and_leads_once_it_may() {
    logged(async |logs| {
        let denied = Denied::with(path("latch-denied"), Permission::READ).await;
        let latch = LeaderLatch::builder(&denied.client, &denied.path).unwrap().start();
        denied.attempts(OpCode::Create2).await;
        assert!(is_denied(latch.last_error().as_ref()), "{:?}", latch.last_error());
        assert_eq!(latch.state().get(), LeaderState::Unknown);
        let cannot = "leader latch: cannot take part, and will try again";
        assert_eq!(denied.messages(logs), [cannot]);
        denied.grant().await;
        soon(latch.leadership()).await.unwrap();
        assert!(latch.last_error().is_none());
        assert_eq!(denied.messages(logs), [cannot, "leader latch: takes part again"]);
        latch.close().await.unwrap();
    });
}

#[test]
fn a_selector_that_may_not_create_its_node_says_so_once_and_takes_part_once_it_may() {
    logged(async |logs| {
        let denied = Denied::with(path("selector-denied"), Permission::READ).await;
        let selector = LeaderSelector::builder(&denied.client, &denied.path).unwrap().build();
        let run = tokio::spawn(selector.clone().run(|_| pending::<Result<(), io::Error>>(), pending::<()>()));
        denied.attempts(OpCode::Create2).await;
        assert!(is_denied(selector.last_error().as_ref()), "{:?}", selector.last_error());
        let cannot = "leader selector: cannot take part, and will try again";
        assert_eq!(denied.messages(logs), [cannot]);
        denied.grant().await;
        until(async || selector.has_leadership()).await;
        assert!(selector.last_error().is_none());
        assert_eq!(denied.messages(logs), [cannot, "leader selector: takes part again"]);
        run.abort();
    });
}

/// It takes part as soon as it is in the queue, long before it leads.
#[test]
fn a_selector_that_waits_in_the_queue_has_no_error() {
    logged(async |logs| {
        let denied = Denied::with(path("selector-queued"), Permission::ALL).await;
        let leader = InterProcessMutex::new(&denied.admin, &denied.path).unwrap().acquire().await.unwrap();
        let no_create = [Acl::new(Permission::READ | Permission::DELETE | Permission::ADMIN, AuthId::anyone())];
        denied.admin.set_acl(&denied.path, no_create, None).await.unwrap();
        let selector = LeaderSelector::builder(&denied.client, &denied.path).unwrap().build();
        let run = tokio::spawn(selector.clone().run(|_| pending::<Result<(), io::Error>>(), pending::<()>()));
        until(async || selector.last_error().is_some()).await;
        denied.grant().await;
        until(async || selector.last_error().is_none()).await;
        assert!(leader.is_valid() && !selector.has_leadership());
        let messages = denied.messages(logs);
        assert_eq!(messages.last().unwrap(), "leader selector: takes part again", "{messages:?}");
        run.abort();
    });
}

#[test]
fn a_job_that_fails_in_each_term_is_logged_once_and_its_success_once() {
    logged(async |logs| {
        let denied = Denied::with(path("selector-job"), Permission::ALL).await;
        let selector = LeaderSelector::builder(&denied.client, &denied.path).unwrap().build();
        let (ended, mut ends) = mpsc::unbounded_channel();
        let mut terms = 0;
        let job = move |_| {
            terms += 1;
            ended.send(terms).unwrap();
            ready(if terms <= 4 { Err(io::Error::other(format!("cannot work: {terms}"))) } else { Ok(()) })
        };
        let run = tokio::spawn(selector.clone().run(job, pending::<()>()));
        while soon(ends.recv()).await.unwrap() < 6 {}
        assert_eq!(
            denied.messages(logs),
            ["leader selector: the job failed", "leader selector: the job succeeds again"]
        );
        run.abort();
    });
}

#[test]
fn an_observer_that_may_not_read_says_so_once_and_reports_the_leader_once_it_may() {
    logged(async |logs| {
        let denied = Denied::with(path("observer-denied"), Permission::CREATE).await;
        let observer = LeaderObserver::observe_latch(&denied.client, &denied.path).unwrap();
        denied.attempts(OpCode::GetChildren).await;
        let cannot = "leader observer: cannot read the leader, and will try again";
        assert_eq!(denied.messages(logs), [cannot]);
        assert!(is_denied(observer.last_error().as_ref()), "{:?}", observer.last_error());
        denied.grant().await;
        assert_eq!(soon(observer.leader()).await.unwrap(), None);
        assert_eq!(denied.messages(logs), [cannot, "leader observer: reads the leader again"]);
    });
}

#[test]
fn a_config_that_may_not_read_says_so_once_and_is_current_once_it_may() {
    logged(async |logs| {
        let denied = Denied::with(path("config-denied"), Permission::ALL).await;
        let decode = |data: &[u8]| std::str::from_utf8(data).map(str::to_owned);
        let config = Config::builder(&denied.client, &denied.path, decode).unwrap().open().await.unwrap();
        let no_read = [Acl::new(Permission::CREATE | Permission::ADMIN, AuthId::anyone())];
        denied.admin.set_acl(&denied.path, no_read, None).await.unwrap();
        // Detected by the next read.
        denied.proxy.cut();
        soon(config.status().wait_for(|status| matches!(status, ConfigStatus::Unreadable { .. }))).await.unwrap();
        denied.attempts(OpCode::GetData).await;
        let cannot = "config: the node cannot be read, and the last value stays";
        assert_eq!(denied.messages(logs), [cannot]);
        denied.grant().await;
        soon(config.status().wait_for(ConfigStatus::is_current)).await.unwrap();
        until(async || denied.messages(logs) == [cannot, "config: the value is current again"]).await;
    });
}

#[test]
fn a_persistent_node_that_is_refused_says_so_once_and_is_present_once_it_may_be_created() {
    logged(async |logs| {
        let denied = Denied::with(path("persistent-denied"), Permission::READ).await;
        let path = format!("{}/node", denied.path);
        let node = PersistentNode::builder(&denied.client, &path).unwrap().start();
        denied.attempts(OpCode::Create2).await;
        assert!(matches!(node.state().get(), PersistentNodeState::Refused { .. }), "{node:?}");
        let refused = "persistent node: the server refuses the node; trying again";
        assert_eq!(denied.messages(logs), [refused]);
        denied.grant().await;
        soon(node.created()).await.unwrap();
        // The end of the refusals is the creation.
        until(async || denied.messages(logs) == [refused, "persistent node: created"]).await;
        node.close().await.unwrap();
    });
}

/// The data change only now and then, so no later failure would be logged instead.
#[test]
fn a_config_whose_data_become_invalid_again_says_so_again() {
    logged(async |logs| {
        let denied = Denied::with(path("config-invalid"), Permission::ALL).await;
        let decode = |data: &[u8]| String::from_utf8_lossy(data).parse::<u32>();
        let config = Config::builder(&denied.client, &denied.path, decode).unwrap().open().await.unwrap();
        let (invalid, current) =
            ("config: the data are invalid, and the last value stays", "config: the value is current again");
        for (data, expected) in [
            ("bad", &[invalid][..]),
            ("0", &[invalid, current]),
            ("bad", &[invalid, current, invalid]),
            ("2", &[invalid, current, invalid, current]),
            ("bad", &[invalid, current, invalid, current, invalid]),
        ] {
            denied.admin.set_data(&denied.path, data, None).await.unwrap();
            until(async || denied.messages(logs) == expected).await;
            assert_eq!(config.status().get().is_current(), data != "bad");
        }
    });
}

#[test]
fn a_persistent_node_names_each_other_owner() {
    logged(async |logs| {
        let denied = Denied::with(path("persistent-foreign"), Permission::ALL).await;
        let (path, other) = (format!("{}/node", denied.path), connected().await);
        denied.admin.create().with_mode(CreateMode::Ephemeral).for_path(&path, "").await.unwrap();
        let node = PersistentNode::builder(&denied.client, &path).unwrap().start();
        let owned_by = |client: &CuratorClient| {
            let session = client.try_session().unwrap().id();
            move |state: &PersistentNodeState| matches!(state, PersistentNodeState::Foreign { owner, .. } if *owner == session)
        };
        soon(node.state().wait_for(owned_by(&denied.admin))).await.unwrap();
        let swap = other.transaction().delete(&path, None).unwrap();
        swap.create(&path, "", CreateMode::Ephemeral).unwrap().commit().await.unwrap();
        soon(node.state().wait_for(owned_by(&other))).await.unwrap();
        let owners = || -> Vec<_> {
            let of_owner = |line: crate::support::Line| line.fields.get("owner").cloned();
            logs.all().into_iter().filter_map(of_owner).collect()
        };
        let expected =
            [&denied.admin, &other].map(|client| format!("session {:#x}", client.try_session().unwrap().id()));
        until(async || owners() == expected).await;
    });
}

#[test]
fn a_recipe_whose_task_panics_says_so_once_without_the_message() {
    logged(async |logs| {
        let denied = Denied::with(path("config-panics"), Permission::ALL).await;
        let decode = |data: &[u8]| if data == b"1" { Ok::<_, io::Error>(()) } else { panic!("on purpose: {data:?}") };
        let config = Config::builder(&denied.client, &denied.path, decode).unwrap().open().await.unwrap();
        denied.admin.set_data(&denied.path, "secret", None).await.unwrap();
        soon(config.ended()).await;
        let lines = logs.all();
        let panicked: Vec<_> = lines.iter().filter(|line| line.level == Level::ERROR).collect();
        assert_eq!(panicked.len(), 1, "{lines:#?}");
        assert_eq!(panicked[0].message, "the task of a recipe has panicked, and the recipe has ended");
        assert_eq!((&panicked[0].fields["path"], panicked[0].fields.len()), (&denied.path, 2), "{lines:#?}");
    });
}

/// On a runtime with one thread, a borrowed state would block the task that `resign` waits for, for good.
#[test]
fn a_match_on_a_state_may_await_the_recipe_in_its_arms() {
    logged(async |_| {
        let (client, path) = (connected().await, path("latch-match"));
        let latch = LeaderLatch::builder(&client, &path).unwrap().start();
        let first = soon(latch.leadership()).await.unwrap().fencing_token();
        match latch.state().get() {
            LeaderState::Leader { token } => {
                assert_eq!(token, first);
                soon(latch.resign()).await.unwrap();
            }
            other => panic!("{other:?}"),
        }
        assert!(soon(latch.leadership()).await.unwrap().fencing_token() > first);
        soon(latch.close()).await.unwrap();
    });
}
