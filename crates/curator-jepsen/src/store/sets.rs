//! The state of the store, and how it applies requests.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use curator_recipes::FencingToken;
use curator_recipes::fencing::FencingChecker;

use crate::store_protocol::{Answer, Request};

/// All sets, by name.
#[derive(Debug, Default)]
pub(super) struct Sets {
    /// One mutex for all sets, so that the token check and the following read or write are atomic.
    by_name: Mutex<BTreeMap<String, Set>>,
}

#[derive(Debug, Default)]
struct Set {
    elements: Vec<String>,
    newest: FencingChecker,
}

impl Sets {
    /// Applies the request, unless its token is stale.
    pub(super) fn apply(&self, request: Request) -> Answer {
        let (Request::Read { set, token } | Request::Write { set, token, .. }) = &request;
        let token = match token.map(FencingToken::try_from).transpose() {
            Ok(token) => token,
            Err(invalid) => {
                return Answer::Invalid {
                    why: invalid.to_string(),
                };
            }
        };
        let mut by_name = self.by_name.lock().unwrap_or_else(PoisonError::into_inner);
        let set = by_name.entry(set.clone()).or_default();
        if token.is_some_and(|token| set.newest.admit(token).is_err()) {
            return Answer::Stale;
        }
        match request {
            Request::Read { .. } => Answer::Elements {
                elements: set.elements.clone(),
            },
            Request::Write { elements, .. } => {
                set.elements = elements;
                Answer::Written
            }
        }
    }

    /// The elements of each set that was read or written.
    pub(super) fn all(&self) -> BTreeMap<String, Vec<String>> {
        let by_name = self.by_name.lock().unwrap_or_else(PoisonError::into_inner);
        by_name
            .iter()
            .map(|(name, set)| (name.clone(), set.elements.clone()))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(sets: &Sets, token: Option<i64>) -> Answer {
        sets.apply(Request::Read {
            set: "s".to_owned(),
            token,
        })
    }

    fn write(sets: &Sets, elements: &[&str], token: Option<i64>) -> Answer {
        let elements = elements.iter().map(|&element| element.to_owned()).collect();
        sets.apply(Request::Write {
            set: "s".to_owned(),
            elements,
            token,
        })
    }

    fn elements(elements: &[&str]) -> Answer {
        Answer::Elements {
            elements: elements.iter().map(|&element| element.to_owned()).collect(),
        }
    }

    #[test]
    fn after_a_read_with_a_newer_token_requests_with_an_older_one_are_refused() {
        let sets = Sets::default();
        assert_eq!(read(&sets, Some(33)), elements(&[]));
        assert_eq!(read(&sets, Some(34)), elements(&[]));
        assert_eq!(write(&sets, &["late"], Some(33)), Answer::Stale);
        assert_eq!(read(&sets, Some(33)), Answer::Stale);
        assert_eq!(write(&sets, &["in time"], Some(34)), Answer::Written);
        assert_eq!(read(&sets, Some(34)), elements(&["in time"]));
    }

    #[test]
    fn each_set_keeps_a_separate_newest_token() {
        let sets = Sets::default();
        assert_eq!(read(&sets, Some(34)), elements(&[]));
        let other = Request::Write {
            set: "t".to_owned(),
            elements: Vec::new(),
            token: Some(33),
        };
        assert_eq!(sets.apply(other), Answer::Written);
    }
}
