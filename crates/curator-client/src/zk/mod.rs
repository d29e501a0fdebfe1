//! The adapter: the only files that name `zookeeper_client`, apart from the data types in `operation.rs`.
//!
//! The client crate is good at the wire; these files work around what it is not good at.
//!
//! | fault of zookeeper-client 0.11 | where it is dealt with |
//! |---|---|
//! | requests are sent by the *call*, but some futures borrow the client | [`start`]: the future owns its client and is polled once at the call |
//! | it reconnects without a word about the timeout that is granted, in its own time, with watches that may not fit, and says that it is connected before it is | [`task`]: it never reconnects; `connection.rs` does |
//! | a session that is resumed by its id may see an older state than it has seen | [`link`]: its first request is a write |
//! | a watcher panics when its session task is gone | [`task`], [`watch`]: it is not polled any more then |
//! | an answer to `getData` without a stat panics | [`start`]: an error |
//! | a frame may be of any length, and is buffered | `supervisor.rs`: the task of a session that is over is ended |
//! | only an end of file is `ConnectionLoss`; a reset or an idle time-out is `Custom` | [`error`] |
//! | no `TCP_NODELAY` | [`nodelay`] |
//! | expiry noticed only at 1.4 T and more | `supervisor.rs`: the lease ends the session, a new client tries at once |
//! | operations queue without bound or time-out | `session/requests.rs`: nothing is sent without a connection; a deadline for each request, and a cap |
//! | where the server gives no stat of a node that a transaction has created (ZOOKEEPER-4026), it gives one of -1 | [`created`]: the node is looked at |
//! | a request over `jute.maxbuffer` kills the connection and all that is in flight | `session/requests.rs`: sizes are checked first |
//! | `chroot` replaces, it does not nest | [`ZPath`](crate::ZPath) nests; the crate's own chroot is not used |
//! | a server that says nothing is waited for longer than a whole connect may take | [`link`]: each server gets its share |
//! | a TTL under a millisecond is none at all | [`link`]: refused |
//! | dropping the last handle closes the session in the background only | `connection.rs`: `close` waits for the server's word |
//! | a one-shot watch kills a persistent one on the same path (ZOOKEEPER-4466) | one-shot watches only |
//! | `Client::lock` leaks its node when cancelled | not used |

mod created;
pub(crate) mod error;
pub(crate) mod link;
mod multi;
mod nodelay;
mod start;
pub(crate) mod task;
pub(crate) mod watch;
