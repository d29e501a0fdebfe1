//! Values and numbers that many processes change, by a read and a conditional write.

mod change;
mod numbers;
mod receipt;

use std::sync::Arc;
use std::time::Duration;

use curator_client::{
    CuratorClient, Error as ClientError, NodePath, RetryNTimes, RetryPolicy, ZPath, debug_line,
};
use derive_where::derive_where;
use tokio::sync::Mutex;

pub use self::numbers::{DistributedAtomicLong, IdGenerator};
use self::receipt::Receipt;
use crate::codec::ValueCodec;
use crate::error::ValueError;
use crate::lock::InterProcessMutex;
use crate::shared::SharedValue;

type Result<T> = std::result::Result<T, ValueError>;

/// The default number of retries after a conflict with another client, and the pause before each.
const RETRIES: u32 = 30;
const PAUSE: Duration = Duration::from_millis(5);

/// A value in one node, which many processes change: each change reads the value, computes the new
/// one, and writes it if no other client has written in between.
///
/// Curator's `DistributedAtomicValue`; both can share a path if the [codec](ValueCodec) encodes the
/// value in the same way. For a number, use [`DistributedAtomicLong`].
///
/// ```no_run
/// use curator_recipes::DistributedAtomicValue;
/// use curator_recipes::client::CuratorClient;
///
/// # async fn example() -> Result<(), curator_recipes::ValueError> {
/// let client = CuratorClient::builder("127.0.0.1:2181").connect().await?;
/// let text = (|text: &String| text.clone().into_bytes(), |data: &[u8]| String::from_utf8(data.to_vec()));
/// let owner = DistributedAtomicValue::with_codec(&client, "/shards/7/owner", text, String::new())?;
/// let changed = owner.update(|owner| owner.is_empty().then(|| "worker-3".to_owned())).await?;
/// println!("{:?} was followed by {:?}", changed.pre_value, changed.post_value);
/// # Ok(())
/// # }
/// ```
///
/// # Guarantees
///
/// - A change that returns `Ok` was applied exactly once, and the values before and after it are
///   the values of the node. No two changes replace the same version of the node.
/// - On an error, [`outcome`](ValueError::outcome) returns whether the change may have been
///   applied. After [`Contended`](ValueError::Contended), it was not.
/// - If the reply to a change is lost, the change returns
///   [`OutcomeUnknown`](ValueError::OutcomeUnknown), and is not retried. Curator retries it,
///   mistakes its first write for the write of another client, and adds twice.
/// - With a [receipt](Self::exactly_once), the outcome is determined after a lost reply, and the
///   change is applied exactly once, even across lost connections and sessions; if its future is
///   dropped, at most once.
///
/// # Caveats
///
/// ZooKeeper compares only versions, and they restart when a node is recreated. If other clients
/// delete the node between the read and the write of a change, recreate it, and write it until it
/// has the same version, the change replaces a value that it has not read.
///
/// [`get`](Self::get) can miss a recent write of another client: where that matters, call
/// [`CuratorClient::sync`] before it. A change is never based on an outdated read: the server
/// rejects the write that follows such a read, and the change is retried. Before a change is
/// declined, the value is read again after a `sync`.
///
/// Each change sends two requests, one after the other: a read and a write.
///
/// Clones share the receipt.
#[derive_where(Clone)]
pub struct DistributedAtomicValue<T> {
    /// Its seed is the value while the node does not exist.
    value: SharedValue<T>,
    /// How often a change is retried after a conflict with another client.
    contention: Arc<dyn RetryPolicy>,
    mutex: Option<InterProcessMutex>,
    receipt: Option<Arc<Mutex<Receipt>>>,
}

debug_line!(DistributedAtomicValue<T>, |atomic| path: atomic.value.inner.path, is_exactly_once: atomic.receipt.is_some());

/// A value before and after a change.
///
/// Curator's `AtomicValue`, without `succeeded`: a change that failed is an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct AtomicValue<T> {
    /// The value before the change.
    pub pre_value: T,
    /// The value after the change.
    pub post_value: T,
}

impl<T: Clone + Send + Sync + 'static> DistributedAtomicValue<T> {
    /// Creates a handle to the value at `path`. A node that does not exist has the value `absent`,
    /// and is created by the first change. Sends nothing.
    ///
    /// # Errors
    ///
    /// When the path is invalid.
    pub fn with_codec(
        client: &CuratorClient,
        path: impl NodePath,
        codec: impl ValueCodec<T>,
        absent: T,
    ) -> Result<Self> {
        let contention = RetryNTimes::new(RETRIES, PAUSE).map_err(ClientError::from)?;
        let value = SharedValue::with_codec(client, path, codec, absent)?;
        Ok(Self {
            value,
            contention: Arc::new(contention),
            mutex: None,
            receipt: None,
        })
    }

    /// Sets the policy for retries after a conflict with another client. Defaults to 30 retries,
    /// each after 5 ms. Failed requests are retried by the policy of the client, or of the
    /// [view](CuratorClient::using_retry_policy) that the handle was made with.
    ///
    /// The policy is called without an error, because a conflict is not a failed request.
    #[must_use]
    pub fn with_retry_policy(mut self, policy: impl RetryPolicy) -> Self {
        self.contention = Arc::new(policy);
        self
    }

    /// When the retry policy permits no more retries, a change acquires the mutex at `lock_path`,
    /// and the policy starts over. This helps if many clients change the value constantly. A change
    /// in its first attempts does not acquire the mutex, so conflicts are still possible.
    ///
    /// Curator's `PromotedToLock`; both can use the same path. The wait for the mutex has no
    /// deadline.
    ///
    /// # Errors
    ///
    /// When the path is invalid, or is the path of the value.
    pub fn promoted_to_lock(mut self, lock_path: impl NodePath) -> Result<Self> {
        let path = self.client().resolve(lock_path)?;
        if path == *self.path() {
            let reason = "the lock must be at another path than the value".to_owned();
            return Err(ClientError::InvalidRequest {
                operation: "promote to a lock",
                path,
                reason,
            }
            .into());
        }
        let mutex = InterProcessMutex::non_reentrant(self.client(), &path);
        self.mutex = Some(mutex.map_err(|cause| self.not_locked(cause))?);
        Ok(self)
    }

    /// Applies each change exactly once, even if its reply is lost: the transaction of the change
    /// also writes the node at `receipt_path`, which records the last applied change. Each handle
    /// needs a different path: one for each value in each process. Use the same path in each run,
    /// so that nodes do not accumulate. Missing parents are created as containers.
    ///
    /// Other clients, including Curator's, do not need the receipt. The changes of one handle and
    /// its clones run one after another. The first change reads the receipt, with two additional
    /// requests.
    ///
    /// [`force_set`](Self::force_set) and [`initialize`](Self::initialize) do not use the receipt.
    ///
    /// # Errors
    ///
    /// When the path is invalid, or is the path of the value.
    pub fn exactly_once(mut self, receipt_path: impl NodePath) -> Result<Self> {
        let path = self.client().resolve(receipt_path)?;
        if path == *self.path() {
            let reason = "the receipt must be another node than the value".to_owned();
            return Err(ClientError::InvalidRequest {
                operation: "keep a receipt at",
                path,
                reason,
            }
            .into());
        }
        self.receipt = Some(Arc::new(Mutex::new(Receipt::new(path))));
        Ok(self)
    }

    /// The node's full path on the server, including chroot and namespace.
    #[must_use]
    pub fn path(&self) -> &ZPath {
        self.value.path()
    }

    fn client(&self) -> &CuratorClient {
        &self.value.inner.client
    }

    /// Returns the value. One request.
    ///
    /// # Errors
    ///
    /// [`Invalid`](ValueError::Invalid), [`Unsuitable`](ValueError::Unsuitable), and errors of the
    /// client.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost when the future is dropped.
    pub async fn get(&self) -> Result<T> {
        match self.client().get_data(self.path()).await {
            Ok((data, stat)) => self
                .value
                .check(&stat)
                .and_then(|()| self.value.decode(&data)),
            Err(ClientError::NoNode { .. }) => Ok(self.value.seed().clone()),
            Err(error) => Err(error.into()),
        }
    }

    /// Creates the node with this value; returns `false` if it exists already.
    ///
    /// # Errors
    ///
    /// [`OutcomeUnknown`](ValueError::OutcomeUnknown) if the reply is lost, and errors of the
    /// client.
    ///
    /// # Cancel safety
    ///
    /// A dropped future may still create the node.
    pub async fn initialize(&self, value: T) -> Result<bool> {
        let create = self.client().create().creating_parent_containers();
        match create
            .for_path(self.path(), self.value.encode(&value))
            .await
        {
            Ok(_) => Ok(true),
            Err(ClientError::NodeExists { .. }) => Ok(false),
            Err(error) => Err(self.value.write_error(error)),
        }
    }

    /// Sets the value unconditionally, even if the node's data is invalid. Creates the node if it
    /// does not exist.
    ///
    /// Curator's `forceSet`.
    ///
    /// # Errors
    ///
    /// See [`SharedValue::set`](crate::SharedValue::set). A request whose reply is lost is retried,
    /// and can overwrite a value that another client has written since.
    ///
    /// # Cancel safety
    ///
    /// A dropped future may still set the value.
    pub async fn force_set(&self, value: T) -> Result<()> {
        self.value.set(value).await
    }

    /// Sets the value if the current value equals `expected`; returns `false` otherwise. While the
    /// node does not exist, the current value is the `absent` of [`with_codec`](Self::with_codec).
    ///
    /// # Errors
    ///
    /// See [`update`](Self::update), except `Declined`.
    ///
    /// # Cancel safety
    ///
    /// See `update`.
    pub async fn compare_and_set(&self, expected: &T, value: T) -> Result<bool>
    where
        T: PartialEq,
    {
        match self
            .update(|current| (current == expected).then(|| value.clone()))
            .await
        {
            Ok(_) => Ok(true),
            Err(ValueError::Declined { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Changes the value to the result of `change`, which is called for each attempt, and can
    /// decline by returning `None`.
    ///
    /// # Errors
    ///
    /// - [`Declined`](ValueError::Declined) when `change` has returned `None`.
    /// - [`Contended`](ValueError::Contended) when other clients caused conflicts until the retry
    ///   policy permitted no more retries.
    /// - [`OutcomeUnknown`](ValueError::OutcomeUnknown) when the reply was lost. With a
    ///   [receipt](Self::exactly_once): when the client's retry policy permitted no more retries
    ///   before the receipt could be read, or the client was closed.
    /// - [`ReceiptInUse`](ValueError::ReceiptInUse) when another handle uses the same receipt.
    /// - [`VersionExhausted`](ValueError::VersionExhausted) after 2^32 - 1 writes.
    /// - [`Invalid`](ValueError::Invalid), [`Unsuitable`](ValueError::Unsuitable),
    ///   [`Lock`](ValueError::Lock), and errors of the client.
    ///
    /// # Cancel safety
    ///
    /// A dropped future may still change the value, once. With a receipt, the next change of this
    /// handle first determines its outcome.
    pub async fn update(
        &self,
        change: impl Fn(&T) -> Option<T> + Send + Sync,
    ) -> Result<AtomicValue<T>> {
        self.try_update(|value| {
            change(value).ok_or_else(|| ValueError::Declined {
                path: self.path().clone(),
            })
        })
        .await
    }

    /// Like [`update`](Self::update), for a `change` that returns an error.
    async fn try_update(
        &self,
        change: impl Fn(&T) -> Result<T> + Send + Sync,
    ) -> Result<AtomicValue<T>> {
        Box::pin(self.change(&change)).await
    }
}
