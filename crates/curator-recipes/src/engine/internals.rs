//! The engine of every lock: its queues, its nodes, and the log of an acquire.

use std::sync::Arc;

use curator_client::source::watch;
use curator_client::{CuratorClient, ZPath, source};
use curator_protocol::{LockInternalsDriver, Uuid};
use tracing::Instrument as _;

use super::line::Line;
use super::log::{AcquireLog, Subject};
use super::meter::Meter;
use crate::error::{Error, Result};
use crate::owner::OwnerId;
use crate::wait::Wait;

/// The engine of every lock: creates one node in each of its queues, and waits until these nodes
/// own the lock.
///
/// After Curator's class of the same name. A `Contest` decides what to do, and a `Runner` sends its
/// requests.
#[derive(Debug, Clone)]
pub(crate) struct LockInternals {
    pub(super) client: CuratorClient,
    /// The directory of each queue. Never empty.
    pub(super) dirs: Arc<[ZPath]>,
    /// The paths of the lock, for messages: `dirs`, unless the queue is in a subdirectory of the
    /// lock.
    pub(super) paths: Arc<[ZPath]>,
    kind: &'static str,
    meter: Meter,
    pub(super) driver: Arc<dyn LockInternalsDriver>,
    /// The data of the lock's nodes, if it is not the client's default.
    data: Option<Arc<[u8]>>,
    /// Where contenders wait before they enter the queues; `None` if they enter immediately.
    pub(super) line: Option<Arc<Line>>,
    /// Receives whether the current acquire waits in the queue. For a lock with one acquire at a
    /// time.
    queued: Option<Arc<watch::Sender<bool>>>,
}

impl LockInternals {
    /// Makes the engine of a lock with the queue in this directory.
    pub(crate) fn new(
        client: &CuratorClient,
        kind: &'static str,
        dir: ZPath,
        driver: Arc<dyn LockInternalsDriver>,
    ) -> Result<Self> {
        Self::with_dirs(client, kind, [dir].into(), driver)
    }

    /// Makes the engine of a lock with the queues in these directories, at least one.
    pub(crate) fn with_dirs(
        client: &CuratorClient,
        kind: &'static str,
        dirs: Arc<[ZPath]>,
        driver: Arc<dyn LockInternalsDriver>,
    ) -> Result<Self> {
        let line = line(client, &dirs, &*driver)?;
        let paths = Arc::clone(&dirs);
        let meter = Meter::new(kind);
        Ok(Self {
            client: client.clone(),
            dirs,
            paths,
            kind,
            meter,
            driver,
            data: None,
            line: Some(line),
            queued: None,
        })
    }

    /// Sets the lock's path, for messages, if its queue is in a subdirectory of `path`.
    pub(crate) fn with_lock_path(mut self, path: &ZPath) -> Self {
        self.paths = [path.clone()].into();
        self
    }

    /// Shares the line of `other`, for several kinds of nodes in the same queue.
    pub(crate) fn in_line_with(mut self, other: &Self) -> Self {
        self.line.clone_from(&other.line);
        self
    }

    /// Lets all contenders enter the queue immediately, so that each of them has a node.
    pub(crate) fn without_line(mut self) -> Self {
        self.line = None;
        self
    }

    /// Reports to `queued` when an acquire starts to wait in the queue, and when it stops.
    pub(crate) fn reporting(mut self, queued: Arc<watch::Sender<bool>>) -> Self {
        self.queued = Some(queued);
        self
    }

    /// Records whether an acquire waits in the queue.
    pub(super) fn note_queued(&self, is_queued: bool) {
        if let Some(queued) = &self.queued {
            queued.send_if_modified(|known| std::mem::replace(known, is_queued) != is_queued);
        }
    }

    pub(crate) fn with_data(mut self, data: Arc<[u8]>) -> Self {
        self.data = Some(data);
        self
    }

    /// Labels the metrics with this name.
    #[cfg(feature = "metrics")]
    pub(crate) fn with_metrics_name(mut self, name: Arc<str>) -> Self {
        self.meter = self.meter.named(name);
        self
    }

    pub(crate) fn meter(&self) -> &Meter {
        &self.meter
    }

    /// Uses this driver for the node names.
    pub(crate) fn with_driver(self, driver: Arc<dyn LockInternalsDriver>) -> Result<Self> {
        Ok(Self {
            line: Some(line(&self.client, &self.dirs, &*driver)?),
            driver,
            ..self
        })
    }

    pub(crate) fn client(&self) -> &CuratorClient {
        &self.client
    }

    pub(crate) fn dirs(&self) -> &[ZPath] {
        &self.dirs
    }

    /// The first directory, which represents all of them in messages.
    pub(crate) fn dir(&self) -> &ZPath {
        &self.dirs[0]
    }

    /// Starts the log of an acquire of this lock.
    pub(crate) fn start_log<'a>(&'a self, owner: &'a OwnerId, wait: Wait) -> AcquireLog<'a> {
        let subject = Subject {
            client: &self.client,
            kind: self.kind,
            paths: &self.paths,
            meter: &self.meter,
        };
        AcquireLog::start(subject, owner, wait)
    }

    /// Runs the `work` of one acquire in the span of its log, until the deadline or until the
    /// client closes.
    ///
    /// The inner futures are boxed, so that the user's future that contains this one stays small.
    pub(crate) async fn logged<T>(
        &self,
        owner: &OwnerId,
        wait: Wait,
        work: impl AsyncFnOnce(&mut AcquireLog<'_>) -> Result<Option<T>>,
    ) -> Result<Option<T>> {
        Box::pin(self.log_and_bound(owner, wait, work)).await
    }

    pub(super) async fn log_and_bound<T>(
        &self,
        owner: &OwnerId,
        wait: Wait,
        work: impl AsyncFnOnce(&mut AcquireLog<'_>) -> Result<Option<T>>,
    ) -> Result<Option<T>> {
        let mut log = self.start_log(owner, wait);
        let span = log.span.clone();
        // Boxed in one expression: an unboxed variable would take up space in this future.
        let logged = Box::pin(
            async {
                let acquired = work(&mut log).await;
                log.ended(acquired.as_ref().map(Option::is_some));
                acquired
            }
            .instrument(span),
        );
        wait.bound(&self.client, logged).await
    }

    pub(crate) fn driver(&self) -> &dyn LockInternalsDriver {
        &*self.driver
    }

    /// The data for a new node. Not cached: the client may not know its address before it has a
    /// session.
    pub(crate) fn data(&self) -> &Arc<[u8]> {
        self.data
            .as_ref()
            .unwrap_or_else(|| self.client.default_lock_data())
    }

    pub(crate) fn protocol_error(&self, cause: impl ToString) -> Error {
        Error::Protocol {
            dir: self.dir().clone(),
            cause: cause.to_string(),
        }
    }
}

/// The line for these queues, if the driver's node names are valid in them.
fn line(
    client: &CuratorClient,
    dirs: &Arc<[ZPath]>,
    driver: &dyn LockInternalsDriver,
) -> Result<Arc<Line>> {
    for dir in &**dirs {
        check_prefix(dir, driver)?;
    }
    // The nil id makes the key the same for all contenders.
    Ok(Line::get_or_create(
        client,
        Arc::clone(dirs),
        driver.node_prefix(&Uuid::nil()),
    ))
}

/// Rejects invalid names when the lock is made, not at the first create.
fn check_prefix(dir: &ZPath, driver: &dyn LockInternalsDriver) -> Result<()> {
    let id = source::new_uuid();
    let prefix = driver.node_prefix(&id);
    let invalid = |expected| Error::InvalidDriver {
        prefix: prefix.clone(),
        expected,
    };
    if prefix.is_empty() || prefix.contains('/') {
        return Err(invalid("a name that is not empty and has no '/'"));
    }
    dir.join(&prefix)
        .map_err(|_| invalid("a name that ZooKeeper accepts"))?;
    if !prefix.contains(&id.to_string()) {
        return Err(invalid("a name with the contender's id in it"));
    }
    if driver.sequence(&format!("{prefix}0000000007")) != Some(7) {
        return Err(invalid("a name that the driver's `sequence` can parse"));
    }
    Ok(())
}
