//! A simulated server behind a real socket, in real time.

use std::{
    fmt, io,
    net::{Ipv4Addr, SocketAddr},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread,
    time::{Duration, Instant, SystemTime},
};

use curator_client::{
    codec::framed,
    simulation::{Network, Socket},
};
use tokio::{
    io::AsyncWriteExt,
    net::{
        TcpStream,
        tcp::{ReadHalf, WriteHalf},
    },
    time::timeout,
};

use super::{
    SimulationBuilder,
    process::ProcessNetwork,
    shared::{Driver, Shared},
    world::{PORT, ServerId, World},
};
use crate::{
    embedded::{Settings, words},
    error::Error,
    ports::{Port, ServingThread},
    wire::{First, close_lingering, first_frame, next_frame},
};

/// How many servers the ensemble has.
const SERVERS: usize = 3;

/// The time limit of a change by the operator, which usually takes some milliseconds.
const CHANGE_TIMEOUT: Duration = Duration::from_secs(5);

/// How often a connection checks whether a paused server has been resumed.
const PAUSE: Duration = Duration::from_millis(5);

/// A follower of a simulated ensemble, for real clients.
pub(crate) struct SimulatedServer {
    front: Arc<Front>,
    thread: ServingThread,
    port: Port,
    /// Locked while the server starts or stops, as the ensemble and the port change together.
    control: Mutex<()>,
}

/// The state that serves the clients, shared by their connections.
struct Front {
    network: ProcessNetwork,
    server: ServerId,
    settings: Settings,
}

impl fmt::Debug for SimulatedServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SimulatedServer")
            .field("port", &self.port.number())
            .finish_non_exhaustive()
    }
}

impl SimulatedServer {
    /// Starts an ensemble. It is ready when this returns.
    pub(crate) fn start(settings: Settings) -> Result<Self, Error> {
        let port = Port::reserve()?;
        let since_1970 = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
        // The seed makes the passwords of sessions differ from other servers' passwords.
        let seed = u64::from(port.number()) << 32 | u64::from(since_1970.subsec_nanos());
        let builder = SimulationBuilder::default()
            .seed(seed)
            .servers(SERVERS)
            .trace_lines(0);
        let start = i64::try_from(since_1970.as_millis()).unwrap_or(i64::MAX);
        let mut world = World::new(builder.into_config(settings, start));
        let process = world.add_process_at("client", Ipv4Addr::LOCALHOST);
        let server = (0..SERVERS)
            .find(|server| world.leader() != Some(*server))
            .unwrap_or_default();
        let shared = Arc::new(Shared::in_real_time(world));
        let driver = Driver::new(Arc::clone(&shared));
        let front = Arc::new(Front {
            network: ProcessNetwork { shared, process },
            server,
            settings,
        });
        let serve = {
            let front = Arc::clone(&front);
            move |client| serve(client, Arc::clone(&front))
        };
        let thread = ServingThread::start("simulated-zookeeper", port.address(), serve, driver)?;
        Ok(Self {
            front,
            thread,
            port,
            control: Mutex::default(),
        })
    }

    fn control(&self) -> MutexGuard<'_, ()> {
        self.control.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn each<R>(&self, change: impl Fn(&mut World, ServerId) -> R) {
        self.front
            .update(|world| (0..SERVERS).for_each(|server| drop(change(world, server))));
    }

    fn shut_down(&self) {
        self.each(World::stop);
        // If the thread does not reply, it has ended and does not listen.
        drop(self.thread.listen(false));
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.port.address()
    }

    pub(crate) fn is_running(&self) -> bool {
        self.front
            .update(|world| world.servers[self.front.server].is_up)
    }

    pub(crate) fn stop(&self) {
        let _controlled = self.control();
        self.shut_down();
    }

    pub(crate) fn restart(&self) -> Result<(), Error> {
        let _controlled = self.control();
        self.shut_down();
        self.each(World::start);
        self.thread.listen(true).inspect_err(|_| self.shut_down())
    }

    pub(crate) fn pause(&self) {
        self.each(World::pause_server);
    }

    pub(crate) fn resume(&self) {
        self.each(World::resume_server);
    }

    pub(crate) fn set_create_counter(&self, path: &str, counter: i32) -> Result<(), Error> {
        self.check_running("change of a counter")?;
        let change = |world: &mut World| {
            world
                .set_create_counter(path, counter)
                .then(|| world.last_index())
        };
        let index = self
            .front
            .update(change)
            .ok_or_else(|| Error::NoNode(path.to_owned()))?;
        let begin = Instant::now();
        while self
            .front
            .update(|world| world.servers[self.front.server].applied < index)
        {
            if begin.elapsed() > CHANGE_TIMEOUT {
                return Err(Error::timeout("a change of a counter", CHANGE_TIMEOUT));
            }
            thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    pub(crate) fn four_letter_word(&self, word: &str) -> Result<String, Error> {
        let known = words::parse(word)?;
        self.check_running(&format!("reply to `{word}`"))?;
        Ok(self
            .front
            .update(|world| world.word(self.front.server, known)))
    }

    /// Fails if the server is stopped or paused.
    fn check_running(&self, what: &str) -> Result<(), Error> {
        let server = self.front.server;
        match self
            .front
            .update(|world| (world.servers[server].is_up, world.servers[server].is_paused))
        {
            (false, _) => Err(Error::NotRunning(self.address())),
            (_, true) => Err(Error::timeout(
                format!("a {what} from a paused server"),
                Duration::ZERO,
            )),
            (true, false) => Ok(()),
        }
    }
}

impl Front {
    fn update<R>(&self, change: impl FnOnce(&mut World) -> R) -> R {
        self.network.shared.update(change)
    }

    /// Waits until the server is not paused.
    async fn resumed(&self) {
        while self.update(|world| world.servers[self.server].is_paused) {
            tokio::time::sleep(PAUSE).await;
        }
    }

    fn host(&self) -> String {
        self.update(|world| world.servers[self.server].name.clone())
    }
}

/// Serves one client until either side ends the connection.
async fn serve(mut client: TcpStream, front: Arc<Front>) {
    // Without this, Nagle's algorithm can delay a small reply until the previous one is
    // acknowledged. Fails only for a closed socket.
    drop(client.set_nodelay(true));
    let Ok(socket) = front.network.connect(&front.host(), PORT).await else {
        return;
    };
    let (from_client, to_client) = client.split();
    // An error also ends the connection.
    tokio::select! {
        biased;
        _ = write(to_client, &*socket) => {}
        word = read(from_client, &*socket, &front) => {
            if let Ok(word) = word {
                front.resumed().await;
                let answer = front.update(|world| world.answer_word(front.server, word));
                drop(client.write_all(answer.as_bytes()).await);
            }
        }
    }
    drop(socket);
    close_lingering(client).await;
}

/// Passes the client's frames to the server. Returns when the client closes the connection, sends
/// an invalid frame or a four-letter word, or does not send its first frame within the timeout.
async fn read(mut client: ReadHalf<'_>, socket: &dyn Socket, front: &Front) -> io::Result<[u8; 4]> {
    let Settings {
        max_frame,
        sessionless_timeout,
        ..
    } = front.settings;
    match timeout(sessionless_timeout, first_frame(&mut client, max_frame)).await?? {
        First::Word(word) => return Ok(word),
        First::Frame(frame) => socket.send(frame),
    }
    loop {
        socket.send(next_frame(&mut client, max_frame).await?);
    }
}

/// Sends the server's frames to the client. Returns when the server closes the connection.
async fn write(mut client: WriteHalf<'_>, socket: &dyn Socket) -> io::Result<()> {
    while let Some(frame) = std::future::poll_fn(|context| socket.poll_receive(context)).await {
        client.write_all(&framed(&frame)).await?;
    }
    Ok(())
}
