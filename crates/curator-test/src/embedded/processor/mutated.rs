//! The requests of the recorded transcripts, with changed bytes, for a server without sockets, in any
//! dialect. No request makes it panic, and everything that it sends is a reply or an event.
//!
//! `CURATOR_MUTATIONS` is the number of conversations, 2,000 by default; `CURATOR_MUTATIONS_FROM`
//! is the first seed.

use std::collections::BTreeMap;

use curator_client::codec::{
    ConnectRequest, ConnectResponse, PING_XID, Reader, ReplyHeader, RequestHeader, Writer,
};

use test_support::{
    numbers::Numbers,
    transcripts::{lines, op::Op, transcripts, words::Words},
};

use super::{Now, Output, Processor};
use crate::{Dialect, embedded::builder::Settings};

/// Values where lengths, counts and codes change their meaning.
const EDGES: [i32; 8] = [0, 1, -1, -2, i32::MAX, i32::MIN, 1 << 20, 256];

/// A frame that a client of a transcript has sent, and the client's name.
struct Sent {
    client: String,
    frame: Vec<u8>,
}

/// The frames that the clients of a transcript have sent, in order.
fn sent(transcript: &str) -> Vec<Sent> {
    let frame = |text: &str| {
        if text.starts_with("connect ") {
            return ConnectRequest::new(30_000, 0, &[0_u8; 16][..]).frame();
        }
        if let Some(raw) = Words(text).bytes() {
            // Without the length prefix.
            return raw.get(4..).unwrap_or_default().to_vec();
        }
        let request = Op::read(text, 0);
        let mut writer = Writer::default();
        writer
            .write(&RequestHeader {
                xid: PING_XID,
                op: request.code,
            })
            .raw(&request.body);
        writer.into_frame()
    };
    let lines = lines(transcript);
    let sent = lines.iter().filter_map(|line| line.split_once(" -> "));
    sent.map(|(client, text)| Sent {
        client: client.to_owned(),
        frame: frame(text),
    })
    .collect()
}

fn mutate(numbers: &mut Numbers, frame: &mut Vec<u8>) {
    for _ in 0..numbers.below(4) {
        let at = numbers.below(frame.len().max(1));
        match numbers.below(5) {
            0 => frame.truncate(at),
            1 => frame
                .splice(at..at, (0..numbers.below(9)).map(|_| 0xff))
                .for_each(drop),
            2 if at + 4 <= frame.len() => {
                frame[at..at + 4].copy_from_slice(&EDGES[numbers.below(EDGES.len())].to_be_bytes());
            }
            _ => frame
                .iter_mut()
                .skip(at)
                .take(1)
                .for_each(|byte| *byte ^= 1 << numbers.below(8)),
        }
    }
}

/// Sends the frames of a transcript to a server, about a third of them mutated, and checks that it
/// replies with valid frames.
fn converse(numbers: &mut Numbers, transcript: &[Sent]) {
    let now = Now {
        monotonic: 0,
        wall: 1_000_000,
    };
    let mut settings = Settings::default();
    settings.set_dialect(Dialect::ALL[numbers.below(Dialect::ALL.len())]);
    let mut processor = Processor::new(settings, 1, now);
    let mut connections = BTreeMap::new();
    for (Sent { client, frame }, passed) in transcript.iter().zip(0..) {
        let now = Now {
            monotonic: passed * 100,
            wall: now.wall,
        };
        let peer = "127.0.0.1:1".parse().unwrap();
        let known = connections
            .get(client)
            .copied()
            .filter(|(id, _)| processor.is_open(*id));
        let (id, is_connected) = known.unwrap_or_else(|| (processor.open(peer, now), false));
        let mut frame = frame.clone();
        if numbers.below(3) == 0 {
            mutate(numbers, &mut frame);
        }
        processor.receive(id, &frame, now);
        processor.tick(now);
        connections.insert(client, (id, is_connected));
        for (to, output) in processor.take_outbox() {
            let (Output::Reply(frame) | Output::Event(frame)) = output else {
                continue;
            };
            let mut reader = Reader::new(frame.frame());
            let connected = connections.values_mut().find(|(id, _)| *id == to);
            let is_first =
                connected.is_some_and(|(_, is_connected)| !std::mem::replace(is_connected, true));
            if is_first {
                reader.read::<ConnectResponse<&[u8]>>("a session").unwrap();
            } else {
                reader.read::<ReplyHeader>("a reply").unwrap();
            }
        }
    }
}

#[test]
fn no_changed_request_of_a_transcript_makes_a_server_panic() {
    let number =
        |name: &str, default| std::env::var(name).map_or(default, |text| text.parse().unwrap());
    let first = number("CURATOR_MUTATIONS_FROM", 0);
    let transcripts = transcripts();
    let transcripts: Vec<Vec<Sent>> = transcripts
        .iter()
        .map(|transcript| sent(transcript))
        .collect();
    assert!(transcripts.iter().map(Vec::len).sum::<usize>() > 1_500);
    for seed in first..first + number("CURATOR_MUTATIONS", 2_000) {
        let mut numbers = Numbers(seed);
        let transcript = &transcripts[numbers.below(transcripts.len())];
        let conversed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            converse(&mut numbers, transcript);
        }));
        assert!(
            conversed.is_ok(),
            "seed {seed}: run with CURATOR_MUTATIONS_FROM={seed} CURATOR_MUTATIONS=1"
        );
    }
}
