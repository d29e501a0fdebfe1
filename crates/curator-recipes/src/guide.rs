//! The guide: what the locks guarantee, a page for each lock, how to run a service in production
//! and how to test it.
//!
//! | Page | What it is about |
//! |---|---|
//! | [`guarantees`] | what the locks guarantee, under which assumptions, and what no lock can guarantee |
//! | [`locks`] | a comparison of the locks: their common properties, their requests, and other clients on the same path |
//! | [`mutex`], [`semaphore_mutex`], [`semaphore`], [`read_write`], [`multi_lock`] | one lock each: its nodes, requests, guarantees, caveats and errors, and what Java Curator does differently |
//! | [`leader_latch`], [`leader_selector`] | one leader among all participants, and a job that only the leader runs: nodes, requests, guarantees and caveats |
//! | [`shards`] | work that is divided among processes: how to choose shards, how long a shard is not served, how to fence writes |
//! | [`cache`] | live copies of several nodes or of a subtree: requests, guarantees and caveats |
//! | [`config`] | settings that change while a service runs: the status of a value, requests, guarantees and caveats |
//! | [`typed_cache`] | the decoded children of one node, read from memory and written by version: requests, guarantees and caveats |
//! | [`counters`] | numbers, values and ids that many processes change: the meaning of each result, requests, and caveats |
//! | [`persistent_node`] | nodes that the client recreates when they are lost, and groups of processes: the owner of a node, requests, guarantees and caveats |
//! | [`compositions`] | barriers, a queue of tasks and a node with a time to live, as short programs to copy |
//! | [`fencing`] | how a store refuses a late write |
//! | [`revocation`] | how to request a lock back from its holder |
//! | [`retries`] | the retry policy of a client, of one lock or of one call, with code for four cases |
//! | [`production`] | timeouts, starting and stopping, Kubernetes, and the messages in the log |
//! | [`testing`] | servers, ensembles and a faulty network for your own tests |
//! | [`interop`] | Java Curator, kazoo and go-zookeeper on the same path: which locks exclude each other, and which tests show it |
//! | [`from_curator`] | each class and method of Java Curator, and its counterpart here |
//!
//! Each page names the tests that check its statements. The tests are in the repository.
//!
//! # Pages in the repository
//!
//! Other pages are only in the repository: in `docs`, service discovery (`discovery.md`), the
//! command `zklock` (`zklock.md`), the servers on which each recipe works (`servers.md`), the
//! runbook, the alert rules and the dashboard (`operations`), bugs in other crates (`upstream.md`),
//! measurements (`performance.md`), the architecture and the decision records (ADR); in `examples`,
//! a program for each task, among them a whole service (`service`).
//!
//! A *pipeline* is a group of requests that are sent together, without waiting in between, and so
//! cost one round trip.

// The pages are Markdown files with relative links, which work in the repository. Each module below
// defines the labels of these links again, for rustdoc: in Markdown, the first definition of a
// label wins.

/// What every lock guarantees, and under which assumptions.
///
/// [an-ensemble-that-changes]: crate::guide::production#an-ensemble-that-changes
/// [chroot-and-permissions]: crate::guide::production#chroot-and-permissions
/// [fencing]: crate::guide::fencing
/// [interop]: crate::guide::interop
/// [locks]: crate::guide::locks
/// [multi-lock-caveats]: crate::guide::multi_lock#caveats
/// [restoring-data]: crate::guide::production#restoring-data
/// [revocation]: crate::guide::revocation
/// [semaphore-caveats]: crate::guide::semaphore#caveats
/// [upstream-sasl]: crate::guide#pages-in-the-repository
#[doc = include_str!("../docs/guarantees.md")]
pub mod guarantees {}

/// A comparison of the locks: their common properties and their requests.
///
/// [fencing]: crate::guide::fencing
/// [guarantees]: crate::guide::guarantees
/// [interop]: crate::guide::interop
/// [java]: crate::guide::guarantees#java-curator-on-the-same-path
/// [multi_lock]: crate::guide::multi_lock
/// [mutex]: crate::guide::mutex
/// [read_write]: crate::guide::read_write
/// [revocation]: crate::guide::revocation
/// [semaphore]: crate::guide::semaphore
/// [semaphore-caveats]: crate::guide::semaphore#caveats
/// [semaphore_mutex]: crate::guide::semaphore_mutex
/// [upstream-lock]: crate::guide#pages-in-the-repository
#[doc = include_str!("../docs/locks/README.md")]
pub mod locks {}

/// The mutex: one holder at a time, with a reentrant form.
///
/// [administrators-delete]: crate::guide::guarantees#an-administrators-delete
/// [guarantees]: crate::guide::guarantees#guarantees
/// [interop]: crate::guide::interop
/// [java]: crate::guide::guarantees#java-curator-on-the-same-path
/// [owners]: crate::guide::guarantees#owners
/// [sequence-overflow]: crate::guide::guarantees#sequence-overflow
#[doc = include_str!("../docs/locks/mutex.md")]
pub mod mutex {}

/// The semaphore mutex: one holder, which any task may release.
///
/// [mutex]: crate::guide::mutex
/// [semaphore]: crate::guide::semaphore
#[doc = include_str!("../docs/locks/semaphore_mutex.md")]
pub mod semaphore_mutex {}

/// The semaphore: a limited number of holders.
///
/// [mutex]: crate::guide::mutex
/// [paths]: crate::guide::counters#which-recipe-may-live-at-whose-path
/// [mutex-errors]: crate::guide::mutex#errors
/// [revocation]: crate::guide::revocation
/// [costs]: crate::guide::locks#what-they-cost
#[doc = include_str!("../docs/locks/semaphore.md")]
pub mod semaphore {}

/// The read-write lock: many readers or one writer.
///
/// [mutex]: crate::guide::mutex
/// [mutex-errors]: crate::guide::mutex#errors
/// [revocation]: crate::guide::revocation
/// [costs]: crate::guide::locks#what-they-cost
#[doc = include_str!("../docs/locks/read_write.md")]
pub mod read_write {}

/// The multi-lock: several locks as one.
///
/// [mutex]: crate::guide::mutex
/// [mutex-errors]: crate::guide::mutex#errors
/// [costs]: crate::guide::locks#what-they-cost
#[doc = include_str!("../docs/locks/multi_lock.md")]
pub mod multi_lock {}

/// Fencing tokens and guarded transactions: how late writes are refused.
///
/// [fencing-token]: crate::guide::guarantees#the-fencing-token
#[doc = include_str!("../docs/locks/fencing.md")]
pub mod fencing {}

/// Revocation: how to request a lock back from its holder.
///
/// [administrators-delete]: crate::guide::guarantees#an-administrators-delete
#[doc = include_str!("../docs/locks/revocation.md")]
pub mod revocation {}

/// The leader latch: one leader among all participants.
///
/// [administrators-delete]: crate::guide::guarantees#an-administrators-delete
/// [fencing]: crate::guide::fencing
/// [from-curator]: crate::guide::from_curator#leadership
/// [mutex]: crate::guide::mutex
/// [selector]: crate::guide::leader_selector
/// [session-lease]: crate::guide::guarantees#the-session-lease
#[doc = include_str!("../docs/leader-latch.md")]
pub mod leader_latch {}

/// The leader selector: a job that only the leader runs.
///
/// [fencing]: crate::guide::fencing
/// [from-curator]: crate::guide::from_curator#leadership
/// [interop]: crate::guide::interop#names-on-the-wire
/// [leader-latch]: crate::guide::leader_latch
/// [mutex]: crate::guide::mutex
/// [observing]: crate::guide::leader_latch#observing
#[doc = include_str!("../docs/leader-selector.md")]
pub mod leader_selector {}

/// Shards, each served by one of many processes.
///
/// [cache]: crate::guide::cache
/// [example]: crate::guide#pages-in-the-repository
/// [fencing]: crate::guide::fencing
/// [leader-selector]: crate::guide::leader_selector
/// [log]: crate::guide::production#what-the-log-says
/// [mutex]: crate::guide::mutex
/// [observing]: crate::guide::leader_latch#observing
/// [session-timeout]: crate::guide::production#which-session-timeout
/// [zklock]: crate::guide#pages-in-the-repository
// rustdoc has no files, so the picture is part of the text, and the page's reference to its file an
// empty picture.
/// [picture]: data:image/svg+xml,%3Csvg%20xmlns='http://www.w3.org/2000/svg'%20width='1'%20height='1'/%3E
///
#[doc = include_str!("../docs/shards.svg")]
///
#[doc = include_str!("../docs/shards.md")]
pub mod shards {}

/// The cache: a live copy of a node, of its children, or of a subtree.
///
/// [config]: crate::guide::config
/// [from-curator]: crate::guide::from_curator#caches
/// [groups]: crate::guide::persistent_node#groups
/// [typed-cache]: crate::guide::typed_cache
#[doc = include_str!("../docs/cache.md")]
pub mod cache {}

/// The typed cache: the children of one node, decoded, and written by version.
///
/// [cache]: crate::guide::cache
/// [cache-caveats]: crate::guide::cache#caveats
/// [cache-guarantees]: crate::guide::cache#guarantees
/// [config]: crate::guide::config
/// [from-curator]: crate::guide::from_curator#caches
/// [paths]: crate::guide::counters#which-recipe-may-live-at-whose-path
#[doc = include_str!("../docs/typed-cache.md")]
pub mod typed_cache {}

/// The settings of a service: one node, decoded, and kept up to date.
///
/// [from-curator]: crate::guide::from_curator#caches
/// [paths]: crate::guide::counters#which-recipe-may-live-at-whose-path
/// [testing-config]: crate::guide::testing#settings-that-change
#[doc = include_str!("../docs/config.md")]
pub mod config {}

/// Numbers, values and ids that many processes change.
///
/// [compression]: crate::guide::interop#compression
/// [config]: crate::guide::config
/// [mutex]: crate::guide::mutex
/// [retries]: crate::guide::retries
#[doc = include_str!("../docs/counters.md")]
pub mod counters {}

/// Nodes that the client recreates when they are lost, and groups of processes.
///
/// [cache]: crate::guide::cache
/// [from-curator]: crate::guide::from_curator#persistent-nodes-and-group-members
#[doc = include_str!("../docs/persistent-node.md")]
pub mod persistent_node {}

/// Barriers, a queue of tasks, and a node with a time to live: short compositions of the public API.
///
/// [barrier]: crate::guide#pages-in-the-repository
/// [cache]: crate::guide::cache
/// [double-barrier]: crate::guide#pages-in-the-repository
/// [example]: crate::guide#pages-in-the-repository
/// [fencing]: crate::guide::fencing
/// [groups]: crate::guide::persistent_node#groups
/// [persistent-node]: crate::guide::persistent_node
/// [retries]: crate::guide::retries
/// [servers]: crate::guide#pages-in-the-repository
/// [task-queue]: crate::guide#pages-in-the-repository
/// [ttl-node]: crate::guide#pages-in-the-repository
#[doc = include_str!("../docs/compositions.md")]
pub mod compositions {}

/// Retry policies: of a client, of one lock, of one call.
///
/// [counters]: crate::guide::counters
#[doc = include_str!("../docs/retries.md")]
pub mod retries {}

/// Running a service in production: timeouts, starting and stopping, Kubernetes, and the log.
///
/// [assumptions]: crate::guide::guarantees#assumptions
/// [config-caveats]: crate::guide::config#caveats
/// [config-starting]: crate::guide::config#starting
/// [fencing]: crate::guide::fencing
/// [foreign]: crate::guide::guarantees#foreign-children
/// [leader-latch]: crate::guide::leader_latch
/// [lost-writes]: crate::guide::guarantees#an-ensemble-that-has-lost-writes
/// [fork]: crate::guide::guarantees#fork
/// [permissions]: crate::guide::guarantees#permissions
/// [retries]: crate::guide::retries
/// [revocation]: crate::guide::revocation
/// [alerts]: crate::guide#pages-in-the-repository
/// [dashboard]: crate::guide#pages-in-the-repository
/// [discovery]: crate::guide#pages-in-the-repository
/// [epoch]: crate::guide#pages-in-the-repository
/// [leader-selector]: crate::guide::leader_selector
/// [runbook]: crate::guide#pages-in-the-repository
/// [lies]: crate::guide::guarantees#servers-that-lie
/// [native]: crate::guide#pages-in-the-repository
/// [servers]: crate::guide#pages-in-the-repository
/// [service]: crate::guide#pages-in-the-repository
#[doc = include_str!("../docs/production.md")]
pub mod production {}

/// Other clients on the same path: Java Curator, kazoo, go-zookeeper.
///
/// [compositions]: crate::guide::compositions
/// [discovery-java]: crate::guide#pages-in-the-repository
/// [fencing]: crate::guide::fencing
/// [java]: crate::guide::guarantees#java-curator-on-the-same-path
/// [multi-lock-caveats]: crate::guide::multi_lock#caveats
/// [receipts]: crate::guide::counters#exactly-once
/// [semaphore-caveats]: crate::guide::semaphore#caveats
/// [sequence-overflow]: crate::guide::guarantees#sequence-overflow
#[doc = include_str!("../docs/interop.md")]
pub mod interop {}

/// For users of Java Curator: the counterpart of each class and method.
///
/// [an-ensemble-that-changes]: crate::guide::production#an-ensemble-that-changes
/// [cache]: crate::guide::cache
/// [compositions]: crate::guide::compositions
/// [compression]: crate::guide::interop#compression
/// [config]: crate::guide::config
/// [fencing]: crate::guide::fencing
/// [java]: crate::guide::guarantees#java-curator-on-the-same-path
/// [counters]: crate::guide::counters
/// [leader-latch]: crate::guide::leader_latch
/// [leader-selector]: crate::guide::leader_selector
/// [multi-lock-java]: crate::guide::multi_lock#java-curator
/// [mutex-java]: crate::guide::mutex#java-curator
/// [persistent-node]: crate::guide::persistent_node
/// [read-write-java]: crate::guide::read_write#java-curator
/// [semaphore-java]: crate::guide::semaphore#java-curator
/// [session-lease]: crate::guide::guarantees#the-session-lease
/// [shards]: crate::guide::shards
/// [testing]: crate::guide::testing
/// [tls]: crate::guide::production#tls
/// [typed-cache]: crate::guide::typed_cache
/// [discovery]: crate::guide#pages-in-the-repository
#[doc = include_str!("../docs/from-curator.md")]
pub mod from_curator {}

/// Testing your own service, with the crate `curator-test`.
#[allow(
    clippy::test_attr_in_doctest,
    reason = "shows whole tests; `curator-pages` runs them"
)]
#[doc = include_str!("../docs/testing.md")]
pub mod testing {}
