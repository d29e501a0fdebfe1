//! Reserves ports, including while their server is down.

use std::{
    env,
    fs::{self, File},
    net::{Ipv4Addr, SocketAddr, TcpListener},
    os::fd::AsFd,
    path::PathBuf,
    sync::atomic::{AtomicU16, Ordering},
    time::SystemTime,
};

use crate::error::Error;

/// The first port. The range is below the one that systems use for outgoing connections, so that no
/// client of any program occupies one of its ports while a server restarts.
const FIRST: u16 = 12_000;
const COUNT: u16 = 16_000;

/// A port of the loopback interface, reserved among all processes that use this crate until this
/// value is dropped.
///
/// A killed server must restart on the same port, so a port that is only free at the moment is not
/// enough.
#[derive(Debug)]
pub(crate) struct Port {
    number: u16,
    /// Locked. The system releases the lock when the process ends in any way.
    _lock: File,
}

impl Port {
    /// Reserves a free port.
    pub(crate) fn reserve() -> Result<Self, Error> {
        // Processes that start at the same time begin their search at different numbers, so that
        // they seldom collide.
        static NEXT: AtomicU16 = AtomicU16::new(0);
        let nanos = SystemTime::UNIX_EPOCH
            .elapsed()
            .map_or(0, |t| t.subsec_nanos());
        let start = (std::process::id().wrapping_mul(7919) ^ nanos) % u32::from(COUNT);
        let _ = NEXT.compare_exchange(0, start as u16, Ordering::Relaxed, Ordering::Relaxed);
        let dir = lock_dir();
        fs::create_dir_all(&dir).map_err(Error::io("create a directory for port locks"))?;
        for _ in 0..COUNT {
            let number = FIRST + NEXT.fetch_add(1, Ordering::Relaxed) % COUNT;
            let Ok(lock) = File::create(dir.join(number.to_string())) else {
                continue;
            };
            if lock.try_lock().is_ok()
                && let Ok(listener) = TcpListener::bind((Ipv4Addr::LOCALHOST, number))
            {
                stop_listening(&listener);
                return Ok(Self {
                    number,
                    _lock: lock,
                });
            }
        }
        Err(Error::Timeout {
            what: "a free port".to_owned(),
            waited: std::time::Duration::ZERO,
        })
    }

    /// The port's number.
    pub(crate) fn number(&self) -> u16 {
        self.number
    }

    /// The port on the loopback interface.
    pub(crate) fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.number).into()
    }
}

/// Makes a socket stop listening, before it is closed.
///
/// Closing it is not enough: a process that is being started has a copy of the socket for a moment.
/// Until that copy is closed, the port would stay occupied, and the system would accept
/// connections.
pub(crate) fn stop_listening(listener: impl AsFd) {
    // Systems other than Linux return an error, which does no harm.
    let _: Result<(), _> = rustix::net::shutdown(listener, rustix::net::Shutdown::Both);
}

/// One directory per user, since another user's files cannot be locked.
fn lock_dir() -> PathBuf {
    env::temp_dir().join(format!(
        "curator-test-ports-{}",
        rustix::process::getuid().as_raw()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reserved_port_is_not_reserved_again() {
        let ports: Vec<Port> = (0..20).map(|_| Port::reserve().unwrap()).collect();
        let mut numbers: Vec<u16> = ports.iter().map(Port::number).collect();
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!(numbers.len(), 20);
    }
}
