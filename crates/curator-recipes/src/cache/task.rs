//! The task of a cache: runs the cache until it is closed, and then removes its watch.

use std::sync::Arc;

use curator_client::source::watch;
use curator_client::{CuratorClient, Deadline, FailureLog, RecipeSupport as _, WatchingSession};
use tokio::sync::broadcast;

use super::CuratorCache;
use super::batches::{Batches, Wanted};
use super::builder::CuratorCacheBuilder;
use super::error::CacheError;
use super::live::{Command, LiveTree};
use super::publisher::Publisher;
use super::scope::Scope;
use super::snapshot::{CacheState, Snapshot};
use super::stale_count::StaleCount;
use super::tree::Tree;
use crate::engine::follow::Follower;
use crate::engine::log::Truncated;
use crate::engine::task::RecipeTask;

impl CuratorCache {
    pub(crate) fn started(options: CuratorCacheBuilder) -> Self {
        let scope = Arc::new(options.scope.clone());
        let (client, path) = (options.client.clone(), scope.root.clone());
        let (commands, commanded) = watch::channel(Command::default());
        let (caught_up, catches_up) = watch::channel(0);
        let (snapshots, snapshot) = watch::channel(Snapshot::empty(&scope));
        let (states, state) = watch::channel(CacheState::Loading);
        let (errors, error) = watch::channel(None);
        let (events, _) = broadcast::channel(options.event_capacity);
        let weak_events = events.downgrade();
        let stale_count = Arc::new(StaleCount::begin(options.meter.clone()));
        let publisher = Publisher {
            snapshots,
            states,
            events,
            errors,
            stale_count: Arc::clone(&stale_count),
        };
        let work = run(options, scope, Arc::new(publisher), commanded, caught_up);
        let commands = Arc::new(commands);
        let counted = Arc::clone(&stale_count);
        let channels = (
            Arc::clone(&commands),
            catches_up.clone(),
            snapshot.clone(),
            state.clone(),
            error.clone(),
            counted,
        );
        let task = RecipeTask::start(&client, path, channels, work);
        Self {
            commands,
            caught_up: catches_up,
            snapshots: snapshot,
            states: state,
            errors: error,
            events: weak_events,
            stale_count,
            task,
        }
    }
}

async fn run(
    options: CuratorCacheBuilder,
    scope: Arc<Scope>,
    publisher: Arc<Publisher>,
    mut commands: watch::Receiver<Command>,
    caught_up: watch::Sender<u64>,
) -> CacheError {
    let client = options.client.clone();
    let watching = match client.watching_client() {
        Ok(watching) => watching,
        Err(error) => {
            let error = CacheError::from(error);
            publisher.errors.send_replace(Some(error.clone()));
            return error;
        }
    };
    let live = LiveTree {
        connection: watching.connection_states(),
        watching,
        tree: Tree::new(&scope, options.with_data),
        publisher: Arc::clone(&publisher),
        commands: commands.clone(),
        caught_up,
        options,
        watch: None,
        session: None,
        batches: Batches::new(),
        scan: Wanted::new(),
        changed: Wanted::new(),
        has_overflowed: false,
        is_full: true,
        catching_up: None,
        resync_at: Deadline::NEVER,
        resync_after: 0,
        failures: FailureLog::default(),
    };
    let mut live = Follower::new(&client, live);
    let closed = async {
        if commands
            .wait_for(|command| command.is_closed)
            .await
            .is_err()
        {
            // The last handle was dropped, but there may be receivers or streams.
            std::future::pending::<()>().await;
        }
    };
    let (error, has_failed) = tokio::select! {
        biased;
        error = client.closing() => (error.into(), false),
        () = closed => (CacheError::Closed { path: scope.root.clone() }, false),
        () = publisher.unused() => (CacheError::Closed { path: scope.root.clone() }, false),
        error = until_failed(&mut live) => (error, true),
    };
    publisher.errors.send_replace(Some(error.clone()));
    // The session is known even while its watch is being set.
    let session = live.node.session.take();
    drop(live);
    // Reports the end of the cache to its users.
    drop(publisher);
    // Only now: a log subscriber may read the state and the error.
    let (client_name, path) = (client.name(), &scope.root);
    if has_failed {
        tracing::warn!(client = client_name, error = %Truncated(&error), "a cache has ended");
    } else {
        tracing::debug!(client = client_name, path = %Truncated(path), error = %Truncated(&error), "a cache ends");
    }
    if let Some(session) = session {
        remove_watch(&session, &client).await;
    }
    error
}

/// Keeps the cache up to date until an error ends it.
async fn until_failed(live: &mut Follower<LiveTree>) -> CacheError {
    loop {
        if let Some(error) = live.next_lasting().await {
            return error;
        }
    }
}

/// Waits until the watch of an ended cache is removed from the server.
async fn remove_watch(session: &WatchingSession, client: &CuratorClient) {
    tokio::select! {
        biased;
        _ = client.closing() => {}
        () = session.remove_dropped_watches(client.sleep_until(Deadline::after(client.close_timeout()))) => {}
    }
}
