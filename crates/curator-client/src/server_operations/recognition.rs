//! Recognizes the servers other than ZooKeeper by their sessions.

/// Session ids below this are rarely ZooKeeper's.
const ZOOKEEPER_IDS: u64 = 1 << 32;

/// The password in the reply to the handshake with a server that has no passwords.
const NO_PASSWORD: [u8; 16] = [0; 16];

/// Whether the server of the session with this id and password is another one than ZooKeeper, so that
/// it may leave unknown operations without a reply. The password is `None` if the transport hides it.
///
/// A server of ZooKeeper composes its ids from its number, in the highest byte, and the time in
/// milliseconds, above the lowest 16 bits (`SessionTrackerImpl.initializeNextSessionId`). Its
/// passwords are random. ClickHouse Keeper and `RaftKeeper` count from 1, and their passwords are 16
/// zeros. A ClickHouse Keeper with the data of a ZooKeeper (`clickhouse-keeper-converter`) counts
/// from that ZooKeeper's ids, so only the password shows that it is one.
///
/// That time counts from the start of the machine. So a ZooKeeper server whose number is 0 or a
/// multiple of 256 has small ids, too, if it was started within the first minute. It is then asked as
/// well, which needs a few more sessions and changes nothing.
pub(crate) fn is_other_server(session_id: i64, password: Option<&[u8]>) -> bool {
    session_id.unsigned_abs() < ZOOKEEPER_IDS
        || password.is_some_and(|password| password == NO_PASSWORD.as_slice())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_session_ids_of_zookeeper_are_large_and_its_passwords_are_not_zero() {
        // As in ZooKeeper's `SessionTrackerImpl`, five minutes after the start of the machine.
        let zookeeper = |server: i64| (300_000_i64 << 16) | (server << 56);
        for id in [zookeeper(0), zookeeper(1), zookeeper(255)] {
            assert!(!is_other_server(id, None), "{id:#x}");
            assert!(!is_other_server(id, Some(&[7; 16])), "{id:#x}");
            // A ClickHouse Keeper that continues the ids of a ZooKeeper.
            assert!(is_other_server(id, Some(&[0; 16])), "{id:#x}");
        }
        for id in [1, 2, 1_000_000_000] {
            assert!(is_other_server(id, None), "{id:#x}");
        }
    }
}
