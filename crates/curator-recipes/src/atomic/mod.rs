//! Values and numbers that many processes change.

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

/// How often a change is tried again by default if other clients are first, and the pause before each.
const RETRIES: u32 = 30;
const PAUSE: Duration = Duration::from_millis(5);

/// A value in one node, which many processes change: each change reads the value, computes the new one, and writes it on
/// condition that no other client has written in between.
///
/// Curator's `DistributedAtomicValue`, and compatible with it: the node's data is what the [codec](ValueCodec) makes of the value. The
/// number is [`DistributedAtomicLong`].
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
/// - A change that returns `Ok` was applied exactly once, and the values before and after it are those of the node. No two changes
///   replace the same state of the node.
/// - Of an error, [`outcome`](AtomicValueError::outcome) says whether the change may have been applied.
///   [`Contended`](AtomicValueError::Contended) means that it was not.
/// - A change whose answer is lost is [`OutcomeUnknown`](AtomicValueError::OutcomeUnknown), and not tried again. Curator's repeats it,
///   takes its own write for that of another client, and adds twice.
/// - With a [receipt](Self::exactly_once), a lost answer is found out, and the change is applied once: through lost connections and
///   sessions, and also if the future was dropped.
///
/// # Caveats
///
/// ZooKeeper compares versions, which begin anew with each node: if the node is deleted between the read and the write of a change, and
/// made again with as many writes, the change replaces a value that it has not read.
///
/// [`get`](Self::get) can be older than what another client has written: call [`CuratorClient::sync`] before it where that matters. A
/// change never is: it is refused, and tried again; and before it is declined, the value is read again behind a `sync`.
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
    /// Creates a handle to the value at `path`. A node that does not exist has the value `absent`, and is created by the first change.
    /// Nothing is sent yet.
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

    /// Sets how often a change is tried again if other clients are first. Defaults to 30 times, after 5 ms. Failures of the connection
    /// are retried by the policy of the client.
    #[must_use]
    pub fn with_retry_policy(mut self, policy: impl RetryPolicy) -> Self {
        self.node.contention = Arc::new(policy);
        self
    }

    /// When the retry policy gives up, the change waits for a mutex at `lock_path`, and is then tried as often again. That helps if many
    /// clients change the value all the time; clients in their first attempts do not ask for the mutex, and can still be first.
    ///
    /// Curator's `PromotedToLock`, and compatible with it. The path must not be that of the value. The mutex is waited for without a
    /// deadline.
    ///
    /// # Errors
    ///
    /// When the path is invalid.
    pub fn promoted_to_lock(mut self, lock_path: impl NodePath) -> Result<Self> {
        let lock = |cause| AtomicValueError::Lock { path: self.node.path.clone(), cause: Box::new(cause) };
        self.node.mutex = Some(InterProcessMutex::non_reentrant(&self.node.client, lock_path).map_err(lock)?);
        Ok(self)
    }

    /// Applies each change exactly once, though its answer may be lost: the transaction of the change also sets the node at
    /// `receipt_path`, which says what was applied last. Each handle needs a different path: one for each value in each process, the
    /// same in each run, so that nothing accumulates. Missing parents become containers.
    ///
    /// Other clients, Curator's among them, need not know of it. The changes of one handle, its clones included, are made one after the
    /// other. The first one reads the receipt, with two requests more.
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
    /// [`Invalid`](AtomicValueError::Invalid), and those of the client.
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
    /// [`OutcomeUnknown`](AtomicValueError::OutcomeUnknown) if the answer is lost, and those of the client.
    ///
    /// # Cancel safety
    ///
    /// A dropped future may still create the node.
    pub async fn initialize(&self, value: T) -> Result<bool> {
        let (client, node) = (&self.node.client, self.node.new_node(&self.codec.encode(&value)));
        let node = &node;
        let created = client.retry(|session| async move {
            match client.create_with_containers(&session, node).await {
                // A second attempt could not tell our node from that of another client.
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

    /// Sets the value, whatever it was, and whatever data the node had. Creates the node if it does not exist.
    ///
    /// Curator's `forceSet`.
    ///
    /// # Errors
    ///
    /// [`OutcomeUnknown`](AtomicValueError::OutcomeUnknown), and those of the client. A call whose answer is lost is tried again, and can
    /// overwrite what another client has written since.
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

    /// Sets the value if it is `expected`; returns whether it was. A node that does not exist has the value that the handle was made with.
    ///
    /// # Errors
    ///
    /// Those of [`update`](Self::update).
    ///
    /// # Cancel safety
    ///
    /// That of `update`.
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

    /// Changes the value to what `change` makes of it. It is called for each attempt, and may decline by `None`.
    ///
    /// # Errors
    ///
    /// - [`Declined`](AtomicValueError::Declined) when `change` has returned `None`.
    /// - [`Contended`](AtomicValueError::Contended) when other clients were first until the retry policy gave up.
    /// - [`OutcomeUnknown`](AtomicValueError::OutcomeUnknown) when the answer was lost. With a [receipt](Self::exactly_once): when the
    ///   client's retry policy gave up before the receipt could be read, or the client was closed.
    /// - [`ReceiptInUse`](AtomicValueError::ReceiptInUse) when another handle has the same receipt.
    /// - [`VersionExhausted`](AtomicValueError::VersionExhausted) after 2^32 - 1 writes.
    /// - [`Invalid`](AtomicValueError::Invalid), [`Lock`](AtomicValueError::Lock), and those of the client.
    ///
    /// # Cancel safety
    ///
    /// A dropped future may still change the value, once. With a receipt, the next change of this handle finds out about it first.
    pub async fn update(&self, change: impl Fn(&T) -> Option<T> + Send + Sync) -> Result<AtomicValue<T>>
    where
        T: Clone,
    {
        self.try_update(|value| {
            change(value).ok_or_else(|| AtomicValueError::Declined { path: self.node.path.clone() })
        })
        .await
    }

    /// As [`update`](Self::update), with an error of the caller's.
    async fn try_update(&self, change: impl Fn(&T) -> Result<T> + Send + Sync) -> Result<AtomicValue<T>>
    where
        T: Clone,
    {
        let change = |data: Option<&[u8]>| {
            let pre_value = data.map_or_else(|| Ok(T::clone(&self.absent)), |data| self.decode(data))?;
            let data = self.codec.encode(&change(&pre_value)?);
            // Before it is written: a codec may refuse what it has made.
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
