//! Frames of a server's replies, and how they are corrupted.

use std::io;

use tokio::io::{AsyncRead, AsyncReadExt as _};

use super::Numbers;

/// The xid of events.
pub(crate) const EVENT: i32 = -1;
/// The xid of pings.
pub(crate) const PING: i32 = -2;
/// Offsets in a reply: the header consists of xid, zxid and error code; the body depends on the
/// kind of request.
pub(crate) const ZXID: usize = 4;
pub(crate) const CODE: usize = 12;
pub(crate) const BODY: usize = 16;
/// The length of a node's stat, in bytes.
const STAT: usize = 68;
/// The longest list length that is sent. `zookeeper-client` allocates the announced length, which
/// ends the process if it is some hundred million or more: see the test
/// `the_announced_count_of_a_list_is_allocated_without_a_check`.
const LONGEST_LIST: i32 = 1 << 20;
/// The longest frame that this proxy reads from a well-behaved client or server.
const LONGEST_FRAME: usize = 1 << 21;

/// Reads the next frame. Returns it without its length.
pub(crate) async fn read_frame(stream: &mut (impl AsyncRead + Unpin)) -> io::Result<Vec<u8>> {
    let length = stream.read_u32().await? as usize;
    if length > LONGEST_FRAME {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut frame = vec![0; length];
    stream.read_exact(&mut frame).await?;
    Ok(frame)
}

/// The payload with its length prepended.
pub(crate) fn framed(payload: &[u8]) -> Vec<u8> {
    [&(payload.len() as u32).to_be_bytes(), payload].concat()
}

pub(crate) fn int(bytes: &[u8], at: usize) -> Option<i32> {
    let bytes = bytes.get(at..at + 4)?;
    Some(i32::from_be_bytes(bytes.try_into().ok()?))
}

pub(crate) fn set_int(bytes: &mut [u8], at: usize, value: i32) {
    if let Some(bytes) = bytes.get_mut(at..at + 4) {
        bytes.copy_from_slice(&value.to_be_bytes());
    }
}

/// Encodes an event as a server does.
pub(crate) fn event(kind: i32, state: i32, path: &[u8]) -> Vec<u8> {
    let zxid = 7_i64;
    let code = 0_i32;
    let parts: [&[u8]; 6] = [
        &EVENT.to_be_bytes(),
        &zxid.to_be_bytes(),
        &code.to_be_bytes(),
        &kind.to_be_bytes(),
        &state.to_be_bytes(),
        &framed(path),
    ];
    parts.concat()
}

/// Changes some bits or bytes, cuts some off, or adds some.
pub(crate) fn spoil(numbers: &mut Numbers, bytes: &mut Vec<u8>) {
    for _ in 0..=numbers.below(3) {
        let at = numbers.below(bytes.len().max(1));
        let value = [0, 1, 0x7f, 0x80, 0xff, numbers.next() as u8][numbers.below(6)];
        match (numbers.below(6), bytes.get_mut(at)) {
            (0, _) => bytes.truncate(at),
            (1, _) => bytes.extend((0..numbers.below(40)).map(|_| value)),
            // Where an integer may be: a length or another number.
            (2, Some(_)) => set_int(
                bytes,
                at / 4 * 4,
                [-1, 0, 1, i32::MAX, i32::MIN, 0xffff][numbers.below(6)],
            ),
            (3, Some(byte)) => *byte ^= 1 << numbers.below(8),
            (_, Some(byte)) => *byte = value,
            (_, None) => bytes.push(value),
        }
    }
}

/// Lowers the lengths of lists in the reply to a request of the kind `op`, so that they can be
/// allocated.
pub(crate) fn tame(op: i32, reply: &mut [u8]) {
    match op {
        // getACL, getChildren and getChildren2 begin with a list.
        6 | 8 | 12 => {
            lower(reply, BODY);
        }
        22 => tame_reads(reply),
        _ => {}
    }
}

/// Lowers the length of the list at this offset if it is too long. Returns the resulting length.
fn lower(reply: &mut [u8], at: usize) -> Option<i32> {
    let count = int(reply, at)?.min(LONGEST_LIST);
    set_int(reply, at, count);
    Some(count)
}

/// Lowers the lengths of lists in each result of a `multiRead`, as far as it can be parsed.
fn tame_reads(reply: &mut [u8]) {
    let mut at = BODY;
    while let Some(op) = int(reply, at) {
        // The header of a result: the kind of request, `done`, and an error code.
        if reply.get(at + 4).is_none_or(|done| *done != 0) {
            return;
        }
        at += 9;
        match op {
            // getData: the data and the stat.
            4 => match int(reply, at) {
                Some(length) => at += 4 + usize::try_from(length.max(0)).unwrap_or(0) + STAT,
                None => return,
            },
            // getChildren: the names.
            8 => {
                let Some(count) = lower(reply, at) else {
                    return;
                };
                at += 4;
                for _ in 0..count {
                    match int(reply, at) {
                        Some(length) => at += 4 + usize::try_from(length.max(0)).unwrap_or(0),
                        None => return,
                    }
                }
            }
            // An error code.
            _ => at += 4,
        }
    }
}
