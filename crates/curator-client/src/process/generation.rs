//! Reads, without a system call, this process's generation: a number that no ancestor process has.
//! Contains `unsafe` code.
//!
//! The generation is a number in a page that Linux clears in a forked child (`MADV_WIPEONFORK`,
//! since 4.14). A process that reads 0 takes the next number. This is the technique of `BoringSSL`,
//! in `fork_detect.c`.
//!
//! The first use maps the page, and it is never unmapped. If it cannot be mapped, as in a sandbox
//! or at a memory limit, the process and its descendants have no generation. The system calls are
//! `mmap`, `madvise` and `munmap`, which allocators make too. A sandbox that kills a process for an
//! unknown `madvise` advice must permit `MADV_WIPEONFORK`.
//!
//! No call waits for another thread: in a forked child, that thread may be missing.

#![expect(unsafe_code, reason = "see the safety comments")]

use std::ffi::c_void;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use std::{mem, ptr};

use rustix::io;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

/// The word that contains the generation: in the page, or one of the two statics below. Changes
/// once, from `NOT_MAPPED`. `fork` copies this pointer.
static WORD: AtomicPtr<AtomicU64> = AtomicPtr::new((&raw const NOT_MAPPED).cast_mut());
/// Stands for a page that is not mapped yet. Stays 0.
static NOT_MAPPED: AtomicU64 = AtomicU64::new(0);
/// Stands for a page that could not be mapped. Stays 0.
static NO_PAGE: AtomicU64 = AtomicU64::new(0);
/// The newest generation. `fork` copies it, so a child takes a greater generation than each of its
/// ancestors.
static NEWEST: AtomicU64 = AtomicU64::new(0);

/// The generation of this process; `None` if the page could not be mapped.
#[inline]
pub(super) fn current() -> Option<u64> {
    match word().load(Ordering::Relaxed) {
        0 => first_use(),
        generation => Some(generation),
    }
}

#[inline]
fn word() -> &'static AtomicU64 {
    // SAFETY: `WORD` points to a static, or to the word of a page that `map` has leaked.
    unsafe { &*WORD.load(Ordering::Acquire) }
}

#[cold]
fn first_use() -> Option<u64> {
    if ptr::eq(word(), &raw const NOT_MAPPED) {
        map();
    }
    let word = word();
    if ptr::eq(word, &raw const NO_PAGE) {
        return None;
    }
    Some(take_next(word, &NEWEST))
}

/// Sets `WORD`, unless another thread does it first.
fn map() {
    let page = Page::wiped_on_fork();
    let word = page.as_ref().map_or(&raw const NO_PAGE, Page::word);
    let before = (&raw const NOT_MAPPED).cast_mut();
    if WORD
        .compare_exchange(before, word.cast_mut(), Ordering::AcqRel, Ordering::Acquire)
        .is_ok()
    {
        mem::forget(page);
    }
}

/// Takes the next generation, unless another thread of this process does it first. Returns the
/// generation of the process.
fn take_next(word: &AtomicU64, newest: &AtomicU64) -> u64 {
    // `newest` grows before the generation is used, so every child that could inherit a value with
    // this generation takes a greater one.
    let next = newest.fetch_add(1, Ordering::AcqRel) + 1;
    word.compare_exchange(0, next, Ordering::AcqRel, Ordering::Acquire)
        .err()
        .unwrap_or(next)
}

/// A page of memory, full of zeros. Dropping it unmaps it.
#[derive(Debug)]
struct Page {
    address: *mut c_void,
}

/// The length of a mapping, which the kernel rounds up to a page.
const LENGTH: usize = size_of::<AtomicU64>();

impl Page {
    /// Maps a page that a forked child sees full of zeros.
    fn wiped_on_fork() -> io::Result<Self> {
        let page = Self::map(MapFlags::PRIVATE)?;
        page.wipe_on_fork()?;
        // An emulator may ignore advice and report success, as qemu did before 7.1. The kernel
        // refuses this advice for a shared mapping, so success there means that it was ignored.
        match Self::map(MapFlags::SHARED)?.wipe_on_fork() {
            Err(_) => Ok(page),
            Ok(()) => Err(io::Errno::NOSYS),
        }
    }

    fn map(flags: MapFlags) -> io::Result<Self> {
        // SAFETY: the kernel chooses an address where nothing is mapped.
        let address = unsafe {
            mmap_anonymous(
                ptr::null_mut(),
                LENGTH,
                ProtFlags::READ | ProtFlags::WRITE,
                flags,
            )?
        };
        Ok(Self { address })
    }

    fn wipe_on_fork(&self) -> io::Result<()> {
        // SAFETY: the page is mapped, and the advice changes no memory of this process.
        unsafe { madvise(self.address, LENGTH, Advice::LinuxWipeOnFork) }
    }

    /// Valid while the page is mapped: the address is aligned, and zeros are an `AtomicU64`.
    fn word(&self) -> *const AtomicU64 {
        self.address.cast_const().cast()
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        // SAFETY: only `map` dereferences pointers into a page, through `WORD`, and it leaks this
        // page.
        let _ = unsafe { munmap(self.address, LENGTH) };
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::collections::BTreeSet;
    use std::sync::Barrier;
    use std::thread;

    use super::super::tests::holds_in_forked_child;
    use super::*;

    /// Makes this process, and its descendants, behave as if the page could not be mapped.
    pub(in super::super) fn use_no_page() {
        WORD.store((&raw const NO_PAGE).cast_mut(), Ordering::Release);
    }

    #[test]
    fn a_grandchild_has_a_separate_generation_even_if_the_child_has_not_taken_one() {
        let parent = current();
        assert!(holds_in_forked_child(|| {
            holds_in_forked_child(|| current() > parent)
        }));
    }

    #[test]
    fn threads_of_a_process_agree_on_its_generation() {
        const THREADS: usize = 4;
        for _ in 0..100 {
            let word = AtomicU64::new(0);
            let newest = AtomicU64::new(7);
            let barrier = Barrier::new(THREADS);
            let taken: BTreeSet<u64> = thread::scope(|scope| {
                let threads: Vec<_> = (0..THREADS)
                    .map(|_| {
                        scope.spawn(|| {
                            barrier.wait();
                            take_next(&word, &newest)
                        })
                    })
                    .collect();
                threads
                    .into_iter()
                    .map(|thread| thread.join().unwrap())
                    .collect()
            });
            assert_eq!(taken.len(), 1);
            assert!(
                taken
                    .iter()
                    .all(|taken| *taken > 7 && *taken <= newest.load(Ordering::Relaxed))
            );
        }
    }

    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    #[test]
    fn there_is_no_page_if_advice_is_refused_or_ignored() {
        const MADVISE: i64 = if cfg!(target_arch = "x86_64") {
            28
        } else {
            233
        };
        drop(Page::wiped_on_fork().unwrap());
        for errno in [io::Errno::PERM.raw_os_error(), 0] {
            let refused = thread::spawn(move || {
                forbid(MADVISE, errno.unsigned_abs());
                Page::wiped_on_fork().map(|_page| ())
            })
            .join()
            .unwrap();
            assert_eq!(
                refused,
                Err(if errno == 0 {
                    io::Errno::NOSYS
                } else {
                    io::Errno::PERM
                })
            );
        }
    }

    /// From now on, the system call `call` of this thread does nothing and returns `errno`.
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    fn forbid(call: i64, errno: u32) {
        use seccompiler::{BpfProgram, SeccompAction, SeccompFilter};

        let architecture = std::env::consts::ARCH.try_into().unwrap();
        let rules = [(call, Vec::new())].into();
        let refuse = SeccompAction::Errno(errno);
        let filter = SeccompFilter::new(rules, SeccompAction::Allow, refuse, architecture).unwrap();
        let program: BpfProgram = filter.try_into().unwrap();
        seccompiler::apply_filter(&program).unwrap();
    }
}
