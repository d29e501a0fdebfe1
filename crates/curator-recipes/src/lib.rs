//! Distributed locks, leadership, live settings, caches and group membership on Apache ZooKeeper,
//! after Apache Curator's recipes.
//!
//! The locks are fair, herd-free and cancel-safe, and a holder is notified of a lost lock before
//! another client can acquire it. Exclusive locks have fencing tokens. Java programs that use
//! Curator can share the lock paths.
//!
//! ```no_run
//! use std::time::Duration;
//! use curator_recipes::InterProcessMutex;
//! use curator_recipes::client::{CuratorClient, ExponentialBackoffRetry};
//!
//! # async fn example() -> Result<(), curator_recipes::Error> {
//! let client = CuratorClient::builder("127.0.0.1:2181")
//!     .retry_policy(ExponentialBackoffRetry::new(Duration::from_millis(100), 3)?)
//!     .connect()
//!     .await?;
//! let mutex = InterProcessMutex::non_reentrant(&client, "/locks/orders")?;
//!
//! let guard = mutex.acquire().await?;
//!
//! // The future is dropped if the lock is lost.
//! guard.run(async { /* the work */ }).await?;
//!
//! guard.release().await?;
//! client.close().await?;
//! # Ok(())
//! # }
//! ```
//!
//! # Which lock or other recipe do I want?
//!
//! | I want | use |
//! |---|---|
//! | one holder at a time | [`InterProcessMutex::non_reentrant`]: each acquire waits its turn, even in the same task |
//! | the same, without a wait or with a time limit | [`InterProcessMutex::try_acquire`], [`InterProcessMutex::acquire_timeout`] |
//! | the same for plain threads | [`InterProcessMutex::blocking_acquire`] and the other `blocking_*` methods: [a program](guide::locks#on-plain-threads) |
//! | a lock that follows a request from task to task, and is re-entered there | [`InterProcessMutex::acquire_as`], of a mutex made by `new` |
//! | one holder at a time, on a path that Java programs use with Curator's semaphore mutex | [`InterProcessSemaphoreMutex`] |
//! | a limited number of holders | [`InterProcessSemaphoreV2`]; [`with_shared_count`](InterProcessSemaphoreV2::with_shared_count) if the limit changes |
//! | several leases in one step | [`InterProcessSemaphoreV2::acquire_many`] |
//! | many readers or one writer | [`InterProcessReadWriteLock::non_reentrant`] |
//! | a writer that continues as a reader | [`WriteGuard::downgrade`] |
//! | mutexes on several paths together, in any order | [`InterProcessMultiLock::non_reentrant`] |
//! | several exclusive locks as one: mutexes, semaphore mutexes, write locks | [`InterProcessMultiLock::of`], [`InterProcessLock`] |
//! | to acquire again what the task (or thread) already holds | `new` of the mutex, the read-write lock and the multi-lock, such as [`InterProcessMutex::new`]: futures that share a task then hold the lock together |
//! | to share a path with Java Curator | the lock of the same name: [`guide::interop`] |
//! | to share a path with kazoo's `Lock` (Python) | [`InterProcessMutex::compatible_with_kazoo`] |
//! | to share a path with go-zookeeper's lock (Go) | [`InterProcessMutex::non_reentrant`] |
//! | other node names, for programs that already use a directory | [`InterProcessMutex::with_driver`], [`driver`] |
//!
//! Besides locks:
//!
//! | I want | use |
//! |---|---|
//! | a job that runs in one of many processes | [`LeaderSelector`] |
//! | work that is divided into shards, each served by one of many processes | [`ShardAssignment`] |
//! | to know whether this process leads | [`LeaderLatch`] |
//! | to know who leads, without taking part | [`LeaderObserver`] |
//! | to count in many processes, each change exactly once if requested; ids | [`DistributedAtomicLong`], [`IdGenerator`] |
//! | a number or a value that all processes share, and its changes as a stream | [`SharedCount`], [`SharedValue`] |
//! | settings that change while the service runs | [`Config`] |
//! | a live copy of several nodes, or of a whole subtree | [`CuratorCache`] |
//! | many values in one directory, decoded, to read from memory and to write by version | [`TypedCache`] |
//! | a node that exists as long as this process does | [`PersistentNode`] |
//! | to belong to a group of processes, and to know who else does | [`GroupMember`] |
//!
//! # What else do I need to know?
//!
//! | Question | Answer |
//! |---|---|
//! | What is guaranteed, and what can only a [`FencingToken`] give? | [`guide::guarantees`] |
//! | What happens when the lock is lost? | [`LockGuard::run`], [`LockGuard::lost`]; in other tasks [`LockGuard::loss`] |
//! | What is retried, and how often? | [`guide::retries`]; an acquire waits for the *lock* without a limit, but fails with [`Error::AcquireFailed`] when there is no session and the retry policy permits no more retries |
//! | How does a job survive an outage of any length? | as a job of a [`LeaderSelector`]; with a lock, the loop in [`LockGuard::run`] and [`RetryForever`](client::RetryForever) |
//! | Which work fits shards, how many do I need, and how long is one not served? | [`guide::shards`] |
//! | In which order do I shut down? | [`LockGuard`](LockGuard#shutdown) |
//! | Who holds the lock, and who waits? | [`InterProcessMutex::participants`], and the same method of every other lock |
//! | How do I request a lock back from its holder? | [`revoke`], [`LockGuard::revocation_requested`] |
//! | How do I write to ZooKeeper only while I hold the lock? | [`LockGuard::transaction`] |
//! | How does another store reject late writes of an old holder? | [`LockGuard::fencing_token`], the module [`fencing`] |
//! | How do I set the retry policy of one lock? | [`using_retry_policy`](client::CuratorClient::using_retry_policy) |
//! | Which timeouts, what on Kubernetes, and what does the log mean? | [`guide::production`] |
//! | I know Java Curator: what is it here? | [`guide::from_curator`] |
//! | What does each lock send, and what does Java Curator do differently? | [`guide::locks`] and a page for each lock |
//! | Has a failed release succeeded in the background? | [`client::CuratorClient::janitor`] |
//! | What do the locks log? | spans and events of [`tracing`](https://docs.rs/tracing), at level `debug`: a span for each acquire and each hold; for leaders, at `info` the beginning and end of each term, and at `warn` what keeps a selector from leading |
//! | How do I test my own service? | [`guide::testing`] |
//!
//! # Features
//!
//! `zookeeper-client` is enabled by default. At least one of the two transports, `zookeeper-client`
//! and `native`, must be enabled.
//!
//! - `backoff`: `client::BackoffRetry`, which turns a backoff of the crate `backoff` into a retry
//!   policy. That crate and its dependency `instant` are no longer maintained (RUSTSEC-2025-0012,
//!   RUSTSEC-2024-0384). [`ExponentialBackoffRetry`](client::ExponentialBackoffRetry) needs
//!   neither.
//! - `metrics`: `describe_metrics`, `HISTOGRAM_BOUNDS`, and [metrics](guide::production#metrics) of
//!   locks, leadership, caches and sessions, through the crate `metrics`.
//! - `native`: `CuratorClientBuilder::transport` in the module [`client`], and this project's own
//!   transport, alongside or instead of `zookeeper-client`.
//! - `serde`: [`FencingToken`], [`VersionedValue`], [`EntryVersion`], [`client::ConnectionState`] and
//!   [`client::ConnectString`] implement `Serialize` and `Deserialize`; [`Participant`],
//!   [`LossReason`] and paths implement `Serialize`. A client's options can come from a
//!   configuration file ([`client::CuratorClientBuilder`], `client::ConfiguredRetryPolicy`). A
//!   [`Config`] whose decoder uses `serde_json` does not need this feature.
//! - `sasl-digest-md5` and `sasl-gssapi`: SASL authentication of the client, with `SaslOptions` in
//!   the module [`client`]. `sasl-gssapi` needs the system's Kerberos library to build.
//! - `tls`: connections over TLS, with `TlsOptions` in the module [`client`].
//! - `tokio-util`: `LockGuard::cancellation_token`, a `CancellationToken` that is cancelled when
//!   the lock is no longer held, and `LockGuard::cancellation_token_on_loss`: [a
//!   program](guide::locks#cancellation-tokens).
//!
//! # Versions
//!
//! The types of other crates in this crate's interface, and the changes that a new version may
//! make: `docs/stability.md` in the repository.

#![cfg_attr(docsrs, feature(doc_cfg))]
// Each public type is `non_exhaustive`, or gives the reason why it is not.
#![warn(clippy::exhaustive_enums, clippy::exhaustive_structs)]
// Simulated runs must be reproducible, so direct use of clocks, randomness and threads is
// disallowed.
#![cfg_attr(
    not(test),
    warn(
        clippy::disallowed_methods,
        clippy::disallowed_types,
        clippy::iter_over_hash_type
    )
)]

mod atomic;
mod cache;
mod changes;
mod codec;
mod config;
mod engine;
mod error;
pub mod fencing;
mod group;
pub mod guide;
mod leader;
mod lock;
mod owner;
mod persistent;
mod shards;
mod shared;
mod task;
mod typed;
mod wait;

/// The client: all of the crate `curator-client`.
pub mod client {
    #[doc(inline)]
    pub use curator_client::*;
}

pub mod driver {
    //! Drivers: a driver names the nodes of a lock and decides which node owns the lock.
    //!
    //! Most programs need no driver. A program needs one for a lock on a path where other programs
    //! already use different node names, and passes it to
    //! [`InterProcessMutex::with_driver`](crate::InterProcessMutex::with_driver). If only the lock
    //! name differs, use [`StandardLockInternalsDriver::with_lock_name`]; otherwise, implement
    //! [`LockInternalsDriver`].
    //!
    //! These types come from the crate [`curator_protocol`], which has the protocol of the locks
    //! without I/O.

    #[doc(no_inline)]
    pub use curator_protocol::Uuid;
    #[doc(inline)]
    pub use curator_protocol::{
        LockInternalsDriver, ParticipantKind, Queue, QueueEntry, ReadLockInternalsDriver,
        SequenceOverflow, StandardLockInternalsDriver, Verdict, WriteLockInternalsDriver,
        sequence_after,
    };
}

pub use crate::atomic::{AtomicValue, DistributedAtomicLong, DistributedAtomicValue, IdGenerator};
pub use crate::cache::{
    CacheError, CacheEvent, CacheEvents, CacheState, CachedNode, CuratorCache, CuratorCacheBuilder,
    Lookup, Snapshot,
};
pub use crate::changes::{Changes, Latest, RecipeEnded};
pub use crate::codec::{BigEndian, CodecError, ValueCodec};
pub use crate::config::{Config, ConfigBuilder, ConfigError, ConfigStatus, IfAbsent};
#[doc(inline)]
pub use crate::driver::ParticipantKind;
#[cfg(feature = "metrics")]
pub use crate::engine::meter::{HISTOGRAM_BOUNDS, describe_metrics};
pub use crate::error::{Error, LockLost, LossReason, Result, UnsuitableNode, ValueError};
#[doc(inline)]
pub use crate::fencing::FencingToken;
pub use crate::group::{GroupMember, GroupMemberBuilder};
pub use crate::leader::{
    LeaderLatch, LeaderLatchBuilder, LeaderObserver, LeaderSelector, LeaderSelectorBuilder,
    LeaderSelectorError, LeaderState, Leadership, ObservedLeader,
};
pub use crate::lock::{
    GuardedTransaction, InterProcessLock, InterProcessMultiLock, InterProcessMutex,
    InterProcessReadWriteLock, InterProcessSemaphoreMutex, InterProcessSemaphoreV2, LockGuard,
    LossHandle, Participant, ReadLock, SemaphoreLease, WriteGuard, WriteLock, revoke,
};
pub use crate::owner::OwnerId;
pub use crate::persistent::{
    PersistentNode, PersistentNodeBuilder, PersistentNodeError, PersistentNodeState,
};
pub use crate::shards::{ShardAssignment, ShardAssignmentBuilder, ShardAssignmentError, Shards};
pub use crate::shared::{
    CountChanges, SharedCount, SharedValue, ValueChanges, VersionedCount, VersionedValue,
};
pub use crate::typed::{EntryVersion, ExpectedVersion, TypedCache, TypedEntry};
pub use crate::wait::Wait;

/// Compiles the example of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use curator_client::{Error as ClientError, ZPath};

    use super::*;

    const fn assert_send_and_sync<T: Send + Sync>() {}
    const fn assert_type_is_send<T: Send>() {}
    fn assert_send<T: Send>(_: &T) {}

    /// The public types, by module.
    const _: () = assert_send_and_sync::<(
        (
            AtomicValue<u8>,
            BigEndian,
            CodecError,
            DistributedAtomicLong,
            DistributedAtomicValue<u8>,
            IdGenerator,
        ),
        (
            CacheError,
            CacheEvent,
            CacheState,
            CachedNode,
            CuratorCache,
            CuratorCacheBuilder,
            Lookup,
            Snapshot,
        ),
        (
            Config<u8>,
            ConfigBuilder<u8>,
            ConfigError,
            ConfigStatus,
            IfAbsent<u8>,
        ),
        (Error, LockLost, LossReason, LossHandle, OwnerId, Wait),
        (
            fencing::FencedResource<u8>,
            fencing::FencingChecker,
            fencing::InvalidFencingToken,
            fencing::StaleToken,
        ),
        (FencingToken, GroupMember, GroupMemberBuilder),
        (
            LeaderLatch,
            LeaderLatchBuilder,
            LeaderObserver,
            LeaderSelector,
            LeaderSelectorBuilder,
        ),
        (
            LeaderSelectorError<u8>,
            LeaderState,
            Leadership,
            ObservedLeader,
        ),
        (
            std::sync::Arc<dyn InterProcessLock>,
            InterProcessMultiLock,
            InterProcessMutex,
            InterProcessReadWriteLock,
        ),
        (
            InterProcessSemaphoreMutex,
            InterProcessSemaphoreV2,
            ReadLock,
            WriteLock,
        ),
        (
            GuardedTransaction<'static>,
            LockGuard,
            SemaphoreLease,
            WriteGuard,
            Participant,
            ParticipantKind,
        ),
        (
            PersistentNode,
            PersistentNodeBuilder,
            PersistentNodeError,
            PersistentNodeState,
        ),
        (
            ShardAssignment,
            ShardAssignmentBuilder,
            ShardAssignmentError,
            Shards,
        ),
        (
            SharedCount,
            SharedValue<u8>,
            UnsuitableNode,
            ValueError,
            VersionedCount,
            VersionedValue<u8>,
        ),
        (
            EntryVersion,
            ExpectedVersion,
            TypedCache<u8>,
            TypedEntry<u8>,
        ),
    )>();
    /// A stream has one consumer.
    const _: () = assert_type_is_send::<(CacheEvents, CountChanges, ValueChanges<u8>)>();

    /// No test spawns these futures, so this checks that they are `Send`.
    const _: fn(InterProcessMutex, InterProcessSemaphoreV2, InterProcessMultiLock) =
        |mutex, semaphore, lock| {
            assert_send(&(
                mutex.participants(),
                semaphore.participants(),
                lock.participants(),
            ));
        };
    const _: fn(LockGuard, WriteGuard, SemaphoreLease, client::CuratorClient) =
        |guard, writing, lease, client| {
            assert_send(&(
                guard.run(async {}),
                guard.try_run(async { Ok::<_, Error>(()) }),
            ));
            assert_send(&revoke(&client, guard.node()));
            assert_send(&guard.release_timeout(Duration::ZERO));
            assert_send(&writing.release_timeout(Duration::ZERO));
            assert_send(&lease.release_timeout(Duration::ZERO));
        };
    const _: fn(LeaderLatch, Leadership, LeaderObserver) = |latch, leadership, observer| {
        assert_send(&(latch.leadership(), latch.participants(), latch.leader()));
        assert_send(&(latch.resign(), latch.stand_aside(), latch.close()));
        assert_send(&(
            leadership.lost(),
            leadership.run(async {}),
            leadership.try_run(async { Ok::<_, Error>(()) }),
        ));
        assert_send(&(observer.leader(), observer.changes()));
    };
    const _: fn(CuratorCache, SharedCount) = |cache, count| {
        assert_send(&(
            cache.ready(),
            cache.caught_up(),
            cache.close(),
            cache.events(),
            cache.events().next(),
        ));
        assert_send(&(count.get(), count.changes().next()));
    };
    const _: fn(ConfigBuilder<u8>, ConfigBuilder<u8>, Config<u8>) = |builder, again, config| {
        assert_send(&(
            builder.open(),
            again.open_timeout(Duration::ZERO),
            config.ended(),
        ));
    };
    const _: fn(TypedCache<u8>, EntryVersion) = |typed, version| {
        assert_send(&typed.changes().next());
        assert_send(&(typed.put("", &0, version), typed.delete("", version)));
    };
    const _: fn(PersistentNode, GroupMember) = |node, member| {
        assert_send(&(
            node.created(),
            node.created_timeout(Duration::ZERO),
            node.set_data(""),
        ));
        assert_send(&(node.close(), member.close()));
    };

    #[test]
    fn debug_of_an_error_is_its_text_on_one_line() {
        let connect_string = "zk1".to_owned();
        let after = Duration::from_secs(60);
        let cause = "zk1:2181: cannot be resolved (unknown)".to_owned();
        let failed = Error::from(ClientError::ConnectFailed {
            connect_string,
            after,
            cause,
        });
        let text = "no session with \"zk1\" within 60s: zk1:2181: cannot be resolved (unknown)";
        assert_eq!(format!("{failed:?}"), text);
        let boxed: Box<dyn std::error::Error> = Box::new(failed.clone());
        assert_eq!(format!("{boxed:?}"), text);
        assert_eq!(
            format!("{:?}", LeaderSelectorError::<&str>::Selector(failed)),
            text
        );
        let path = ZPath::root();
        let job = LeaderSelectorError::JobFailed {
            path: path.clone(),
            cause: "no\nspace\u{202e}\u{2028}",
        };
        assert_eq!(
            format!("{job:?}"),
            "the leader's job at / failed: no\\nspace\\u{202e}\\u{2028}"
        );
        assert_eq!(
            format!("{:?}", ConfigError::Absent { path }),
            "the config / does not exist"
        );
    }
}
