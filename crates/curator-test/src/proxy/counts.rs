//! How much a client asks of the network.

use std::collections::{BTreeMap, BTreeSet};

use crate::OpCode;

/// What went through a proxy since the last reset.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    /// Come from clients.
    arrived: BTreeMap<OpCode, u64>,
    /// Written to the server.
    forwarded: BTreeMap<OpCode, u64>,
    /// Answered by the server.
    answered: BTreeMap<OpCode, u64>,
    /// Events of watches, come from the server.
    notifications: u64,
    /// Bytes come from the server.
    received: u64,
    round_trips: u64,
    /// Neither begin nor end a flight. Survives a reset.
    ignored: BTreeSet<OpCode>,
}

/// A client's requests in bundles, as they share round trips.
///
/// Flights are numbered from 1. A request belongs to the current flight until a reply to that flight has been
/// delivered; the next request may then be a consequence of it, and begins a new one.
#[derive(Debug, Default)]
pub(crate) struct Flights {
    current: u64,
    delivered: u64,
}

impl Counts {
    /// Counts a request that came from a client. Returns the flight that it belongs to, if it belongs to one.
    pub(crate) fn arrive(&mut self, op: OpCode, flights: &mut Flights) -> Option<u64> {
        *self.arrived.entry(op).or_default() += 1;
        if self.is_apart(op) || self.ignored.contains(&op) {
            return None;
        }
        if flights.delivered == flights.current {
            flights.current += 1;
            self.round_trips += 1;
        }
        Some(flights.current)
    }

    pub(crate) fn forward(&mut self, op: OpCode) {
        *self.forwarded.entry(op).or_default() += 1;
    }

    pub(crate) fn answer(&mut self, op: OpCode) {
        *self.answered.entry(op).or_default() += 1;
    }

    /// Counts the bytes of a frame that came from the server.
    pub(crate) fn receive(&mut self, bytes: usize) {
        self.received += bytes as u64;
    }

    pub(crate) fn received(&self) -> u64 {
        self.received
    }

    /// Counts an event of a watch.
    pub(crate) fn notify(&mut self) {
        self.notifications += 1;
    }

    pub(crate) fn ignore(&mut self, op: OpCode) {
        self.ignored.insert(op);
    }

    pub(crate) fn reset(&mut self) {
        *self = Self { ignored: std::mem::take(&mut self.ignored), ..Self::default() };
    }

    /// Without pings and handshakes.
    pub(crate) fn requests(&self) -> BTreeMap<OpCode, u64> {
        self.arrived.iter().filter(|(op, _)| !self.is_apart(**op)).map(|(op, n)| (*op, *n)).collect()
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

    /// They come by themselves, not because the client was asked for something.
    fn is_apart(&self, op: OpCode) -> bool {
        matches!(op, OpCode::Ping | OpCode::CreateSession)
    }
}

impl Flights {
    /// Notes that a reply to a request of this flight has been delivered.
    pub(crate) fn deliver(&mut self, flight: u64) {
        self.delivered = self.delivered.max(flight);
    }

    /// The next request begins a new flight.
    pub(crate) fn reset(&mut self) {
        self.delivered = self.current;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pipelined_requests_are_one_round_trip() {
        let (mut counts, mut flights) = (Counts::default(), Flights::default());
        assert_eq!(counts.arrive(OpCode::Create2, &mut flights), Some(1));
        assert_eq!(counts.arrive(OpCode::GetChildren2, &mut flights), Some(1));
        flights.deliver(1);
        assert_eq!(counts.arrive(OpCode::GetData, &mut flights), Some(2));
        // The second answer of the first flight tells nothing about the second flight.
        flights.deliver(1);
        assert_eq!(counts.arrive(OpCode::GetData, &mut flights), Some(2));
        assert_eq!(counts.round_trips(), 2);
    }

    #[test]
    fn pings_and_what_is_ignored_make_no_round_trip() {
        let (mut counts, mut flights) = (Counts::default(), Flights::default());
        counts.ignore(OpCode::Sync);
        assert_eq!(counts.arrive(OpCode::Ping, &mut flights), None);
        assert_eq!(counts.arrive(OpCode::CreateSession, &mut flights), None);
        assert_eq!(counts.arrive(OpCode::Sync, &mut flights), None);
        assert_eq!(counts.round_trips(), 0);
        assert_eq!(counts.requests(), BTreeMap::from([(OpCode::Sync, 1)]));
        assert_eq!(counts.arrived(OpCode::Ping), 1);
    }

    #[test]
    fn a_reset_forgets_counts_and_keeps_settings() {
        let (mut counts, mut flights) = (Counts::default(), Flights::default());
        counts.ignore(OpCode::Sync);
        counts.arrive(OpCode::Create2, &mut flights);
        counts.reset();
        flights.reset();
        assert!(counts.requests().is_empty());
        assert_eq!(counts.arrive(OpCode::Sync, &mut flights), None);
        counts.arrive(OpCode::Delete, &mut flights);
        assert_eq!(counts.round_trips(), 1);
    }
}
