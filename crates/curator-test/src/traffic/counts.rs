//! Counts the network traffic of clients.

use std::collections::{BTreeMap, BTreeSet};

use crate::OpCode;

/// The traffic through a proxy since the last reset.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    /// The requests received from clients.
    arrived: BTreeMap<OpCode, u64>,
    /// The requests written to the server.
    forwarded: BTreeMap<OpCode, u64>,
    /// The requests that the server has replied to.
    answered: BTreeMap<OpCode, u64>,
    /// Watch events received from the server.
    notifications: u64,
    /// Bytes received from clients.
    sent: u64,
    /// Bytes received from the server.
    received: u64,
    round_trips: u64,
    /// Requests of these kinds neither start nor end a pipeline. Kept at a reset.
    ignored: BTreeSet<OpCode>,
}

/// A client's requests, grouped into pipelines that share a round trip.
///
/// Pipelines are numbered from 1. A request belongs to the current pipeline until a reply to a
/// request of that pipeline has been delivered. The next request may depend on that reply, and
/// starts a new pipeline.
#[derive(Debug, Default)]
pub(crate) struct Pipelines {
    current: u64,
    delivered: u64,
}

impl Counts {
    /// Counts a request from a client. Returns its pipeline, if it belongs to one.
    pub(crate) fn arrive(&mut self, op: OpCode, pipelines: &mut Pipelines) -> Option<u64> {
        *self.arrived.entry(op).or_default() += 1;
        if self.is_background(op) || self.ignored.contains(&op) {
            return None;
        }
        self.join_pipeline(pipelines);
        Some(pipelines.current)
    }

    /// Adds a request to the current pipeline, or starts a new one, which counts as a round trip.
    /// The request may be one that cannot be parsed, such as a TLS record.
    pub(crate) fn join_pipeline(&mut self, pipelines: &mut Pipelines) {
        if pipelines.delivered == pipelines.current {
            pipelines.current += 1;
            self.round_trips += 1;
        }
    }

    pub(crate) fn forward(&mut self, op: OpCode) {
        *self.forwarded.entry(op).or_default() += 1;
    }

    pub(crate) fn answer(&mut self, op: OpCode) {
        *self.answered.entry(op).or_default() += 1;
    }

    /// Counts the bytes of a frame from a client.
    pub(crate) fn send(&mut self, bytes: usize) {
        self.sent += bytes as u64;
    }

    pub(crate) fn sent(&self) -> u64 {
        self.sent
    }

    /// Counts the bytes of a frame from the server.
    pub(crate) fn receive(&mut self, bytes: usize) {
        self.received += bytes as u64;
    }

    pub(crate) fn received(&self) -> u64 {
        self.received
    }

    /// Counts a watch event.
    pub(crate) fn notify(&mut self) {
        self.notifications += 1;
    }

    pub(crate) fn ignore(&mut self, op: OpCode) {
        self.ignored.insert(op);
    }

    pub(crate) fn reset(&mut self) {
        *self = Self {
            ignored: std::mem::take(&mut self.ignored),
            ..Self::default()
        };
    }

    /// The requests that have arrived, without pings and handshakes.
    pub(crate) fn requests(&self) -> BTreeMap<OpCode, u64> {
        self.arrived
            .iter()
            .filter(|(op, _)| !self.is_background(**op))
            .map(|(op, n)| (*op, *n))
            .collect()
    }

    pub(crate) fn arrived(&self, op: OpCode) -> u64 {
        self.arrived.get(&op).copied().unwrap_or_default()
    }

    pub(crate) fn forwarded(&self, op: OpCode) -> u64 {
        self.forwarded.get(&op).copied().unwrap_or_default()
    }

    pub(crate) fn answered(&self, op: OpCode) -> u64 {
        self.answered.get(&op).copied().unwrap_or_default()
    }

    pub(crate) fn notifications(&self) -> u64 {
        self.notifications
    }

    pub(crate) fn round_trips(&self) -> u64 {
        self.round_trips
    }

    /// Whether clients send such requests without a call of the application.
    fn is_background(&self, op: OpCode) -> bool {
        matches!(op, OpCode::Ping | OpCode::CreateSession)
    }
}

impl Pipelines {
    /// Records that a reply to a request of this pipeline was delivered.
    pub(crate) fn deliver(&mut self, pipeline: u64) {
        self.delivered = self.delivered.max(pipeline);
    }

    /// The pipeline of the latest request.
    pub(crate) fn current(&self) -> u64 {
        self.current
    }

    /// Makes the next request start a new pipeline.
    pub(crate) fn reset(&mut self) {
        self.delivered = self.current;
    }
}
