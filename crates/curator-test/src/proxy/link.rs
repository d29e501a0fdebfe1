//! Carries the frames of one connection.

use std::{future::pending, io, net::SocketAddr, os::fd::AsFd, sync::Arc};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional},
    net::{
        TcpStream,
        tcp::{ReadHalf, WriteHalf},
    },
    sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel},
    time::{Instant, sleep_until},
};

use super::{
    Direction,
    frame::{ConnectResponse, Frame, ReplyHeader, RequestHeader, is_four_letter_word, is_tls, path},
    state::{End, LinkId, Note, Shared, State, Verdict},
};

/// A frame on its way through the proxy. It is sent when it is due, after earlier frames.
struct Item {
    due: Instant,
    what: Action,
}

enum Action {
    Frame(Frame, Note),
    /// Nothing behind this passes before the release with this number.
    Park(u64),
    /// Closes the connection.
    Close,
}

/// One direction of a link.
struct LinkHalf {
    shared: Arc<Shared>,
    id: LinkId,
    direction: Direction,
}

/// Serves one client until either side, or a test, ends the connection.
pub(crate) async fn serve(mut client: TcpStream, upstream: SocketAddr, shared: Arc<Shared>) {
    let Ok(duplicate) = duplicate(&client) else { return };
    let (id, mut end) = shared.update(|state| state.open(duplicate));
    let _open = Open { id, shared: &shared };
    let mut server = None;
    let ended = tokio::select! {
        biased;
        ended = end.wait_for(Option::is_some) => ended.ok().and_then(|end| *end),
        // An error ends the connection.
        _ = relay(&mut client, &mut server, upstream, id, &shared) => None,
    };
    if ended == Some(End::Reset) {
        // Fails only for a closed socket.
        drop(client.set_zero_linger());
        drop(server.as_ref().map(TcpStream::set_zero_linger));
    }
    // The sockets close before the link is removed, so that they are closed when a waiter sees the removal.
    drop((client, server));
}

/// A link that is registered until this is dropped, for any reason.
struct Open<'a> {
    id: LinkId,
    shared: &'a Shared,
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        self.shared.update(|state| state.forget(self.id));
    }
}

async fn relay(
    client: &mut TcpStream,
    server: &mut Option<TcpStream>,
    upstream: SocketAddr,
    id: LinkId,
    shared: &Arc<Shared>,
) -> io::Result<()> {
    client.set_nodelay(true)?;
    let server = server.insert(TcpStream::connect(upstream).await?);
    server.set_nodelay(true)?;
    let duplicate = duplicate(server)?;
    shared.update(|state| state.connect(id, duplicate));
    let mut first = [0; 4];
    client.read_exact(&mut first).await?;
    if is_four_letter_word(first) {
        server.write_all(&first).await?;
        return copy_bidirectional(client, server).await.map(drop);
    }
    let (from_client, to_client) = client.split();
    let (from_server, to_server) = server.split();
    let way = |direction| LinkHalf { shared: Arc::clone(shared), id, direction };
    let (requests, requests_out) = unbounded_channel();
    let (replies, replies_out) = unbounded_channel();
    // Readers never end first: the last item that they send is a `Close`, which the writers reach in order.
    let read = async {
        if is_tls(first) {
            let from_client = way(Direction::ToServer).read_records(&first, from_client, requests);
            tokio::join!(from_client, way(Direction::ToClient).read_records(&[], from_server, replies));
        } else {
            let from_client = way(Direction::ToServer).read_requests(first, from_client, requests);
            tokio::join!(from_client, way(Direction::ToClient).read_replies(from_server, replies));
        }
    };
    tokio::select! {
        result = way(Direction::ToServer).write(to_server, requests_out) => result,
        result = way(Direction::ToClient).write(to_client, replies_out) => result,
        () = read => Ok(()),
    }
}

impl LinkHalf {
    async fn read_requests(self, first: [u8; 4], mut client: ReadHalf<'_>, out: UnboundedSender<Item>) {
        let mut next = Frame::read_after(first, &mut client).await.map(Some);
        let mut greeted = false;
        while let Ok(Some(frame)) = next {
            self.apply_verdict(frame, &out, |state, payload| {
                state.counts.send(payload.len());
                match greeted {
                    false => state.handshake(self.id),
                    true => {
                        let header = RequestHeader::parse(payload);
                        let path = header.as_ref().and_then(|header| path(header.op, payload));
                        state.request(self.id, header, path)
                    }
                }
            });
            greeted = true;
            next = Frame::read(&mut client).await;
        }
        self.finish(&out).await;
    }

    async fn read_replies(self, mut server: ReadHalf<'_>, out: UnboundedSender<Item>) {
        let mut greeted = false;
        while let Ok(Some(mut frame)) = Frame::read(&mut server).await {
            if !greeted && let Some(factor) = self.shared.lock().faults.stretch {
                frame = frame.stretched(factor);
            }
            self.apply_verdict(frame, &out, |state, payload| {
                state.counts.receive(payload.len());
                match greeted {
                    false => state.handshake_answer(self.id, ConnectResponse::parse(payload)),
                    true => state.reply(self.id, ReplyHeader::parse(payload)),
                }
            });
            greeted = true;
        }
        self.finish(&out).await;
    }

    /// Reads the records of a connection over TLS, without parsing them. `begun` contains the bytes that were read
    /// already.
    async fn read_records(self, begun: &[u8], mut stream: ReadHalf<'_>, out: UnboundedSender<Item>) {
        let mut next = Frame::read_record(begun, &mut stream).await;
        while let Ok(Some(record)) = next {
            let is_data = record.is_data();
            self.apply_verdict(record, &out, |state, payload| {
                state.record(self.id, self.direction, payload.len(), is_data)
            });
            next = Frame::read_record(&[], &mut stream).await;
        }
        self.finish(&out).await;
    }

    /// Lets the state decide about a frame, and queues it.
    fn apply_verdict(
        &self,
        frame: Frame,
        out: &UnboundedSender<Item>,
        verdict: impl FnOnce(&mut State, &[u8]) -> Verdict,
    ) {
        let now = Instant::now();
        let (verdict, delay) = self.shared.update(|state| (verdict(state, frame.payload()), state.delay()));
        let send_at = |due, what| {
            // The writer ends only with the whole link.
            drop(out.send(Item { due, what }));
        };
        let send = |what| send_at(now + delay, what);
        match verdict {
            Verdict::Deliver(note) => send(Action::Frame(frame, note)),
            Verdict::Park(release, note) => {
                send(Action::Park(release));
                send(Action::Frame(frame, note));
            }
            Verdict::Delay(more, release, note) => {
                release.map(Action::Park).into_iter().for_each(send);
                send_at(now + delay + more, Action::Frame(frame, note));
            }
            Verdict::Alter(release, alteration, note) => {
                release.map(Action::Park).into_iter().for_each(send);
                send(Action::Frame(frame.altered(alteration), note));
            }
            Verdict::Last(release, note) => {
                release.map(Action::Park).into_iter().for_each(send);
                send(Action::Frame(frame, note));
                send(Action::Close);
            }
            Verdict::Cut => send(Action::Close),
            Verdict::Lose => {}
        }
    }

    /// Passes on the end of a stream, after everything before it.
    async fn finish(&self, out: &UnboundedSender<Item>) {
        let delay = self.shared.lock().delay();
        drop(out.send(Item { due: Instant::now() + delay, what: Action::Close }));
        pending::<()>().await;
    }

    /// Delivers frames when they are due, until the connection ends.
    async fn write(self, mut out: WriteHalf<'_>, mut items: UnboundedReceiver<Item>) -> io::Result<()> {
        while let Some(Item { due, what }) = items.recv().await {
            if due > Instant::now() {
                sleep_until(due).await;
            }
            match what {
                Action::Park(release) => self.shared.until(|state| state.faults.is_released(release)).await,
                // Checked again: frames already queued when a black hole opens are lost too.
                _ if self.shared.lock().loses(self.id, self.direction) => {
                    if matches!(what, Action::Close) {
                        // The other side must not notice the end before the black hole is healed.
                        pending::<()>().await;
                    }
                }
                Action::Frame(frame, note) => {
                    let is_reply = matches!(note, Note::Reply(_));
                    // Recorded before the write: the next request may arrive before this task runs again.
                    if is_reply {
                        self.shared.update(|state| state.delivered(self.id, &note));
                    }
                    if let Err(e) = out.write_all(frame.bytes()).await {
                        return self.break_off(e).await;
                    }
                    if !is_reply {
                        self.shared.update(|state| state.delivered(self.id, &note));
                    }
                }
                Action::Close => break,
            }
        }
        Ok(())
    }

    /// The receiver has closed the connection. The sender is notified, unless the direction back to it is lost.
    async fn break_off(&self, error: io::Error) -> io::Result<()> {
        if self.shared.lock().loses(self.id, self.direction.opposite()) {
            pending::<()>().await;
        }
        Err(error)
    }
}

fn duplicate(stream: &TcpStream) -> io::Result<std::net::TcpStream> {
    stream.as_fd().try_clone_to_owned().map(Into::into)
}
