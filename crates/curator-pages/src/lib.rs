//! The code on the pages compiles where users paste it.

/// As it stands there: the README at the top of the repository. The other pages are documentation of the packages, and tested
/// there.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;

/// In a task that is spawned, and in a function that returns the error of the locks: see `build.rs`.
#[cfg(test)]
#[allow(warnings, clippy::all, clippy::pedantic, clippy::restriction, reason = "it is written for readers of a page")]
mod pages {
    include!(concat!(env!("OUT_DIR"), "/pages.rs"));
}
