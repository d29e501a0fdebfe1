//! What a run has measured, for humans.

mod caches;
mod cells;
mod number;
mod plot;
mod tables;

pub(crate) use self::plot::draw;
pub(crate) use self::tables::{markdown, text};
