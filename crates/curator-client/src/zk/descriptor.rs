//! The only `unsafe` code of the project: system calls for a socket that we do not own.

#![expect(unsafe_code, reason = "see the safety comment")]

use std::net::SocketAddr;
use std::os::fd::{BorrowedFd, RawFd};

use super::sockets::Action;

/// Does this to the descriptor `number` of this process, if it is a TCP socket whose peer is `wanted`. Returns whether it was
/// done.
///
/// Nothing is read from the descriptor, written to it, duplicated or closed.
pub(super) fn act_if(number: RawFd, wanted: impl FnOnce(SocketAddr) -> bool, action: Action) -> bool {
    // -1 is not a descriptor, and must not be borrowed.
    if number < 0 {
        return false;
    }
    // SAFETY: the number is not -1. The descriptor may be closed by its owner in the meantime, and the number may come
    // to refer to another one: no memory is reached through it, and the borrow ends with this function. It is used only
    // for two system calls, `getpeername` and one of `setsockopt(TCP_NODELAY)` and `shutdown`, which fail on a closed
    // descriptor and on anything that is not a socket. At worst, another socket that came by the number between
    // the two sends its small segments sooner, or is shut down.
    let descriptor = unsafe { BorrowedFd::borrow_raw(number) };
    let peer = rustix::net::getpeername(descriptor).ok().flatten().and_then(|peer| SocketAddr::try_from(peer).ok());
    peer.is_some_and(wanted)
        && match action {
            Action::SetNodelay => rustix::net::sockopt::set_tcp_nodelay(descriptor, true).is_ok(),
            Action::ShutDown => rustix::net::shutdown(descriptor, rustix::net::Shutdown::Both).is_ok(),
        }
}
