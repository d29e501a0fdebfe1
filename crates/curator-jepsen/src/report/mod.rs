//! The report of a run as text: tables of numbers, and the violations with the events around them.

mod around;
mod caches;
mod counters;
mod directory;
mod document;
mod leaders;
mod line;
mod parts;
mod recovery;
mod services;
mod summary;
mod table;
#[cfg(test)]
mod tests;
mod verdict;

pub use around::Shown;
pub use directory::{CheckError, Final, check_directory};
pub use document::Report;
pub use recovery::{Counted, Left, Recovery};
pub use summary::summary;
pub use table::Table;
