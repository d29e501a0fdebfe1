//! Logs requests, in the span of the acquire or the hold that sends them.

use curator_protocol::Request;

use super::text::Requests;

/// Logs that a pipeline of an acquire is sent.
pub(crate) fn pipeline_sent(requests: &[(usize, Request)]) {
    tracing::trace!(requests = requests.len(), what = %Requests(requests), "pipeline");
}

/// Logs that the deletes of a release are sent, in one request.
pub(crate) fn deletes_sent(nodes: usize) {
    tracing::trace!(requests = 1, what = "delete", nodes, "pipeline");
}
