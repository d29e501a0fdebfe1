//! A process of a simulation: its clients, the faults at their frames, and the network that they see.

use std::{
    future::{Future, poll_fn},
    pin::pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use curator_client::simulation::{Connected, Entered, Network, Socket, enter};
use tokio::time::timeout;

use super::{
    millis,
    shared::Shared,
    world::{ProcessId, Undo},
};
use crate::{
    Error,
    embedded::ConnectionId,
    traffic::{Traffic, WAIT_LIMIT, traffic_methods},
};

/// A process whose clients have their own view of the network, and that can be paused as a whole.
///
/// Clients belong to the process where they were started. A clone is the same process.
///
/// It counts the requests of its clients, and makes the network fail at a request that the test
/// selects, with the methods of a [`FaultProxy`](crate::FaultProxy): a fault with an
/// [`OpCode`](crate::OpCode) affects the next request of that type that *arrives* at a server after
/// the call, on any connection of the process. [`heal`](super::Simulation::heal) ends these faults
/// too. Waits for a frame are limited to 30 s of simulated time.
#[derive(Debug, Clone)]
pub struct Process {
    pub(crate) network: Arc<ProcessNetwork>,
}

impl Process {
    pub(crate) fn new(network: ProcessNetwork) -> Self {
        Self {
            network: Arc::new(network),
        }
    }

    pub(crate) fn id(&self) -> ProcessId {
        self.network.process
    }

    /// The name in the trace.
    #[must_use]
    pub fn name(&self) -> String {
        self.network
            .shared
            .update(|world| world.processes[self.id()].name.clone())
    }

    /// Clients that are started on this thread belong to this process, until the result is dropped.
    pub fn enter(&self) -> Entered {
        let network: Arc<dyn Network> = Arc::clone(&self.network) as _;
        enter(network)
    }

    /// Runs a future in this process: clients that it starts belong to the process, and it is not
    /// polled while the process is paused.
    ///
    /// Tasks that the future spawns are not wrapped: wrap them too, or they run during a pause. The
    /// tasks of a client need no wrapping.
    ///
    /// # Cancel safety
    ///
    /// As cancel safe as the future.
    pub async fn run<F: Future>(&self, future: F) -> F::Output {
        let mut future = pin!(future);
        poll_fn(|context| {
            if self.network.poll_resumed(context).is_pending() {
                return Poll::Pending;
            }
            let _entered = self.enter();
            future.as_mut().poll(context)
        })
        .await
    }

    /// Pauses the process until [`resume`](Self::resume) or [`heal`](super::Simulation::heal): none
    /// of its tasks is polled. Its connections stay open, and time passes.
    pub fn pause(&self) {
        self.network
            .shared
            .update(|world| world.pause_process(self.id()));
    }

    /// [Pauses](Self::pause) the process for this time, in whole milliseconds.
    pub fn pause_for(&self, time: Duration) {
        self.network.shared.update(|world| {
            let change = world.pause_process(self.id());
            world.undo_after(
                millis(time),
                Undo::ResumeProcess {
                    process: self.id(),
                    change,
                },
            );
        });
    }

    /// Resumes a paused process.
    pub fn resume(&self) {
        self.network
            .shared
            .update(|world| world.resume_process(self.id()));
    }

    /// Kills the process, as SIGKILL does: none of its tasks is polled again, what it has sent
    /// still arrives, and its connections end. Its sessions end when they expire. A future in
    /// [`run`](Self::run) never completes. Does nothing on a killed process.
    ///
    /// A restarted instance is a new [process](super::Simulation::process), which may have the same
    /// name. Dropping or aborting the task of an instance does not kill it: its client then closes
    /// its session in an orderly way.
    pub fn kill(&self) {
        self.network
            .shared
            .update(|world| world.kill_process(self.id()));
    }

    /// Closes all connections of the process at their servers. Its clients read the end of each
    /// connection.
    pub fn cut(&self) {
        self.network.shared.update(|world| world.cut(self.id()));
    }

    /// If `refuse` is true, the servers refuse new connections of the process. Current connections
    /// stay open.
    pub fn refuse(&self, refuse: bool) {
        self.network
            .shared
            .update(|world| world.refuse(self.id(), refuse));
    }

    fn read_traffic<R>(&self, read: impl FnOnce(&Traffic) -> R) -> R {
        self.network
            .shared
            .update(|world| read(&world.processes[self.id()].traffic))
    }

    fn change_traffic<R>(&self, change: impl FnOnce(&mut Traffic) -> R) -> R {
        self.network
            .shared
            .update(|world| world.change_traffic(self.id(), change))
    }

    async fn wait_for_traffic(
        &self,
        what: String,
        condition: impl Fn(&Traffic) -> bool,
    ) -> Result<(), Error> {
        let waiting = poll_fn(|context| {
            self.network.shared.update(|world| {
                let process = &mut world.processes[self.id()];
                if condition(&process.traffic) {
                    return Poll::Ready(());
                }
                process.watching.push(context.waker().clone());
                Poll::Pending
            })
        });
        timeout(WAIT_LIMIT, waiting)
            .await
            .map_err(|_| Error::timeout(what, WAIT_LIMIT))
    }
}

traffic_methods!(Process);

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
        // Closes the connection if the client abandons the attempt.
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
