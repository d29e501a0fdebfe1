//! A network of real sockets, so that the in-memory transport is held to the tests of the other one.

use std::io;
use std::sync::Mutex;
use std::task::{Context, Poll};

use curator_client::simulation::{Connected, Network, Socket};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};
use tokio::task::JoinSet;

pub(crate) struct TcpNetwork;

impl Network for TcpNetwork {
    fn connect(&self, host: &str, port: u16) -> Connected {
        let address = (host.trim_matches(['[', ']']).to_owned(), port);
        Box::pin(async move {
            let stream = TcpStream::connect(address).await?;
            stream.set_nodelay(true)?;
            let (reader, writer) = stream.into_split();
            let ((sender, frames), (requests, to_send)) = (mpsc::unbounded_channel(), mpsc::unbounded_channel());
            let mut tasks = JoinSet::new();
            tasks.spawn(read(reader, sender));
            // Not in the set: a request may be sent just before the drop.
            tokio::spawn(write(writer, to_send));
            Ok(Box::new(TcpSocket { requests, frames: Mutex::new(frames), _tasks: tasks }) as Box<dyn Socket>)
        })
    }
}

struct TcpSocket {
    requests: UnboundedSender<Vec<u8>>,
    frames: Mutex<UnboundedReceiver<Vec<u8>>>,
    _tasks: JoinSet<()>,
}

impl Socket for TcpSocket {
    fn send(&self, frame: Vec<u8>) {
        drop(self.requests.send(frame));
    }

    fn poll_receive(&self, cx: &mut Context<'_>) -> Poll<Option<Vec<u8>>> {
        self.frames.lock().unwrap().poll_recv(cx)
    }
}

async fn read(mut reader: OwnedReadHalf, frames: UnboundedSender<Vec<u8>>) {
    let mut frame = async || {
        let length = usize::try_from(reader.read_i32().await?).map_err(io::Error::other)?;
        let mut frame = vec![0; length];
        reader.read_exact(&mut frame).await?;
        io::Result::Ok(frame)
    };
    while let Ok(frame) = frame().await {
        if frames.send(frame).is_err() {
            return;
        }
    }
}

async fn write(mut writer: OwnedWriteHalf, mut frames: UnboundedReceiver<Vec<u8>>) {
    while let Some(frame) = frames.recv().await {
        let mut bytes = i32::try_from(frame.len()).unwrap().to_be_bytes().to_vec();
        bytes.extend(frame);
        if writer.write_all(&bytes).await.is_err() {
            return;
        }
    }
}
