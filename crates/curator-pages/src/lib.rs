//! Compiles the code on the pages as users paste it.

/// Compiles the unchanged code of the README at the top of the repository. The other pages are part of the
/// documentation of the packages, and are tested there.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;

/// Compiles the code of all pages in spawned tasks, and in functions that return the error of the locks: see
/// `build.rs`.
#[cfg(test)]
#[allow(
    warnings,
    clippy::all,
    clippy::pedantic,
    clippy::restriction,
    reason = "the code is written for readers of a page"
)]
mod pages {
    include!(concat!(env!("OUT_DIR"), "/pages.rs"));
}
