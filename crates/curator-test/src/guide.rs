//! Testing your own service: a guide to this crate.
#![doc = include_str!("../docs/testing.md")]
