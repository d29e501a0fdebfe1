//! The report of a run as text: tables of numbers, and the violations with the events around them.

mod around;
mod directory;
mod document;
mod line;
mod recovery;
mod summary;
#[cfg(test)]
mod tests;
mod text;
mod verdict;

pub use around::Shown;
pub use directory::{Final, check_directory};
pub use document::Report;
pub use recovery::{LeftoverCounts, Leftovers, Recovery};
pub use summary::{kind, summary};
