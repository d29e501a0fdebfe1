//! Counts the memory that each thread has allocated and not freed, to find memory leaks of a
//! schedule.
//!
//! A schedule runs in one thread, so its memory is counted exactly, even while other schedules run.

#![expect(
    unsafe_code,
    reason = "an allocator is unsafe; this one only counts what it passes to the system's"
)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

thread_local! {
    static LIVE: Cell<isize> = const { Cell::new(0) };
}

/// The bytes that this thread has allocated, less those that it has freed.
#[must_use]
pub fn live() -> isize {
    LIVE.get()
}

struct Counting;

// SAFETY: each method passes its arguments on to the system's allocator, and returns the result.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size().cast_signed());
        // SAFETY: the caller upholds the contract of this method, which `System` shares.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size().cast_signed());
        // SAFETY: see `alloc`.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size.cast_signed() - layout.size().cast_signed());
        // SAFETY: see `alloc`.
        unsafe { System.realloc(pointer, layout, size) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(-layout.size().cast_signed());
        // SAFETY: see `alloc`.
        unsafe { System.dealloc(pointer, layout) }
    }
}

/// Bytes of a failed allocation stay counted, because the program then ends.
fn count(bytes: isize) {
    LIVE.with(|live| live.set(live.get() + bytes));
}
