//! The state that all requests and the job share.

use std::time::Duration;

use curator_recipes::client::CuratorClient;
use curator_recipes::fencing::FencedResource;
use curator_recipes::{CacheError, CuratorCache, Error, FencingToken, InterProcessMutex};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::orders::Orders;
use crate::reservations::Reservations;
use crate::settings::Settings;

const ORDERS: &str = "/curator-examples/service/orders";

pub(crate) struct Service {
    pub(crate) client: CuratorClient,
    pub(crate) orders: Orders,
    /// A live copy of the lock nodes of all orders, in all processes.
    pub(crate) locks: CuratorCache,
    pub(crate) reservations: Reservations,
    /// How long a request waits for the lock of its order.
    pub(crate) lock_timeout: Duration,
    /// The number of items, which the job has counted.
    pub(crate) count: FencedResource<usize>,
    /// The token of the job's lock, while it runs in this process.
    pub(crate) leading: watch::Sender<Option<FencingToken>>,
    /// Cancelled when the service is asked to stop.
    pub(crate) stopping: CancellationToken,
}

impl Service {
    pub(crate) fn new(client: CuratorClient, settings: &Settings) -> Result<Self, CacheError> {
        let locks = CuratorCache::builder(&client, ORDERS)?
            .max_depth(2)
            .without_data()
            .metrics_name("locks")
            .start()?;
        Ok(Self {
            client,
            orders: Orders::default(),
            locks,
            reservations: Reservations::new(settings.reserved_for),
            lock_timeout: settings.lock_timeout,
            count: FencedResource::new(0),
            leading: watch::Sender::new(None),
            stopping: CancellationToken::new(),
        })
    }

    /// The lock of an order. It is created for each request: only its path matters.
    pub(crate) fn lock(&self, key: &str) -> Result<InterProcessMutex, Error> {
        // `child` rejects a key with a slash, which would be the path of another node.
        let path = self.client.resolve(ORDERS)?.child(key)?;
        // The lock is not reentrant, because requests on one connection share a task, and the guard
        // of a reservation moves to another task.
        Ok(InterProcessMutex::non_reentrant(&self.client, path)?.with_metrics_name("orders"))
    }
}
