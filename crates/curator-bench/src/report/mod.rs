//! The results of a run as tables and plots.

mod caches;
mod cells;
mod number;
mod plot;
mod tables;

pub(crate) use self::plot::draw;
pub(crate) use self::tables::{markdown, text};
