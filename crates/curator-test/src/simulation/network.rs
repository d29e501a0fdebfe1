//! The network of a process: what its clients see of the world.

use std::{
    future::poll_fn,
    sync::Arc,
    task::{Context, Poll},
};

use curator_client::simulation::{Connected, Network, Socket};

use super::{shared::Shared, world::ProcessId};
use crate::embedded::ConnectionId;

/// The network of one process.
#[derive(Debug)]
pub(crate) struct ProcessNetwork {
    pub(crate) shared: Arc<Shared>,
    pub(crate) process: ProcessId,
}

impl Network for ProcessNetwork {
    fn connect(&self, host: &str, port: u16) -> Connected {
        let id = match self
            .shared
            .update(|world| world.connect(self.process, host, port))
        {
            Ok(id) => id,
            Err(error) => return Box::pin(std::future::ready(Err(error))),
        };
        // Closes the connection if the client gives up the attempt.
        let socket = ClientSocket {
            shared: Arc::clone(&self.shared),
            id,
        };
        Box::pin(async move {
            poll_fn(|context| {
                socket
                    .shared
                    .update(|world| world.poll_connected(id, context))
            })
            .await?;
            Ok(Box::new(socket) as Box<dyn Socket>)
        })
    }

    fn poll_resumed(&self, context: &mut Context<'_>) -> Poll<()> {
        self.shared.update(|world| {
            let process = &mut world.processes[self.process];
            if !process.is_paused {
                return Poll::Ready(());
            }
            if !process.is_killed {
                process.waiting.push(context.waker().clone());
            }
            Poll::Pending
        })
    }
}

/// The client's end of a connection.
#[derive(Debug)]
struct ClientSocket {
    shared: Arc<Shared>,
    id: ConnectionId,
}

impl Socket for ClientSocket {
    fn send(&self, frame: Vec<u8>) {
        self.shared
            .update(|world| world.send_to_server(self.id, Some(frame)));
    }

    fn poll_receive(&self, context: &mut Context<'_>) -> Poll<Option<Vec<u8>>> {
        self.shared
            .update(|world| world.poll_receive(self.id, context))
    }
}

impl Drop for ClientSocket {
    fn drop(&mut self) {
        self.shared
            .update(|world| world.send_to_server(self.id, None));
    }
}
