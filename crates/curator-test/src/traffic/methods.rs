//! The methods of a type that carries frames: faults at chosen requests, and counts.

use std::time::Duration;

/// The time limit of a wait for a frame.
pub(crate) const WAIT_LIMIT: Duration = Duration::from_secs(30);

/// Adds the methods to a type that has `read_traffic` and `change_traffic`, which call a closure
/// with the [`Traffic`](super::Traffic), and `wait_for_traffic`, which waits for at most
/// [`WAIT_LIMIT`] until a condition holds.
macro_rules! traffic_methods {
    ($carrier:ty) => {
        /// # Faults at chosen requests, and counts
        impl $carrier {
            /// The reply to the next request of this kind is lost. The connection stays open.
            pub fn swallow_next_reply(&self, op: crate::OpCode) {
                self.swallow_nth_reply(op, 1);
            }

            /// The reply to the `nth` request of this kind is lost. The connection stays open.
            pub fn swallow_nth_reply(&self, op: crate::OpCode, nth: u64) {
                self.change_traffic(|traffic| {
                    traffic
                        .faults
                        .arm(op, nth, crate::traffic::Fault::SwallowReply)
                });
            }

            /// Changes the reply to the next request of this kind, as a faulty server or network
            /// might.
            ///
            /// `alter` gets the reply without its length: 4 bytes of xid, 8 of zxid, 4 of error
            /// code, and then the body. (The reply to a handshake has no such header.) The length
            /// is adjusted. In a simulation, `alter` must not call a method of the simulation.
            pub fn alter_next_reply(
                &self,
                op: crate::OpCode,
                alter: impl FnOnce(&mut Vec<u8>) + Send + 'static,
            ) {
                self.alter_nth_reply(op, 1, alter);
            }

            /// Like [`alter_next_reply`](Self::alter_next_reply), but for the `nth` request of this
            /// kind, counted from 1.
            pub fn alter_nth_reply(
                &self,
                op: crate::OpCode,
                nth: u64,
                alter: impl FnOnce(&mut Vec<u8>) + Send + 'static,
            ) {
                self.change_traffic(|traffic| traffic.faults.arm_alteration(op, nth, alter));
            }

            /// The next request of this kind is sent to the server and applied. Instead of its
            /// reply, the connection is closed.
            pub fn cut_before_reply(&self, op: crate::OpCode) {
                self.cut_before_nth_reply(op, 1);
            }

            /// The `nth` request of this kind is sent to the server and applied. Instead of its
            /// reply, the connection is closed.
            pub fn cut_before_nth_reply(&self, op: crate::OpCode, nth: u64) {
                self.change_traffic(|traffic| {
                    traffic.faults.arm(op, nth, crate::traffic::Fault::CutReply)
                });
            }

            /// The reply to the `nth` request of this kind is delivered, then the connection is
            /// closed. Later requests may reach the server; their replies are lost.
            pub fn cut_after_nth_reply(&self, op: crate::OpCode, nth: u64) {
                self.change_traffic(|traffic| {
                    traffic
                        .faults
                        .arm(op, nth, crate::traffic::Fault::CutBehindReply)
                });
            }

            /// The next request of this kind is not sent to the server; the connection is closed
            /// instead. Earlier requests do reach the server, but their replies may be lost.
            pub fn cut_before_request(&self, op: crate::OpCode) {
                self.change_traffic(|traffic| {
                    traffic.faults.arm(op, 1, crate::traffic::Fault::CutRequest)
                });
            }

            /// Like [`cut_before_request`](Self::cut_before_request), but for the `nth` request of
            /// this kind, counted from 1.
            pub fn cut_before_nth_request(&self, op: crate::OpCode, nth: u64) {
                self.change_traffic(|traffic| {
                    traffic
                        .faults
                        .arm(op, nth, crate::traffic::Fault::CutRequest)
                });
            }

            /// The reply to the `nth` request of this kind is delayed by `delay`, at most a year,
            /// and so is everything after it on the same connection, since replies keep their
            /// order.
            pub fn delay_nth_reply(&self, op: crate::OpCode, nth: u64, delay: std::time::Duration) {
                self.change_traffic(|traffic| {
                    traffic.faults.arm(
                        op,
                        nth,
                        crate::traffic::Fault::DelayReply(delay.min(crate::ports::LONGEST_DELAY)),
                    )
                });
            }

            /// The reply to the `nth` request of this kind is held, with everything after it on the
            /// same connection, until [`release_held`](Self::release_held) is called after its
            /// arrival. Other replies of this kind are not held.
            pub fn hold_nth_reply(&self, op: crate::OpCode, nth: u64) {
                self.change_traffic(|traffic| {
                    traffic
                        .faults
                        .arm(op, nth, crate::traffic::Fault::HoldReply)
                });
            }

            /// Removes the faults that wait for their request. Held replies stay held.
            pub fn disarm(&self) {
                self.change_traffic(|traffic| traffic.faults.disarm());
            }

            /// From now on, replies to requests of this kind are held, with everything after them
            /// on the same connection, until [`release_held`](Self::release_held). That includes
            /// replies to requests in flight.
            pub fn hold_replies(&self, op: crate::OpCode) {
                self.change_traffic(|traffic| traffic.faults.hold(op));
            }

            /// Delivers everything that is held, and ends [`hold_replies`](Self::hold_replies).
            pub fn release_held(&self) {
                self.change_traffic(|traffic| traffic.faults.release());
            }

            /// Waits until no fault is armed: all the requests that faults were armed for have
            /// arrived. Their replies may still be in flight. [`disarm`](Self::disarm) ends the
            /// wait too.
            ///
            /// # Errors
            ///
            /// [`Error::Timeout`](crate::Error::Timeout) after 30 s.
            pub async fn wait_for_faults(&self) -> Result<(), crate::Error> {
                self.wait_for_traffic(
                    "the requests that faults are armed for".to_owned(),
                    |traffic| !traffic.faults.is_armed(),
                )
                .await
            }

            /// Waits until this many requests of this kind were sent on to the server, counted
            /// since the start or the last [`reset_counts`](Self::reset_counts).
            ///
            /// # Errors
            ///
            /// [`Error::Timeout`](crate::Error::Timeout) after 30 s.
            pub async fn wait_for_request(
                &self,
                op: crate::OpCode,
                count: u64,
            ) -> Result<(), crate::Error> {
                self.wait_for_traffic(format!("{count} × {op:?} sent to the server"), |traffic| {
                    traffic.counts.forwarded(op) >= count
                })
                .await
            }

            /// Waits until the server has replied to this many requests of this kind, whether or
            /// not the replies are delivered. Counted as in
            /// [`wait_for_request`](Self::wait_for_request).
            ///
            /// # Errors
            ///
            /// [`Error::Timeout`](crate::Error::Timeout) after 30 s.
            pub async fn wait_for_reply(
                &self,
                op: crate::OpCode,
                count: u64,
            ) -> Result<(), crate::Error> {
                self.wait_for_traffic(
                    format!("{count} × {op:?} answered by the server"),
                    |traffic| traffic.counts.answered(op) >= count,
                )
                .await
            }

            /// Waits until exactly this many connections are open.
            ///
            /// # Errors
            ///
            /// [`Error::Timeout`](crate::Error::Timeout) after 30 s.
            pub async fn wait_for_connections(&self, count: usize) -> Result<(), crate::Error> {
                self.wait_for_traffic(format!("{count} connections"), |traffic| {
                    traffic.connections() == count
                })
                .await
            }

            /// How many requests of each kind have arrived from clients, whether or not they were
            /// sent on. Pings and handshakes are counted separately.
            #[must_use]
            pub fn requests(&self) -> std::collections::BTreeMap<crate::OpCode, u64> {
                self.read_traffic(|traffic| traffic.counts.requests())
            }

            /// How many pings have arrived from clients.
            #[must_use]
            pub fn pings(&self) -> u64 {
                self.read_traffic(|traffic| traffic.counts.arrived(crate::OpCode::Ping))
            }

            /// How many handshakes have arrived from clients: one for each connection.
            #[must_use]
            pub fn handshakes(&self) -> u64 {
                self.read_traffic(|traffic| traffic.counts.arrived(crate::OpCode::CreateSession))
            }

            /// How many connections are open.
            #[must_use]
            pub fn connections(&self) -> usize {
                self.read_traffic(|traffic| traffic.connections())
            }

            /// How many watch events have arrived from the server, whether or not they were
            /// delivered.
            ///
            /// The server sends one event to each session, however many tasks of the session wait
            /// for the same node. So this counts the sessions that a change has woken.
            #[must_use]
            pub fn notifications(&self) -> u64 {
                self.read_traffic(|traffic| traffic.counts.notifications())
            }

            /// How many bytes of frames have arrived from clients, without the length fields,
            /// whether or not they were sent on. Includes pings and handshakes.
            #[must_use]
            pub fn bytes_sent(&self) -> u64 {
                self.read_traffic(|traffic| traffic.counts.sent())
            }

            /// How many bytes of frames have arrived from the server, whether or not they were
            /// delivered.
            #[must_use]
            pub fn bytes_received(&self) -> u64 {
                self.read_traffic(|traffic| traffic.counts.received())
            }

            /// How many round trips clients have waited for. Requests that are sent without waiting
            /// for each other count as one *pipeline*.
            ///
            /// A pipeline starts with a request that arrives after a reply to the same connection's
            /// previous pipeline was delivered, since the request may depend on that reply. Pings,
            /// handshakes and requests excluded with [`ignore`](Self::ignore) do not count. The
            /// result is the sum over all connections.
            ///
            /// On loopback, a fast server may reply to the first of two pipelined requests before
            /// the client has sent the second. A delay of a few milliseconds makes the count exact.
            #[must_use]
            pub fn round_trips(&self) -> u64 {
                self.read_traffic(|traffic| traffic.counts.round_trips())
            }

            /// Excludes a kind of request from [`round_trips`](Self::round_trips), for background
            /// work such as probes with [`OpCode::Sync`](crate::OpCode::Sync).
            pub fn ignore(&self, op: crate::OpCode) {
                self.change_traffic(|traffic| traffic.counts.ignore(op));
            }

            /// From now on, requests for exactly this path are sent on without being counted, and
            /// faults with an [`OpCode`](crate::OpCode) ignore them. A request with several
            /// operations, such as a transaction, is exempt if its first operation has this path.
            /// So a test can exempt the path of background requests, such as probes, and still
            /// count and disturb other requests with the same [`OpCode`](crate::OpCode). Handshakes
            /// have no path.
            pub fn exempt_path(&self, path: &str) {
                self.change_traffic(|traffic| traffic.faults.exempt_paths.insert(path.into()));
            }

            /// Sets all counts to zero. The next request on each connection starts a pipeline.
            pub fn reset_counts(&self) {
                self.change_traffic(crate::traffic::Traffic::reset_counts);
            }

            /// The sessions that servers have granted to these clients, the latest last. Some may
            /// have ended.
            #[must_use]
            pub fn sessions(&self) -> Vec<crate::SessionCredentials> {
                self.read_traffic(|traffic| traffic.sessions.clone())
            }
        }
    };
}
pub(crate) use traffic_methods;
