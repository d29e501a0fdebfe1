//! A recipe that fails in the background logs a repeated failure once, and the recovery once. The
//! unit tests of `FailureLog` test the rule itself.

use std::future::pending;
use std::io;
use std::time::{Duration, Instant};

use curator_recipes::client::{Acl, AuthId, CuratorClient, Error as ClientError, Permission};
use curator_recipes::{
    Config, ConfigError, ConfigStatus, Error, InterProcessMutex, LeaderLatch, LeaderObserver,
    LeaderSelector, LeaderState, PersistentNode, PersistentNodeError, PersistentNodeState,
};
use curator_test::{FaultProxy, OpCode};
use tracing::Level;

use crate::support::{Logs, behind_proxy, client as connected, path, requests_of, soon, until};

/// The number of attempts before a permission is granted. It is small, because the tests run in
/// real time, for both transports, and the pauses between attempts grow.
const ATTEMPTS: u64 = 6;

/// Runs a test whose tasks all run on this thread, and captures their logs.
fn logged(test: impl AsyncFnOnce(&Logs)) {
    let logs = Logs::at(Level::INFO);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    logs.capture_call(|| runtime.block_on(test(&logs)));
}

/// A directory in which the client behind the proxy lacks a permission.
struct Denied {
    proxy: FaultProxy,
    client: CuratorClient,
    admin: CuratorClient,
    path: String,
    since: Instant,
}

impl Denied {
    async fn with(path: String, permissions: Permission) -> Self {
        let (proxy, client) = behind_proxy().await;
        let admin = connected().await;
        let acl = [Acl::new(permissions | Permission::ADMIN, AuthId::anyone())];
        admin
            .create()
            .creating_parent_containers()
            .with_acl(acl)
            .for_path(&path, "1")
            .await
            .unwrap();
        Self {
            proxy,
            client,
            admin,
            path,
            since: Instant::now(),
        }
    }

    /// Waits until the client has sent [`ATTEMPTS`] more requests of this kind.
    async fn attempts(&self, op: OpCode) {
        let before = requests_of(&self.proxy, op);
        until(async || requests_of(&self.proxy, op) >= before + ATTEMPTS).await;
    }

    /// Checks that repeated failures are logged once, and the recovery once, after the permission
    /// is granted.
    async fn assert_logged_once(
        &self,
        logs: &Logs,
        op: OpCode,
        [failure, recovery]: [&str; 2],
        is_denied: impl Fn() -> bool,
        recovered: impl Future,
    ) {
        self.attempts(op).await;
        assert!(is_denied());
        assert_eq!(self.messages(logs), [failure]);
        self.grant().await;
        soon(recovered).await;
        until(async || self.messages(logs) == [failure, recovery]).await;
        assert!(!is_denied());
    }

    async fn grant(&self) {
        self.admin
            .set_acl(
                &self.path,
                [Acl::new(Permission::ALL, AuthId::anyone())],
                None,
            )
            .await
            .unwrap();
    }

    /// The messages about the path, without repetitions after each full minute.
    fn messages(&self, logs: &Logs) -> Vec<String> {
        let lines = logs.all();
        let mut messages: Vec<_> = lines
            .iter()
            .filter(|line| {
                line.fields
                    .get("path")
                    .is_some_and(|path| path.starts_with(&self.path))
            })
            .map(|line| line.message.clone())
            .collect();
        let all = messages.len();
        let minutes = self.since.elapsed().as_secs() / 60;
        messages.dedup();
        assert!((all - messages.len()) as u64 <= minutes, "{lines:#?}");
        messages
    }
}

fn is_denied(error: Option<&Error>) -> bool {
    matches!(error, Some(Error::Client(ClientError::NoAuth { .. })))
}

#[test]
fn a_latch_without_permission_logs_this_once_and_leads_when_it_is_granted() {
    logged(async |logs| {
        let denied = Denied::with(path("latch-denied"), Permission::READ).await;
        let latch = LeaderLatch::builder(&denied.client, &denied.path)
            .unwrap()
            .start();
        let lines = [
            "leader latch: cannot take part, and will try again",
            "leader latch: takes part again",
        ];
        let is_denied = || {
            is_denied(latch.last_error().as_ref()) && latch.state().get() == LeaderState::Unknown
        };
        denied
            .assert_logged_once(logs, OpCode::Create2, lines, is_denied, latch.leadership())
            .await;
        assert!(latch.last_error().is_none());
        latch.close().await.unwrap();
    });
}

#[test]
fn a_selector_without_permission_logs_this_once_and_takes_part_when_it_is_granted() {
    logged(async |logs| {
        let denied = Denied::with(path("selector-denied"), Permission::READ).await;
        let selector = LeaderSelector::builder(&denied.client, &denied.path)
            .unwrap()
            .build();
        let run = tokio::spawn(
            selector
                .clone()
                .run(|_| pending::<Result<(), io::Error>>(), pending::<()>()),
        );
        let lines = [
            "leader selector: cannot take part, and will try again",
            "leader selector: takes part again",
        ];
        let is_denied = || is_denied(selector.last_error().as_ref());
        let leads = until(async || selector.has_leadership());
        denied
            .assert_logged_once(logs, OpCode::Create2, lines, is_denied, leads)
            .await;
        run.abort();
    });
}

/// A selector takes part as soon as it is in the queue, long before it leads.
#[test]
fn a_selector_that_waits_in_the_queue_has_no_error() {
    logged(async |logs| {
        let denied = Denied::with(path("selector-queued"), Permission::ALL).await;
        let leader = InterProcessMutex::new(&denied.admin, &denied.path)
            .unwrap()
            .acquire()
            .await
            .unwrap();
        let no_create = [Acl::new(
            Permission::READ | Permission::DELETE | Permission::ADMIN,
            AuthId::anyone(),
        )];
        denied
            .admin
            .set_acl(&denied.path, no_create, None)
            .await
            .unwrap();
        let selector = LeaderSelector::builder(&denied.client, &denied.path)
            .unwrap()
            .build();
        let run = tokio::spawn(
            selector
                .clone()
                .run(|_| pending::<Result<(), io::Error>>(), pending::<()>()),
        );
        until(async || selector.last_error().is_some()).await;
        denied.grant().await;
        until(async || selector.last_error().is_none()).await;
        assert!(leader.is_valid() && !selector.has_leadership());
        let messages = denied.messages(logs);
        assert_eq!(
            messages.last().unwrap(),
            "leader selector: takes part again",
            "{messages:?}"
        );
        run.abort();
    });
}

#[test]
fn an_observer_without_permission_logs_this_once_and_reports_the_leader_when_it_is_granted() {
    logged(async |logs| {
        let denied = Denied::with(path("observer-denied"), Permission::CREATE).await;
        let observer = LeaderObserver::observe_latch(&denied.client, &denied.path).unwrap();
        let lines = [
            "leader observer: cannot read the leader, and will try again",
            "leader observer: reads the leader again",
        ];
        let is_denied = || is_denied(observer.last_error().as_ref());
        denied
            .assert_logged_once(
                logs,
                OpCode::GetChildren,
                lines,
                is_denied,
                observer.leader(),
            )
            .await;
    });
}

#[test]
fn a_config_without_permission_logs_this_once_and_is_current_when_it_is_granted() {
    logged(async |logs| {
        let denied = Denied::with(path("config-denied"), Permission::ALL).await;
        let decode = |data: &[u8]| std::str::from_utf8(data).map(str::to_owned);
        let config = Config::builder(&denied.client, &denied.path, decode)
            .unwrap()
            .open()
            .await
            .unwrap();
        let no_read = [Acl::new(
            Permission::CREATE | Permission::ADMIN,
            AuthId::anyone(),
        )];
        denied
            .admin
            .set_acl(&denied.path, no_read, None)
            .await
            .unwrap();
        // The next read, after the reconnect, detects the missing permission.
        denied.proxy.cut();
        let is_denied = || matches!(config.status().get(), ConfigStatus::Unreadable { .. });
        until(async || is_denied()).await;
        let error = Config::builder(&denied.client, &denied.path, decode)
            .unwrap()
            .open()
            .await
            .unwrap_err();
        assert!(
            matches!(error, ConfigError::Client(ClientError::NoAuth { .. }))
                && !error.is_retryable(),
            "{error}"
        );
        // The last value stays, and a repeated error is not reported again.
        let mut status = config.status();
        status.mark_unchanged();
        let lines = [
            "config: the node cannot be read, and the last value stays",
            "config: the value is current again",
        ];
        let is_still_denied =
            || is_denied() && !status.has_changed().unwrap() && *config.current() == "1";
        let current = until(async || config.status().get().is_current());
        denied
            .assert_logged_once(logs, OpCode::GetData, lines, is_still_denied, current)
            .await;
    });
}

#[test]
fn a_persistent_node_without_permission_logs_this_once_and_is_present_when_it_is_granted() {
    logged(async |logs| {
        let denied = Denied::with(path("persistent-denied"), Permission::READ).await;
        let node = PersistentNode::builder(&denied.client, format!("{}/node", denied.path))
            .unwrap()
            .start();
        // The recovery is logged as the creation.
        let lines = [
            "persistent node: the server refuses the node; trying again",
            "persistent node: created",
        ];
        let is_denied = || {
            let is_no_auth = |error: &_| {
                matches!(
                    error,
                    PersistentNodeError::Client(ClientError::NoAuth { .. })
                )
            };
            matches!(
                node.state().get(),
                PersistentNodeState::Refused {
                    error: ClientError::NoAuth { .. }
                }
            ) && node.last_error().as_ref().is_some_and(is_no_auth)
        };
        until(async || is_denied()).await;
        let error = soon(node.created_timeout(Duration::ZERO))
            .await
            .unwrap_err();
        let is_no_auth = |error: &_| {
            matches!(
                error,
                PersistentNodeError::Refused {
                    cause: ClientError::NoAuth { .. },
                    ..
                }
            )
        };
        assert!(is_no_auth(&error), "{error}");
        denied
            .assert_logged_once(logs, OpCode::Create2, lines, is_denied, node.created())
            .await;
        node.close().await.unwrap();
    });
}

#[test]
fn a_recipe_whose_task_panics_logs_this_once_without_the_message() {
    logged(async |logs| {
        let denied = Denied::with(path("config-panics"), Permission::ALL).await;
        let decode = |data: &[u8]| {
            if data == b"1" {
                Ok::<_, io::Error>(())
            } else {
                panic!("on purpose: {data:?}")
            }
        };
        let config = Config::builder(&denied.client, &denied.path, decode)
            .unwrap()
            .open()
            .await
            .unwrap();
        denied
            .admin
            .set_data(&denied.path, "secret", None)
            .await
            .unwrap();
        soon(config.ended()).await;
        let lines = logs.all();
        let panicked: Vec<_> = lines
            .iter()
            .filter(|line| line.level == Level::ERROR)
            .collect();
        assert_eq!(panicked.len(), 1, "{lines:#?}");
        assert_eq!(
            panicked[0].message,
            "the task of a recipe has panicked, and the recipe has ended"
        );
        assert_eq!(
            (&panicked[0].fields["path"], panicked[0].fields.len()),
            (&denied.path, 2),
            "{lines:#?}"
        );
    });
}
