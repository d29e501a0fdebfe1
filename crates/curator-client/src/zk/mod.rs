//! The adapter for `zookeeper-client`: no other files of this crate use it.
//!
//! `zookeeper-client` handles the wire protocol well; these files work around its faults.
//!
//! | fault of zookeeper-client 0.11 | workaround |
//! |---|---|
//! | requests are sent by the *call*, but some futures borrow the client | [`in_place`]: the future owns its client and is polled once at the call |
//! | it reconnects silently: without reporting the granted timeout, at its own pace, with watches that may exceed the request size, and reports that it is connected before it is | [`task`]: it never reconnects; `supervisor/resume.rs` does |
//! | a session that is resumed by its id may see an older state than it has seen | [`link`]: its first request is a write |
//! | a watcher panics when its session task has ended | [`task`], [`watch`]: the watcher is no longer polled then |
//! | it panics on a reply to `getData` without a stat, and on an empty path in the reply to a create | [`in_place`]: an error |
//! | one poll reads until there is nothing left to read | [`watchdog`]: shuts the socket down |
//! | it keeps a session alive for as long as the process lives | [`task`]: only while the supervisor probes it |
//! | a frame may be of any length, and is buffered | `supervisor.rs`: ends the task when its session has ended, or its connection has left probes unanswered for a long time |
//! | only EOF is `ConnectionLoss`; a reset or an idle timeout is `Custom` | [`convert`]: each is a lost connection |
//! | no `TCP_NODELAY` | [`sockets`]: finds the socket of a new connection |
//! | it notices expiry only after 1.4 T or more | `supervisor.rs`: the lease ends the session, and the supervisor immediately opens another session |
//! | operations queue without bound or timeout | `session/requests.rs`: sends nothing without a connection; a deadline for each request, and a cap |
//! | where the server returns no stat for a node that a transaction has created (ZOOKEEPER-4026), it returns a stat full of -1 | [`with_stats`](crate::transport::with_stats) reads the node's stat |
//! | a request larger than `jute.maxbuffer` breaks the connection and fails everything in flight | `session/requests.rs`: checks sizes first |
//! | a second `chroot` replaces the first instead of nesting in it | [`ZPath`](crate::ZPath) nests; the `chroot` of `zookeeper-client` is not used |
//! | it waits for a silent server longer than the whole connect may take | `pass.rs`: each server gets a share of the time |
//! | it connects to the first address of a name that accepts, even if that server is silent | `pass.rs`, `link/connect.rs`: resolve names, and pass one address at a time; not with TLS, which needs the name |
//! | it does not report which server failed, nor why | `pass.rs`: tries one server at a time, and `diagnosis.rs` examines a server that fails |
//! | it does not report why a TLS handshake failed | `diagnosis/handshake.rs`: makes a separate handshake |
//! | with TLS, it panics on a host name that no certificate can have | `client/builder/validate.rs`: refused |
//! | with TLS, it panics (in `rustls`) if two cryptography providers are compiled in and none is installed | `tls/options.rs`: installs one |
//! | its option to skip the check of the host name is `unsafe`, and wrong for TLS 1.3 | not used |
//! | an empty reply to SASL counts as success, so that a session may have no identity | [`link`]: the first probe of a connection verifies the identity |
//! | the user name of DIGEST-MD5 is not quoted, and Latin-1 text is hashed as UTF-8 | `sasl.rs`: refused |
//! | it does not report why GSSAPI cannot start | `sasl.rs`: checks for the ticket first |
//! | a TTL of less than a millisecond becomes no TTL at all | [`link`]: refused |
//! | dropping the last handle closes the session only in the background | `supervisor/resume.rs`: `close_session` waits for the server's confirmation |
//! | it uses freed memory when a persistent watcher is dropped while events are on the way, and a watch is set on their path | [`recursive_watch`]: an answered request between the removal and the next watch, in a session without one-shot watches |
//! | the same happens with one-shot watches of both kinds that are dropped on one path | [`unfired`]: the next watch there waits for two answered requests; with a watch request in flight, the connection is closed |
//! | a persistent watcher panics when it is polled after the end of its connection, and is not set again on the next one | [`recursive_watch`]: ends the watch at any session event |
//! | its event loop (`async-io`) never works in a process that had no descriptor left at its first use | `runtime.rs`: starts it when enough descriptors are free |
//! | `Client::lock` leaks its node when cancelled | not used |

mod convert;
mod in_place;
pub(crate) mod link;
mod multi;
pub(crate) mod recursive_watch;
mod sockets;
pub(crate) mod task;
mod unfired;
pub(crate) mod watch;
mod watchdog;
