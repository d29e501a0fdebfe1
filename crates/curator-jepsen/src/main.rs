//! The programs of a run: see the library.

fn main() {}
