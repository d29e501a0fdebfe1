//! Borrows a socket that `zookeeper-client` owns, for system calls. Contains `unsafe` code.

#![expect(unsafe_code, reason = "see the safety comment")]

use std::net::SocketAddr;
use std::os::fd::{BorrowedFd, RawFd};

use rustix::io::ioctl_fionread;
use rustix::net::sockopt::{set_tcp_nodelay, socket_type, tcp_nodelay};
use rustix::net::{Shutdown, SocketType, getpeername, shutdown};

use super::Action;

/// Performs `action` on the descriptor `number` of this process, if it is a TCP socket whose peer
/// is `wanted`. Returns whether that changed the socket.
pub(super) fn act_if(
    number: RawFd,
    wanted: impl FnOnce(SocketAddr) -> bool,
    action: Action,
) -> bool {
    with(number, |descriptor| {
        peer(descriptor).is_some_and(wanted)
            && match action {
                Action::SetNodelay => {
                    tcp_nodelay(descriptor) == Ok(false)
                        && set_tcp_nodelay(descriptor, true).is_ok()
                }
                Action::ShutDown => shutdown(descriptor, Shutdown::Both).is_ok(),
            }
    })
}

/// The number of bytes that the descriptor `number` of this process has received, and that were not
/// read yet, if it is a TCP socket whose peer is `wanted`.
pub(super) fn unread(number: RawFd, wanted: impl FnOnce(SocketAddr) -> bool) -> Option<u64> {
    with(number, |descriptor| {
        peer(descriptor).filter(|peer| wanted(*peer))?;
        ioctl_fionread(descriptor).ok()
    })
}

/// Whether the descriptor `number` of this process is a stream socket.
pub(super) fn is_stream(number: RawFd) -> bool {
    with(number, |descriptor| {
        socket_type(descriptor) == Ok(SocketType::STREAM)
    })
}

fn peer(descriptor: BorrowedFd<'_>) -> Option<SocketAddr> {
    getpeername(descriptor)
        .ok()
        .flatten()
        .and_then(|peer| SocketAddr::try_from(peer).ok())
}

/// Calls `call` with the descriptor. `call` must not read from it, write to it, duplicate it or
/// close it.
fn with<T: Default>(number: RawFd, call: impl FnOnce(BorrowedFd<'_>) -> T) -> T {
    // -1 is not a descriptor, and must not be borrowed.
    if number < 0 {
        return T::default();
    }
    // SAFETY: the number is not -1. Its owner may close the descriptor in the meantime, and the
    // number may then refer to another one: no memory is reached through it, and the borrow ends
    // with this function. It is used only for `getpeername`, `getsockopt`,
    // `setsockopt(TCP_NODELAY)` and `shutdown`, which fail on a closed descriptor and on anything
    // that is not a socket, and for `ioctl(FIONREAD)`, which changes nothing. At worst, another
    // socket that gets the number after `getpeername` sends its small segments sooner, or is shut
    // down.
    call(unsafe { BorrowedFd::borrow_raw(number) })
}
