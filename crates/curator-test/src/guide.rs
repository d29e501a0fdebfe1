//! Testing your own service: a guide to this crate.
#![doc = include_str!("../docs/testing.md")]
#![allow(
    clippy::test_attr_in_doctest,
    reason = "shows whole tests; `curator-pages` runs them"
)]
