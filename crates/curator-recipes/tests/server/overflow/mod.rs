//! The end of the counter of sequence numbers, as each lock meets it by itself. What all of them keep to is in the contract.

mod leases;
mod queues;

use curator_recipes::Error;

/// The directory and the node that the refusal speaks of.
fn overflow(error: Error) -> (String, String) {
    match error {
        Error::SequenceOverflow { dir, node } => (dir.as_str().to_owned(), node),
        error => panic!("{error}"),
    }
}
