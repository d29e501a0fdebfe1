//! Decides for which operations a server is asked, and what it lacks according to what was found.
//! Does no I/O.

use super::ServerOperation;
use super::memory::{ServerKey, ServerOperations};
use super::missing::MissingOperations;

/// What happened after a request for an operation was sent in a session that is used for nothing
/// else.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Finding {
    /// The server has replied, with a result or an error about the node; or its reply cannot be
    /// read.
    Replied,
    /// The server has replied that it does not know the operation.
    Refused,
    /// The server has replied with an error that does not show whether it knows the operation.
    Unclear,
    /// The server has replied to a later request, and not to this one.
    Skipped,
    /// The connection, or the session, has ended without a reply.
    Ended,
}

/// What is known of one operation of a server while it is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Knowledge {
    #[default]
    Unknown,
    /// There was no reply, or an unclear one. A fault may have caused that: the network may have
    /// broken the connection, for example.
    Doubted,
    Implemented,
    Missing,
}

impl Knowledge {
    fn after(self, finding: Finding) -> Self {
        match finding {
            Finding::Replied => Self::Implemented,
            Finding::Refused => Self::Missing,
            Finding::Unclear | Finding::Skipped | Finding::Ended => match self {
                Self::Doubted => Self::Missing,
                _ => Self::Doubted,
            },
        }
    }
}

/// The questions to one server for one session.
///
/// A doubt stays here: a fault of the network that ends a connection may end one of another session
/// at the same time, so the two together prove nothing.
pub(crate) struct Questions<'a> {
    shared: &'a ServerOperations,
    server: &'a ServerKey,
    known: [Knowledge; ServerOperation::ALL.len()],
}

impl<'a> Questions<'a> {
    /// Begins to ask `server` for a new session.
    ///
    /// What the server has is asked for again: the server may have been replaced by an older one,
    /// and the request for an operation that it has ends no session.
    pub(crate) fn begin(shared: &'a ServerOperations, server: &'a ServerKey) -> Self {
        let missing = shared.remembered(server);
        let known = ServerOperation::ALL.map(|operation| {
            if missing.lacks(operation) {
                Knowledge::Missing
            } else {
                Knowledge::Unknown
            }
        });
        Self {
            shared,
            server,
            known,
        }
    }

    /// The operation to ask for next; `None` if all are known. Without `removeWatches`, recursive
    /// watches are not used.
    pub(crate) fn next(&self) -> Option<ServerOperation> {
        ServerOperation::ALL.into_iter().find(|operation| {
            let is_open = matches!(
                self.known[*operation as usize],
                Knowledge::Unknown | Knowledge::Doubted
            );
            is_open
                && !(*operation == ServerOperation::AddWatch
                    && self.lacks(ServerOperation::RemoveWatches))
        })
    }

    /// Records what happened after the server was asked for `operation`. What it lacks is recorded
    /// for later sessions, too, unless its replies are only unclear: they end no session, so later
    /// sessions ask again.
    pub(crate) fn found(&mut self, operation: ServerOperation, finding: Finding) {
        let known = self.known[operation as usize].after(finding);
        self.known[operation as usize] = known;
        match known {
            Knowledge::Implemented => self.shared.found_implemented(self.server, operation),
            Knowledge::Missing if finding != Finding::Unclear => {
                self.shared.found_missing(self.server, operation);
            }
            _ => {}
        }
    }

    /// The operations that the server is known to lack.
    pub(crate) fn missing(&self) -> MissingOperations {
        let mut missing = MissingOperations::default();
        for operation in ServerOperation::ALL {
            if self.lacks(operation) {
                missing.insert(operation);
            }
        }
        if missing.contains(ServerOperation::RemoveWatches) {
            missing.insert(ServerOperation::AddWatch);
        }
        missing
    }

    fn lacks(&self, operation: ServerOperation) -> bool {
        self.known[operation as usize] == Knowledge::Missing
    }
}

#[cfg(test)]
mod tests {
    use super::ServerOperation::{AddWatch, CreateContainer, CreateTtl, MultiRead, RemoveWatches};
    use super::*;

    fn server() -> ServerKey {
        ServerKey::Address("127.0.0.1:9181".parse().unwrap())
    }

    /// Asks until all operations are known. Returns the questions, and what is missing.
    fn ask(
        operations: &ServerOperations,
        mut answer: impl FnMut(ServerOperation) -> Finding,
    ) -> (Vec<ServerOperation>, MissingOperations) {
        let server = server();
        let mut questions = Questions::begin(operations, &server);
        let mut asked = Vec::new();
        while let Some(operation) = questions.next() {
            asked.push(operation);
            questions.found(operation, answer(operation));
        }
        let missing = questions.missing();
        (asked, missing)
    }

    #[test]
    fn one_question_without_a_clear_reply_proves_nothing_and_two_prove_that_the_operation_is_missing()
     {
        for unproved in [Finding::Ended, Finding::Skipped, Finding::Unclear] {
            let operations = ServerOperations::default();
            let mut lost = 0;
            let (asked, missing) = ask(&operations, |operation| match operation {
                CreateContainer => unproved,
                MultiRead => {
                    lost += 1;
                    if lost == 1 {
                        unproved
                    } else {
                        Finding::Replied
                    }
                }
                _ => Finding::Replied,
            });
            let count = |operation| asked.iter().filter(|asked| **asked == operation).count();
            assert_eq!(
                [CreateContainer, MultiRead, RemoveWatches, AddWatch].map(count),
                [2, 2, 1, 1],
                "{unproved:?}"
            );
            assert_eq!(missing.iter().collect::<Vec<_>>(), [CreateContainer]);
        }
    }

    #[test]
    fn the_doubts_of_two_sessions_prove_nothing_together() {
        let operations = ServerOperations::default();
        let server = server();
        let mut client = Questions::begin(&operations, &server);
        let mut caches = Questions::begin(&operations, &server);
        for questions in [&mut client, &mut caches] {
            questions.found(CreateContainer, Finding::Ended);
            assert!(!questions.missing().contains(CreateContainer));
        }
        // Another session begins, and forgets nothing of these.
        let _next = Questions::begin(&operations, &server);
        client.found(CreateContainer, Finding::Ended);
        assert!(client.missing().contains(CreateContainer));
        caches.found(CreateContainer, Finding::Replied);
        assert!(!caches.missing().contains(CreateContainer));
    }

    #[test]
    fn a_reply_in_another_session_ends_the_memory_that_the_operation_is_missing() {
        let operations = ServerOperations::default();
        let server = server();
        let mut client = Questions::begin(&operations, &server);
        let mut caches = Questions::begin(&operations, &server);
        client.found(CreateContainer, Finding::Refused);
        let is_remembered = || {
            let next = Questions::begin(&operations, &server);
            next.missing().contains(CreateContainer)
        };
        assert!(is_remembered());
        caches.found(CreateContainer, Finding::Replied);
        assert!(!is_remembered());
        // The session itself never forgets.
        assert!(client.missing().contains(CreateContainer));
    }

    #[test]
    fn a_new_session_asks_again_for_what_the_server_had_and_not_for_what_it_lacked() {
        let operations = ServerOperations::default();
        let refuses_ttl = |operation| {
            if operation == CreateTtl {
                Finding::Refused
            } else {
                Finding::Replied
            }
        };
        assert_eq!(ask(&operations, refuses_ttl).0, ServerOperation::ALL);
        let again = ask(&operations, refuses_ttl);
        assert_eq!(again.0.len(), ServerOperation::ALL.len() - 1);
        assert!(!again.0.contains(&CreateTtl));
        assert!(again.1.contains(CreateTtl));
    }

    #[test]
    fn unclear_replies_count_for_one_session_only() {
        let operations = ServerOperations::default();
        let is_unclear = |operation| {
            if operation == RemoveWatches {
                Finding::Unclear
            } else {
                Finding::Replied
            }
        };
        for _ in 0..2 {
            let (asked, missing) = ask(&operations, is_unclear);
            assert!(asked.contains(&RemoveWatches));
            assert!(missing.contains(RemoveWatches));
        }
        assert!(!operations.is_unusable_by_zookeeper_client(&server()));
    }

    #[test]
    fn without_remove_watches_recursive_watches_are_not_asked_for_and_count_as_missing() {
        let operations = ServerOperations::default();
        let refused = ask(&operations, |operation| {
            if operation == RemoveWatches {
                Finding::Refused
            } else {
                Finding::Replied
            }
        });
        assert!(!refused.0.contains(&AddWatch));
        assert!(refused.1.contains(RemoveWatches) && refused.1.contains(AddWatch));
        assert!(operations.is_unusable_by_zookeeper_client(&server()));
    }
}
