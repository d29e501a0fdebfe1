//! Forked children of a test's process.
#![expect(unsafe_code, reason = "the system calls are unsafe; see the comments")]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};

use super::DEFAULT_TIMEOUT;

unsafe extern "C" {
    fn fork() -> i32;
    fn _exit(code: i32) -> !;
}

/// Runs `work` in a forked child, and waits until the child ends. Asserts that `work` has not
/// panicked.
///
/// The child has copies of everything, but only the forking thread. So it hangs if another thread
/// holds a lock that `work` takes.
pub(crate) fn in_forked_child(work: impl FnOnce()) {
    // SAFETY: the child has all of this process's memory. The missing threads act like threads that
    // are never scheduled again: a lock that they hold stays held.
    let pid = unsafe { fork() };
    if pid == 0 {
        let panicked = catch_unwind(AssertUnwindSafe(work)).is_err();
        // SAFETY: ends the process immediately, without the destructors, which only the parent may
        // run.
        unsafe { _exit(i32::from(panicked)) }
    }
    let child = Child(Pid::from_raw(pid).unwrap());
    let end = Instant::now() + DEFAULT_TIMEOUT;
    let status = loop {
        if let Some((_, status)) = waitpid(Some(child.0), WaitOptions::NOHANG).unwrap() {
            break status;
        }
        assert!(Instant::now() < end, "the child does not end");
        std::thread::sleep(Duration::from_millis(1));
    };
    assert_eq!(status.exit_status(), Some(0), "the child has failed");
}

/// Killed on drop, if it has not ended.
struct Child(Pid);

impl Drop for Child {
    fn drop(&mut self) {
        let _ended = kill_process(self.0, Signal::KILL);
    }
}
