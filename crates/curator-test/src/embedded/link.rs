//! Reads a client's frames and writes its replies.

use std::{io, os::fd::AsFd, sync::Arc, time::Instant};

use tokio::{
    io::AsyncWriteExt,
    net::{
        TcpStream,
        tcp::{ReadHalf, WriteHalf},
    },
    sync::mpsc::{UnboundedReceiver, unbounded_channel},
    time::{sleep_until, timeout},
};

use super::{
    builder::Settings,
    sessions::ConnectionId,
    shared::{Item, Shared, Stage},
};
use crate::wire::{First, close_lingering, first_frame, next_frame};

/// Serves one client until either side ends the connection.
pub(crate) async fn serve(mut client: TcpStream, shared: Arc<Shared>) {
    let refused = serve_until_end(&mut client, &shared).await;
    let is_read = close_lingering(client).await;
    if let (Some(session_id), true) = (refused, is_read) {
        shared.update(|state, now| {
            state
                .processor
                .sessions
                .expire_soon(session_id, now.monotonic);
        });
    }
}

/// Returns the session whose end was reported to the client, if its nodes still exist.
async fn serve_until_end(client: &mut TcpStream, shared: &Shared) -> Option<i64> {
    let (Ok(peer), Ok(socket)) = (client.peer_addr(), client.as_fd().try_clone_to_owned()) else {
        return None;
    };
    let (items, outgoing) = unbounded_channel();
    let id = shared.update(|state, now| state.open(peer, socket.into(), items, now))?;
    let _open = Open { id, shared };
    // Without this, Nagle's algorithm can delay a small reply until the previous one is
    // acknowledged. Fails only for a closed socket.
    drop(client.set_nodelay(true));
    let (from_client, to_client) = client.split();
    // An error also ends the connection.
    let is_answered = tokio::select! {
        _ = read(from_client, id, shared) => false,
        written = write(to_client, outgoing, shared) => written.is_ok_and(|frames| frames > 0),
        // The connection was cut: queued output cannot be delivered.
        () = shared.until(|state| !state.has_link(id)) => false,
    };
    if is_answered {
        shared.lock().processor.refused_session(id)
    } else {
        None
    }
}

/// Unregisters the connection when dropped, even if a test's matcher panics. Otherwise the client
/// would not see that the connection has ended.
struct Open<'a> {
    id: ConnectionId,
    shared: &'a Shared,
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        self.shared.update(|state, _| state.forget(self.id));
    }
}

/// Returns when the client closes the connection, sends an invalid frame, or does not send its
/// first frame within the timeout.
async fn read(mut client: ReadHalf<'_>, id: ConnectionId, shared: &Shared) -> io::Result<()> {
    let Settings {
        max_frame,
        sessionless_timeout,
        ..
    } = shared.lock().processor.settings;
    let mut payload =
        match timeout(sessionless_timeout, first_frame(&mut client, max_frame)).await?? {
            First::Word(word) => return answer_word(word, id, shared).await,
            First::Frame(payload) => payload,
        };
    loop {
        shared.receive(id, &payload).await;
        if !shared.lock().processor.is_open(id) {
            // The writer ends the link after it has sent all that is queued.
            std::future::pending::<()>().await;
        }
        payload = next_frame(&mut client, max_frame).await?;
    }
}

async fn answer_word(word: [u8; 4], id: ConnectionId, shared: &Shared) -> io::Result<()> {
    resumed(shared).await;
    shared.update(|state, _| state.answer_word(id, word));
    std::future::pending().await
}

/// Sends output when it is due, until the connection ends. Returns the number of frames sent.
async fn write(
    mut client: WriteHalf<'_>,
    mut items: UnboundedReceiver<Item>,
    shared: &Shared,
) -> io::Result<usize> {
    let mut frames = 0;
    while let Some(Item { due, frame }) = items.recv().await {
        // A timer rounds up to the next millisecond, even if it is already due.
        if due > Instant::now() {
            sleep_until(due.into()).await;
        }
        resumed(shared).await;
        match frame {
            Some(frame) => client.write_all(&frame).await?,
            None => break,
        }
        frames += 1;
    }
    Ok(frames)
}

/// Waits until the server is not paused.
async fn resumed(shared: &Shared) {
    shared.until(|state| state.stage != Stage::Paused).await;
}
