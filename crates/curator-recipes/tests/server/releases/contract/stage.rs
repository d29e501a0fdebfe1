//! The environment of a property: a lock's path on a server, and what can be observed there.

use curator_recipes::client::CuratorClient;
use curator_test::TestingServer;
use tokio::task::JoinHandle;

use super::subjects::{Held, Kind, Lock};
use crate::support::{QuietServer, children, connect, nothing_left, path, soon, until};

pub(super) struct Stage {
    pub(super) kind: Kind,
    pub(super) path: String,
    pub(super) server: &'static TestingServer,
    /// Observes the lock, and holds it when other clients have to wait.
    pub(super) admin: CuratorClient,
    /// Set if no other test uses the server, so that all watches of the server belong to the lock.
    quiet: Option<QuietServer>,
}

impl Stage {
    /// A stage on the server that all tests share. Only data watches are counted: the server
    /// reports no child watches by path.
    pub(super) async fn shared(kind: Kind, name: &str) -> Self {
        let server = TestingServer::shared().await;
        Self::on(server, kind, name, None).await
    }

    /// A stage on a server that one test uses at a time. Child watches are counted too, but the
    /// server reports only their total.
    pub(super) async fn quiet(kind: Kind, name: &str) -> Self {
        let quiet = QuietServer::take().await;
        Self::on(quiet.server, kind, name, Some(quiet)).await
    }

    async fn on(
        server: &'static TestingServer,
        kind: Kind,
        name: &str,
        quiet: Option<QuietServer>,
    ) -> Self {
        let admin = connect(&server.connect_string()).await;
        Self {
            kind,
            path: path(name),
            server,
            admin,
            quiet,
        }
    }

    pub(super) async fn client(&self) -> CuratorClient {
        connect(&self.server.connect_string()).await
    }

    /// The client's lock on this path.
    pub(super) fn lock(&self, client: &CuratorClient) -> Lock {
        self.kind.lock(client, &self.path)
    }

    /// The admin's handle to a lock that, while held, excludes every other contender.
    pub(super) fn blocker(&self) -> Lock {
        self.kind.blocker().lock(&self.admin, &self.path)
    }

    /// Acquires the lock in a separate task.
    pub(super) fn acquiring(&self, client: &CuratorClient) -> JoinHandle<Held> {
        let lock = self.lock(client);
        tokio::spawn(async move { lock.acquire().await.unwrap() })
    }

    /// Waits for this many contenders, and for the watches of one waiter behind one holder.
    pub(super) async fn until_settled(&self, contenders: usize) {
        self.until_contenders(contenders).await;
        self.until_watches(self.kind.watches_of_a_waiter()).await;
    }

    /// All nodes of the lock, sorted.
    pub(super) async fn nodes(&self) -> Vec<String> {
        let mut nodes = Vec::new();
        for dir in self.kind.dirs(&self.path) {
            nodes.extend(
                children(&self.admin, &dir)
                    .await
                    .into_iter()
                    .map(|name| format!("{dir}/{name}")),
            );
        }
        nodes.sort();
        nodes
    }

    /// Waits until this many contenders hold the lock or wait for it.
    pub(super) async fn until_contenders(&self, count: usize) {
        until(async || {
            let mut contenders = 0;
            for dir in self.kind.counted_dirs(&self.path) {
                contenders += children(&self.admin, &dir).await.len();
            }
            contenders == count
        })
        .await;
    }

    /// Waits until the lock has this many watches; on the shared server, child watches do not
    /// count.
    pub(super) async fn until_watches(&self, count: u64) {
        until(async || self.count_watches().await == count).await;
    }

    async fn count_watches(&self) -> u64 {
        if self.quiet.is_some() {
            return self.server.total_watch_count().await.unwrap();
        }
        let watches = self.server.watches_by_path().await.unwrap();
        watches
            .iter()
            .filter(|(watched, _)| watched.starts_with(&self.path))
            .map(|(_, sessions)| sessions.len() as u64)
            .sum()
    }

    /// Checks that the client's janitor has no work left, no node or watch of the lock is left, and
    /// the lock is free.
    pub(super) async fn free(&self, client: &CuratorClient) {
        self.no_trace(client).await;
        soon(self.blocker().try_acquire())
            .await
            .unwrap()
            .expect("the lock is not free")
            .release()
            .await
            .unwrap();
        self.no_trace(&self.admin).await;
    }

    async fn no_trace(&self, client: &CuratorClient) {
        nothing_left(client, &self.kind.dirs(&self.path)).await;
        self.until_watches(0).await;
    }
}
