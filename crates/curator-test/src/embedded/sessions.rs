//! The sessions of a server and their expiry, and the connections that use them.

use std::{collections::BTreeMap, net::SocketAddr};

use super::acl::Id;
use crate::OpCode;

/// A time on a monotonic clock, or a duration, in milliseconds.
pub(crate) type Millis = u64;

/// All sessions that exist, connected or not.
///
/// As on the real server, expiry is rounded up to whole ticks, so a session ends up to one tick
/// after its timeout.
#[derive(Debug)]
pub(crate) struct Sessions {
    by_id: BTreeMap<i64, Session>,
    secret: u64,
    tick: Millis,
}

#[derive(Debug)]
struct Session {
    /// The timeout at the session's creation. A client that reconnects may get another timeout.
    timeout: Millis,
    expires: Millis,
    /// The session has ended for its client: nothing renews it.
    has_ended: bool,
}

impl Sessions {
    /// Passwords are derived from `secret`.
    pub(crate) fn new(secret: u64, tick: Millis) -> Self {
        Self {
            by_id: BTreeMap::new(),
            secret,
            tick: tick.max(1),
        }
    }

    pub(crate) fn create(&mut self, id: i64, timeout: Millis, now: Millis) {
        self.by_id.insert(
            id,
            Session {
                timeout,
                expires: 0,
                has_ended: false,
            },
        );
        self.touch(id, timeout, now);
    }

    /// Renews a session. Returns false if it does not exist, or has ended for its client.
    pub(crate) fn touch(&mut self, id: i64, timeout: Millis, now: Millis) -> bool {
        let expires = expiry(timeout, now, self.tick);
        let session = self.by_id.get_mut(&id).filter(|session| !session.has_ended);
        session.map(|session| session.expires = expires).is_some()
    }

    /// Ends a session for its client, but keeps its nodes. Returns false if the session does not
    /// exist or had already ended.
    pub(crate) fn end(&mut self, id: i64) -> bool {
        self.by_id
            .get_mut(&id)
            .is_some_and(|session| !std::mem::replace(&mut session.has_ended, true))
    }

    /// Expires a session in one to two ticks, so that its client, which has been notified of the
    /// end, has time to react.
    pub(crate) fn expire_soon(&mut self, id: i64, now: Millis) {
        if let Some(session) = self.by_id.get_mut(&id) {
            session.expires = expiry(self.tick, now, self.tick);
        }
    }

    /// Whether a session has [ended](Self::end) for its client, and its nodes still exist.
    pub(crate) fn has_ended(&self, id: i64) -> bool {
        self.by_id.get(&id).is_some_and(|session| session.has_ended)
    }

    /// Restarts all timeouts, as a restarted server does: it knows only the sessions'
    /// timeouts.
    pub(crate) fn touch_all(&mut self, now: Millis) {
        for session in self.by_id.values_mut() {
            session.expires = expiry(session.timeout, now, self.tick);
        }
    }

    /// Restarts all timeouts at a new leader, which does not know which sessions were about to end.
    #[cfg(feature = "simulation")]
    pub(crate) fn restart(&mut self, now: Millis) {
        self.by_id
            .values_mut()
            .for_each(|session| session.has_ended = false);
        self.touch_all(now);
    }

    pub(crate) fn remove(&mut self, id: i64) {
        self.by_id.remove(&id);
    }

    pub(crate) fn exists(&self, id: i64) -> bool {
        self.by_id.contains_key(&id)
    }

    pub(crate) fn ids(&self) -> impl Iterator<Item = i64> {
        self.by_id.keys().copied()
    }

    /// The expired sessions, in the order of their expiry.
    pub(crate) fn expired(&self, now: Millis) -> Vec<i64> {
        let mut expired: Vec<_> = self
            .by_id
            .iter()
            .filter(|(_, session)| session.expires <= now)
            .collect();
        expired.sort_by_key(|(_, session)| session.expires);
        expired.into_iter().map(|(id, _)| *id).collect()
    }

    /// When the next session expires, unless a client renews it.
    pub(crate) fn next_expiry(&self) -> Option<Millis> {
        self.by_id.values().map(|session| session.expires).min()
    }

    /// When the next of the sessions that `includes` accepts expires, unless a client renews it.
    #[cfg(feature = "simulation")]
    pub(crate) fn next_expiry_of(&self, includes: impl Fn(i64) -> bool) -> Option<Millis> {
        self.by_id
            .iter()
            .filter(|(id, _)| includes(**id))
            .map(|(_, session)| session.expires)
            .min()
    }

    /// The password that a client needs to resume the session.
    pub(crate) fn password(&self, id: i64) -> [u8; 16] {
        let mut password = [0; 16];
        let half = |salt: u64| mix(self.secret ^ mix(id.cast_unsigned() ^ salt)).to_be_bytes();
        password[..8].copy_from_slice(&half(1));
        password[8..].copy_from_slice(&half(2));
        password
    }
}

/// When a session expires if it is not renewed after `now`.
fn expiry(timeout: Millis, now: Millis, tick: Millis) -> Millis {
    ((now + timeout) / tick + 1) * tick
}

/// Spreads the bits of a number (`SplitMix64`). Nothing here needs a stronger hash.
fn mix(seed: u64) -> u64 {
    let mut z = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Identifies a connection. Later connections have greater numbers.
pub(crate) type ConnectionId = u64;

/// A connected client. Its watches are kept elsewhere.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) peer: SocketAddr,
    /// `None` before the handshake, and if the server has refused the session.
    pub(crate) session: Option<Attached>,
    /// The ended session that this client tried to resume, while the session's nodes still exist.
    pub(crate) refused_session: Option<i64>,
    pub(crate) received_handshake: bool,
    /// The connection closes after its queued output, and the server reads nothing more from it.
    pub(crate) is_closing: bool,
    pub(crate) identities: Vec<Id>,
    pub(crate) received: u64,
    pub(crate) sent: u64,
    pub(crate) last_zxid: i64,
    pub(crate) last_xid: i32,
    pub(crate) last_op: OpCode,
    /// In milliseconds since 1970.
    pub(crate) established: i64,
    pub(crate) last_response: i64,
}

/// The session of a connection.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Attached {
    pub(crate) id: i64,
    pub(crate) timeout: Millis,
}

impl Connection {
    pub(crate) fn new(peer: SocketAddr, now: i64) -> Self {
        Self {
            peer,
            session: None,
            refused_session: None,
            received_handshake: false,
            is_closing: false,
            identities: vec![Id::of_address(peer.ip())],
            received: 0,
            sent: 0,
            last_zxid: 0,
            last_xid: 0,
            last_op: OpCode::CreateSession,
            established: now,
            last_response: now,
        }
    }

    pub(crate) fn session_id(&self) -> i64 {
        self.session.map_or(0, |session| session.id)
    }

    /// Adds an identity that the client has proved.
    pub(crate) fn add_identity(&mut self, id: Id) {
        if !self.identities.contains(&id) {
            self.identities.push(id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_expires_at_the_end_of_the_tick_of_its_timeout() {
        let mut sessions = Sessions::new(1, 100);
        sessions.create(7, 250, 10);
        assert_eq!(sessions.next_expiry(), Some(300));
        assert_eq!(sessions.expired(299), []);
        assert_eq!(sessions.expired(300), [7]);
        assert!(sessions.touch(7, 250, 250));
        assert_eq!(sessions.expired(300), []);
        assert_eq!(sessions.expired(600), [7]);
        sessions.remove(7);
        assert!(!sessions.touch(7, 250, 250) && !sessions.exists(7));
    }

    #[test]
    fn the_session_with_the_earliest_deadline_expires_first() {
        let mut sessions = Sessions::new(1, 100);
        sessions.create(1, 500, 0);
        sessions.create(2, 200, 0);
        assert_eq!(sessions.expired(1000), [2, 1]);
        sessions.touch(1, 5000, 1000);
        sessions.touch_all(1000);
        assert_eq!(sessions.expired(1299), []);
        assert_eq!(sessions.expired(1600), [2, 1]);
    }

    #[test]
    fn a_session_that_has_ended_for_its_client_is_not_renewed_and_expires_in_time() {
        let mut sessions = Sessions::new(1, 100);
        sessions.create(7, 250, 10);
        assert!(!sessions.has_ended(7) && sessions.end(7));
        assert!(sessions.has_ended(7) && !sessions.end(7) && !sessions.touch(7, 250, 200));
        assert_eq!(
            (sessions.expired(299), sessions.expired(300)),
            (vec![], vec![7])
        );
        // A restart of the server renews all sessions.
        sessions.touch_all(1000);
        assert_eq!(
            (sessions.expired(1299), sessions.expired(1300)),
            (vec![], vec![7])
        );
        sessions.expire_soon(7, 1099);
        assert_eq!(
            (sessions.expired(1199), sessions.expired(1200)),
            (vec![], vec![7])
        );
        sessions.remove(7);
        assert!(!sessions.has_ended(7) && !sessions.end(7));
    }
}
