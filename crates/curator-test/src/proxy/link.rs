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
    End, Shared,
    frame::{Frame, is_four_letter_word, is_tls},
};
use crate::traffic::{Delivery, Direction, LinkId, Note, Traffic, Verdict};

/// An action for the writer of one direction. It is carried out when it is due, after earlier
/// items.
struct Item {
    due: Instant,
    action: Action,
}

enum Action {
    Frame(Frame, Note),
    /// Holds all later items back until the release with this number.
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
    let Ok(duplicate) = duplicate(&client) else {
        return;
    };
    let (id, mut end) = shared.update(|state| state.open(duplicate));
    let _open = Open {
        id,
        shared: &shared,
    };
    let mut server = None;
    let ended = tokio::select! {
        biased;
        ended = end.wait_for(Option::is_some) => ended.ok().and_then(|end| *end),
        // An error also ends the connection.
        _ = relay(&mut client, &mut server, upstream, id, &shared) => None,
    };
    if ended == Some(End::Reset) {
        // Fails only for a closed socket.
        drop(client.set_zero_linger());
        drop(server.as_ref().map(TcpStream::set_zero_linger));
    }
    // The sockets close before the link is removed, so that they are closed when a waiter sees the
    // removal.
    drop((client, server));
}

/// Unregisters the link when dropped, however the connection ends.
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
    let half = |direction| LinkHalf {
        shared: Arc::clone(shared),
        id,
        direction,
    };
    let (requests, requests_out) = unbounded_channel();
    let (replies, replies_out) = unbounded_channel();
    // Readers never end first: the last item that they send is a `Close`, which the writers reach
    // in order.
    let read = async {
        if is_tls(first) {
            let from_client = half(Direction::ToServer).read_records(&first, from_client, requests);
            tokio::join!(
                from_client,
                half(Direction::ToClient).read_records(&[], from_server, replies)
            );
        } else {
            let from_client = half(Direction::ToServer).read_requests(first, from_client, requests);
            tokio::join!(
                from_client,
                half(Direction::ToClient).read_replies(from_server, replies)
            );
        }
    };
    tokio::select! {
        result = half(Direction::ToServer).write(to_server, requests_out) => result,
        result = half(Direction::ToClient).write(to_client, replies_out) => result,
        () = read => Ok(()),
    }
}

impl LinkHalf {
    async fn read_requests(
        self,
        first: [u8; 4],
        mut client: ReadHalf<'_>,
        out: UnboundedSender<Item>,
    ) {
        let mut next = Frame::read_after(first, &mut client).await.map(Some);
        while let Ok(Some(mut frame)) = next {
            if self.awaits_handshake() && self.shared.lock().replaces_sessions {
                frame = frame.for_a_new_session();
            }
            self.apply_verdict(frame, &out, |traffic, payload| {
                traffic.pass_to_server(self.id, payload)
            });
            next = Frame::read(&mut client).await;
        }
        self.finish(&out).await;
    }

    async fn read_replies(self, mut server: ReadHalf<'_>, out: UnboundedSender<Item>) {
        while let Ok(Some(mut frame)) = Frame::read(&mut server).await {
            if self.awaits_handshake()
                && let Some(factor) = self.shared.lock().stretch
            {
                frame = frame.stretched(factor);
            }
            self.apply_verdict(frame, &out, |traffic, payload| {
                traffic.pass_to_client(self.id, payload)
            });
        }
        self.finish(&out).await;
    }

    fn awaits_handshake(&self) -> bool {
        self.shared
            .lock()
            .traffic
            .awaits_handshake(self.id, self.direction)
    }

    /// Reads the records of a connection over TLS, without parsing them. `begun` contains the bytes
    /// that were read already.
    async fn read_records(
        self,
        begun: &[u8],
        mut stream: ReadHalf<'_>,
        out: UnboundedSender<Item>,
    ) {
        let mut next = Frame::read_record(begun, &mut stream).await;
        while let Ok(Some(record)) = next {
            let is_data = record.is_data();
            self.apply_verdict(record, &out, |traffic, payload| {
                traffic.record(self.id, self.direction, payload.len(), is_data)
            });
            next = Frame::read_record(&[], &mut stream).await;
        }
        self.finish(&out).await;
    }

    /// Asks the traffic for a verdict on a frame, and queues the resulting actions. A frame that is
    /// lost or cut is dropped.
    fn apply_verdict(
        &self,
        frame: Frame,
        out: &UnboundedSender<Item>,
        verdict: impl FnOnce(&mut Traffic, &[u8]) -> Verdict,
    ) {
        let now = Instant::now();
        let (verdict, delay) = self
            .shared
            .update(|state| (verdict(&mut state.traffic, frame.payload()), state.delay));
        let send_at = |due, action| {
            // The send fails only when the whole link ends.
            drop(out.send(Item { due, action }));
        };
        let send = |action| send_at(now + delay, action);
        match verdict {
            Verdict::Deliver(Delivery {
                release,
                delay: late,
                alteration,
                note,
                is_last,
            }) => {
                release.map(Action::Park).into_iter().for_each(send);
                let frame = match alteration {
                    Some(alteration) => frame.altered(alteration),
                    None => frame,
                };
                send_at(now + delay + late, Action::Frame(frame, note));
                is_last.then_some(Action::Close).into_iter().for_each(send);
            }
            Verdict::Cut => send(Action::Close),
            Verdict::Lose => {}
        }
    }

    /// Queues the end of a stream, and waits until the writer ends the link.
    async fn finish(&self, out: &UnboundedSender<Item>) {
        let delay = self.shared.lock().delay;
        drop(out.send(Item {
            due: Instant::now() + delay,
            action: Action::Close,
        }));
        pending::<()>().await;
    }

    /// Carries out items when they are due, until the connection ends.
    async fn write(
        self,
        mut out: WriteHalf<'_>,
        mut items: UnboundedReceiver<Item>,
    ) -> io::Result<()> {
        while let Some(Item { due, action }) = items.recv().await {
            if due > Instant::now() {
                sleep_until(due).await;
            }
            match action {
                Action::Park(release) => {
                    self.shared
                        .until(|state| state.traffic.faults.is_released(release))
                        .await;
                }
                // Checked again, because frames that are already queued when a black hole opens
                // must be lost too.
                _ if self.shared.lock().traffic.loses(self.id, self.direction) => {
                    if matches!(action, Action::Close) {
                        // The other side must not notice the end before the black hole is healed.
                        pending::<()>().await;
                    }
                }
                Action::Frame(frame, note) => {
                    let is_reply = matches!(note, Note::Reply(_));
                    // A reply is recorded before the write, because the next request may arrive
                    // before this task runs again.
                    if is_reply {
                        self.shared
                            .update(|state| state.traffic.delivered(self.id, &note));
                    }
                    if let Err(e) = out.write_all(frame.bytes()).await {
                        return self.end_after(e).await;
                    }
                    if !is_reply {
                        self.shared
                            .update(|state| state.traffic.delivered(self.id, &note));
                    }
                }
                Action::Close => break,
            }
        }
        Ok(())
    }

    /// Handles a failed write: the receiver has closed the connection. Returns the error, which
    /// closes the sender's connection, or waits forever if bytes to the sender are lost.
    async fn end_after(&self, error: io::Error) -> io::Result<()> {
        if self
            .shared
            .lock()
            .traffic
            .loses(self.id, self.direction.opposite())
        {
            pending::<()>().await;
        }
        Err(error)
    }
}

fn duplicate(stream: &TcpStream) -> io::Result<std::net::TcpStream> {
    stream.as_fd().try_clone_to_owned().map(Into::into)
}
