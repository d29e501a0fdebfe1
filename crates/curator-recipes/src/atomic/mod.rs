//! Values and numbers that many processes change, by a read and a conditional write.

mod error;
mod ids;
mod long;
mod node;
mod receipt;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use curator_client::{
    CuratorClient, Error as ClientError, NodePath, Outcome, RecipeSupport as _, RetryNTimes, RetryPolicy, ZPath,
};

pub use self::error::AtomicValueError;
pub use self::ids::IdGenerator;
pub use self::long::DistributedAtomicLong;
use self::node::{AtomicNode, Changed};
use self::receipt::Receipt;
use crate::codec::{CodecError, ValueCodec};
use crate::lock::InterProcessMutex;

type Result<T> = std::result::Result<T, AtomicValueError>;

/// The default number of retries after a conflict with another client, and the pause before each.
const RETRIES: u32 = 30;
const PAUSE: Duration = Duration::from_millis(5);

/// A value in one node, which many processes change: each change reads the value, computes the new one, and writes it
/// if no other client has written in between.
///
/// Curator's `DistributedAtomicValue`; both can share a path if the [codec](ValueCodec) encodes the value in the same
/// way. For a number, use [`DistributedAtomicLong`].
///
/// ```no_run
/// use curator_recipes::DistributedAtomicValue;
/// use curator_recipes::client::CuratorClient;
///
/// # async fn example() -> Result<(), curator_recipes::AtomicValueError> {
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
/// - A change that returns `Ok` was applied exactly once, and the values before and after it are those of the node. No
///   two changes replace the same state of the node.
/// - On an error, [`outcome`](AtomicValueError::outcome) returns whether the change may have been applied. After
///   [`Contended`](AtomicValueError::Contended), it was not.
/// - If the reply to a change is lost, the change returns [`OutcomeUnknown`](AtomicValueError::OutcomeUnknown), and is
///   not retried. Curator retries it, mistakes its first write for that of another client, and adds twice.
/// - With a [receipt](Self::exactly_once), the outcome is determined after a lost reply, and the change is applied
///   exactly once: through lost connections and sessions. If its future is dropped, at most once.
///
/// # Caveats
///
/// ZooKeeper compares versions, which restart if the node is created again: if the node is deleted between the read and
/// the write of a change, and created again with as many writes, the change replaces a value that it has not read.
///
/// [`get`](Self::get) can miss a recent write of another client: where that matters, call [`CuratorClient::sync`]
/// before it. A change is never based on an outdated read: its write is rejected, and retried; and before a change is
/// declined, the value is read again after a `sync`.
///
/// Each change is two requests, one after the other: a read and a write.
///
/// Clones share the receipt.
pub struct DistributedAtomicValue<T> {
    node: AtomicNode,
    codec: Arc<dyn ValueCodec<T>>,
    /// The value of a node that does not exist.
    absent: Arc<T>,
}

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

impl<T: Send + Sync + 'static> DistributedAtomicValue<T> {
    /// Creates a handle to the value at `path`. A node that does not exist has the value `absent`, and is created by
    /// the first change. Sends nothing.
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
        let (path, contention) = (client.resolve(path)?, Arc::new(contention));
        let node = AtomicNode { client: client.clone(), path, contention, mutex: None, receipt: None };
        Ok(Self { node, codec: Arc::new(codec), absent: Arc::new(absent) })
    }

    /// Sets the policy for retries after a conflict with another client. Defaults to 30 retries, each after 5 ms.
    /// Connection failures are retried by the client's policy.
    #[must_use]
    pub fn with_retry_policy(mut self, policy: impl RetryPolicy) -> Self {
        self.node.contention = Arc::new(policy);
        self
    }

    /// When the retry policy gives up, the change waits for a mutex at `lock_path`, and then retries as often again.
    /// This helps if many clients change the value all the time; clients in their first attempts do not acquire the
    /// mutex, and can still cause conflicts.
    ///
    /// Curator's `PromotedToLock`; both can use the same path. `lock_path` must not be the path of the value. The wait
    /// for the mutex has no deadline.
    ///
    /// # Errors
    ///
    /// When the path is invalid.
    pub fn promoted_to_lock(mut self, lock_path: impl NodePath) -> Result<Self> {
        let lock = |cause| AtomicValueError::Lock { path: self.node.path.clone(), cause: Box::new(cause) };
        self.node.mutex = Some(InterProcessMutex::non_reentrant(&self.node.client, lock_path).map_err(lock)?);
        Ok(self)
    }

    /// Applies each change exactly once, even if its reply is lost: the transaction of the change also writes the node
    /// at `receipt_path`, which records the last applied change. Each handle needs a different path: one for each value
    /// in each process. Use the same path in each run, so that nodes do not accumulate. Missing parents are created as
    /// containers.
    ///
    /// Other clients, including Curator's, do not need the receipt. The changes of one handle and its clones run one
    /// after another. The first change reads the receipt, with two additional requests.
    ///
    /// [`force_set`](Self::force_set) and [`initialize`](Self::initialize) do not use it.
    ///
    /// # Errors
    ///
    /// When the path is invalid, or that of the value.
    pub fn exactly_once(mut self, receipt_path: impl NodePath) -> Result<Self> {
        let path = self.node.client.resolve(receipt_path)?;
        if path == self.node.path {
            let reason = "the receipt must be another node than the value".to_owned();
            return Err(ClientError::InvalidRequest { operation: "keep a receipt at", path, reason }.into());
        }
        self.node.receipt = Some(Arc::new(Receipt::new(path)));
        Ok(self)
    }

    /// The node's full path on the server, including chroot and namespace.
    #[must_use]
    pub fn path(&self) -> &ZPath {
        &self.node.path
    }

    /// Returns the value. One request.
    ///
    /// # Errors
    ///
    /// [`Invalid`](AtomicValueError::Invalid), and errors of the client.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost when the future is dropped.
    pub async fn get(&self) -> Result<T>
    where
        T: Clone,
    {
        match self.node.client.get_data(&self.node.path).await {
            Ok((data, _)) => self.decode(&data),
            Err(ClientError::NoNode { .. }) => Ok(T::clone(&self.absent)),
            Err(error) => Err(error.into()),
        }
    }

    /// Creates the node with this value; returns `false` if it exists.
    ///
    /// # Errors
    ///
    /// [`OutcomeUnknown`](AtomicValueError::OutcomeUnknown) if the reply is lost, and errors of the client.
    ///
    /// # Cancel safety
    ///
    /// A dropped future may still create the node.
    pub async fn initialize(&self, value: T) -> Result<bool> {
        let (client, node) = (&self.node.client, self.node.new_node(&self.codec.encode(&value)));
        let node = &node;
        let created = client.retry(|session| async move {
            match client.create_with_containers(&session, node).await {
                // A retry could not distinguish this call's node from that of another client.
                Err(cause) if cause.outcome() == Outcome::Unknown => {
                    Err(ClientError::Ambiguous { path: node.path.clone(), cause: Box::new(cause) })
                }
                created => created,
            }
        });
        match created.await {
            Ok(_) => Ok(true),
            Err(ClientError::NodeExists { .. }) => Ok(false),
            Err(error) => Err(self.unsure(error)),
        }
    }

    /// The error of a write without a condition.
    fn unsure(&self, cause: ClientError) -> AtomicValueError {
        match cause.outcome() {
            Outcome::Unknown => AtomicValueError::OutcomeUnknown { path: self.node.path.clone(), cause },
            Outcome::NotApplied => cause.into(),
        }
    }

    /// Sets the value unconditionally, even if the node's data was invalid. Creates the node if it does not exist.
    ///
    /// Curator's `forceSet`.
    ///
    /// # Errors
    ///
    /// [`OutcomeUnknown`](AtomicValueError::OutcomeUnknown), and errors of the client. A request whose reply is lost is
    /// retried, and can overwrite a value that another client has written since.
    ///
    /// # Cancel safety
    ///
    /// A dropped future may still set the value.
    pub async fn force_set(&self, value: T) -> Result<()> {
        let node = &self.node.new_node(&self.codec.encode(&value));
        let client = &self.node.client;
        let set = client.retry(|session| async move {
            match session.set_data(&node.path, &node.data, None).await {
                Err(ClientError::NoNode { .. }) => {}
                set => return set.map(drop),
            }
            match client.create_with_containers(&session, node).await {
                Err(ClientError::NodeExists { .. }) => session.set_data(&node.path, &node.data, None).await.map(drop),
                created => created.map(drop),
            }
        });
        set.await.map_err(|error| self.unsure(error))
    }

    /// Sets the value if it is `expected`; returns whether it was. A node that does not exist has the value `absent` of
    /// the handle.
    ///
    /// # Errors
    ///
    /// Those of [`update`](Self::update).
    ///
    /// # Cancel safety
    ///
    /// The same as `update`.
    pub async fn compare_and_set(&self, expected: &T, value: T) -> Result<bool>
    where
        T: Clone + PartialEq,
    {
        match self.update(|current| (current == expected).then(|| value.clone())).await {
            Ok(_) => Ok(true),
            Err(AtomicValueError::Declined { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Changes the value to the result of `change`, which is called for each attempt, and can decline by returning
    /// `None`.
    ///
    /// # Errors
    ///
    /// - [`Declined`](AtomicValueError::Declined) when `change` has returned `None`.
    /// - [`Contended`](AtomicValueError::Contended) when other clients caused conflicts until the retry policy gave up.
    /// - [`OutcomeUnknown`](AtomicValueError::OutcomeUnknown) when the reply was lost. With a
    ///   [receipt](Self::exactly_once): when the client's retry policy gave up before the receipt could be read, or the
    ///   client was closed.
    /// - [`ReceiptInUse`](AtomicValueError::ReceiptInUse) when another handle has the same receipt.
    /// - [`VersionExhausted`](AtomicValueError::VersionExhausted) after 2^32 - 1 writes.
    /// - [`Invalid`](AtomicValueError::Invalid), [`Lock`](AtomicValueError::Lock), and errors of the client.
    ///
    /// # Cancel safety
    ///
    /// A dropped future may still change the value, once. With a receipt, the next change of this handle first
    /// determines its outcome.
    pub async fn update(&self, change: impl Fn(&T) -> Option<T> + Send + Sync) -> Result<AtomicValue<T>>
    where
        T: Clone,
    {
        self.try_update(|value| {
            change(value).ok_or_else(|| AtomicValueError::Declined { path: self.node.path.clone() })
        })
        .await
    }

    /// Like [`update`](Self::update), for a `change` that returns an error.
    async fn try_update(&self, change: impl Fn(&T) -> Result<T> + Send + Sync) -> Result<AtomicValue<T>>
    where
        T: Clone,
    {
        let change = |data: Option<&[u8]>| {
            let pre_value = data.map_or_else(|| Ok(T::clone(&self.absent)), |data| self.decode(data))?;
            let data = self.codec.encode(&change(&pre_value)?);
            // Decoded before the write, because a codec may reject the data that it has encoded.
            let post_value = self.decode(&data)?;
            Ok(Changed { data, values: AtomicValue { pre_value, post_value } })
        };
        Box::pin(self.node.change(&change)).await
    }

    fn decode(&self, data: &[u8]) -> Result<T> {
        let invalid =
            |cause: CodecError| AtomicValueError::Invalid { path: self.node.path.clone(), cause: cause.into() };
        self.codec.decode(data).map_err(invalid)
    }
}

impl<T> Clone for DistributedAtomicValue<T> {
    fn clone(&self) -> Self {
        let Self { node, codec, absent } = self;
        Self { node: node.clone(), codec: Arc::clone(codec), absent: Arc::clone(absent) }
    }
}

impl<T> fmt::Debug for DistributedAtomicValue<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let receipt = self.node.receipt.as_ref().map(|receipt| &receipt.path);
        f.debug_struct("DistributedAtomicValue")
            .field("path", &self.node.path)
            .field("receipt", &receipt)
            .finish_non_exhaustive()
    }
}
