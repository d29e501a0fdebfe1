//! Sends the creates of a pipeline as one request or one transaction, which also creates missing
//! directories.

use curator_client::{Error as ClientError, RecipeSupport as _, TransactionOperation};
use curator_protocol::Request;
use futures_util::future::{FutureExt as _, TryFutureExt as _};

use super::{Reply, Sent, created_of, each, one};
use crate::engine::contender::Contender;

impl Contender<'_> {
    pub(super) fn send_creates(&mut self, creates: &[(usize, Request)]) -> Sent {
        creates
            .iter()
            .for_each(|(directory, _)| self.nodes.sending(*directory));
        let node = |(directory, _): &(usize, Request)| self.directories[*directory].node.clone();
        let with_parents = creates
            .iter()
            .any(|(_, request)| *request == Request::CreateWithParents);
        if let ([create], false) = (creates, with_parents) {
            return one(self
                .session
                .create(&node(create))
                .map_ok(|created| Reply::Created(vec![created])));
        }
        let (operations, count) = (
            creates.iter().map(node).map(TransactionOperation::Create),
            creates.len(),
        );
        let reply = |created| Ok(Reply::Created(vec![created]));
        if !with_parents {
            let results = self.session.transact(operations.collect());
            return results
                .map(move |results| each(results.map(created_of), count, reply))
                .boxed();
        }
        let missing = self.missing.take().unwrap_or_default();
        let results =
            self.client
                .transact_with_containers(self.session, &missing, operations.collect());
        let replies = move |results| match results {
            Ok(Some(results)) => each(Ok(created_of(results)), count, reply),
            Ok(None) => each(Ok(vec![(); count]), count, |()| {
                Ok(Reply::DirectoriesChanged)
            }),
            // With a single create, the index of the failed operation is not needed.
            Err(ClientError::TransactionFailed { cause, .. }) if count == 1 => {
                each(Err(*cause), count, reply)
            }
            Err(error) => each(Err(error), count, reply),
        };
        results.map(replies).boxed()
    }
}
