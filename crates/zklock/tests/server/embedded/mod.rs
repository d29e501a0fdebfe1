//! Tests that use embedded servers only.

mod certifying;
mod dialects;
