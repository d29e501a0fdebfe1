//! The network between the members of an ensemble, through proxies that can cut it.
//!
//! Each member reaches each other member through two separate proxies, for the quorum port and the
//! election port: its `zoo.cfg` has the proxies' addresses for the others, and its real address for
//! itself. The proxies copy bytes, with one exception. For elections, each pair of members keeps
//! only the connection that the greater id opened. So the member with the greater id closes a
//! connection from the smaller id, and connects back to the address in that connection's first
//! message (`QuorumCnxManager.InitialMessage`). That is the real address, which would bypass the
//! proxies, so the proxy replaces it with the address of the proxy in the other direction.

use std::{collections::BTreeMap, future::pending, io, net::SocketAddr, sync::Arc, time::Duration};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{
        TcpStream,
        tcp::{ReadHalf, WriteHalf},
    },
    sync::watch,
    time::{Instant, sleep},
};

use crate::{
    error::Error,
    ports::{Port, ServingThread},
};

/// The first number of the first message on an election port, since 3.5. The message has one
/// address of the sender, or several.
const INITIAL_MESSAGES: [i64; 2] = [-65_536, -65_535];
/// The longest message that `InitialMessage.parse` accepts.
const LONGEST_ADDRESS: i32 = 2048;

/// How long and how often to retry a connection to a member that does not listen. A
/// follower gives its leader half a second to listen.
const PATIENCE: Duration = Duration::from_millis(500);
const RETRY: Duration = Duration::from_millis(5);

/// The size of the copy buffer in bytes.
const BUFFER: usize = 16 * 1024;

/// The ports of a member for other members.
#[derive(Debug)]
pub(crate) struct InternalPorts {
    pub(crate) quorum: Port,
    pub(crate) election: Port,
}

impl InternalPorts {
    pub(crate) fn reserve() -> Result<Self, Error> {
        Ok(Self {
            quorum: Port::reserve()?,
            election: Port::reserve()?,
        })
    }

    /// The value of `server.<id>`.
    pub(crate) fn server(&self) -> String {
        format!(
            "127.0.0.1:{}:{}",
            self.quorum.number(),
            self.election.number()
        )
    }
}

/// All links of an ensemble.
#[derive(Debug)]
pub(crate) struct Network {
    /// The links, by the numbers of the connecting and the accepting member.
    links: BTreeMap<(usize, usize), Link>,
}

/// The proxies from one member to another.
#[derive(Debug)]
struct Link {
    ports: InternalPorts,
    state: watch::Sender<State>,
    /// Dropped with the link, which closes its connections.
    _threads: [ServingThread; 2],
}

/// Whether a link is cut.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct State {
    is_cut: bool,
    /// How many times the link was cut. Without this count, a connection could miss a brief cut.
    cuts: u64,
}

/// The address in a first message, and its replacement.
#[derive(Debug, Clone)]
struct CallBack {
    advertised: String,
    instead: String,
}

impl Network {
    /// Starts the proxies between these members.
    pub(crate) fn start(members: &[InternalPorts]) -> Result<Self, Error> {
        let pairs =
            (0..members.len()).flat_map(|from| (0..members.len()).map(move |to| (from, to)));
        let ports = pairs
            .filter(|(from, to)| from != to)
            .map(|pair| InternalPorts::reserve().map(|ports| (pair, ports)));
        let ports = ports.collect::<Result<BTreeMap<_, _>, _>>()?;
        let call_back = |(from, to): (usize, usize)| CallBack {
            advertised: members[from].election.address().to_string(),
            instead: ports[&(to, from)].election.address().to_string(),
        };
        let call_backs: Vec<_> = ports.keys().copied().map(call_back).collect();
        let links = ports
            .into_iter()
            .zip(call_backs)
            .map(|((pair, ports), call_back)| {
                let (_, to) = pair;
                let state = watch::Sender::new(State::default());
                let quorum = serve(&ports.quorum, members[to].quorum.address(), None, &state)?;
                let election = serve(
                    &ports.election,
                    members[to].election.address(),
                    Some(call_back),
                    &state,
                )?;
                Ok((
                    pair,
                    Link {
                        ports,
                        state,
                        _threads: [quorum, election],
                    },
                ))
            })
            .collect::<Result<_, Error>>()?;
        Ok(Self { links })
    }

    /// The value of `server.<id>` of member `to` in the configuration of member `from`.
    pub(crate) fn server(&self, from: usize, to: usize) -> Option<String> {
        self.links.get(&(from, to)).map(|link| link.ports.server())
    }

    /// Cuts each link between members whose numbers `between` accepts.
    pub(crate) fn cut(&self, between: impl Fn(usize, usize) -> bool) {
        for (_, link) in self
            .links
            .iter()
            .filter(|((from, to), _)| between(*from, *to))
        {
            link.state.send_modify(|state| {
                *state = State {
                    is_cut: true,
                    cuts: state.cuts + 1,
                }
            });
        }
    }

    /// Restores all links.
    pub(crate) fn restore(&self) {
        for link in self.links.values() {
            link.state.send_modify(|state| state.is_cut = false);
        }
    }
}

fn serve(
    port: &Port,
    upstream: SocketAddr,
    call_back: Option<CallBack>,
    state: &watch::Sender<State>,
) -> Result<ServingThread, Error> {
    let call_back = call_back.map(Arc::new);
    let state = state.clone();
    ServingThread::start(
        "ensemble-proxy",
        port.address(),
        move |member| carry(member, upstream, call_back.clone(), state.subscribe()),
        pending(),
    )
}

/// Carries one connection until it ends, or until its first cut has ended. During the cut nothing
/// passes, not even the end of the connection; afterwards both ends are closed.
async fn carry(
    mut member: TcpStream,
    upstream: SocketAddr,
    call_back: Option<Arc<CallBack>>,
    mut state: watch::Receiver<State>,
) {
    let mut other = None;
    let before = *state.borrow();
    let now = state.clone();
    let passes = || !before.is_cut && *now.borrow() == before;
    tokio::select! {
        biased;
        // The sender exists as long as the thread that this runs on.
        _ = state.wait_for(|now| now.is_cut || *now != before) => {}
        // An error also ends the connection.
        _ = relay(&mut member, &mut other, upstream, call_back.as_deref(), &passes) => if passes() { return },
    }
    drop(state.wait_for(|now| !now.is_cut).await);
}

async fn relay(
    member: &mut TcpStream,
    other: &mut Option<TcpStream>,
    upstream: SocketAddr,
    call_back: Option<&CallBack>,
    passes: &impl Fn() -> bool,
) -> io::Result<()> {
    member.set_nodelay(true)?;
    let other = other.insert(connect(upstream).await?);
    other.set_nodelay(true)?;
    let (mut from_member, to_member) = member.split();
    let (from_other, mut to_other) = other.split();
    if let Some(call_back) = call_back {
        let first = call_back.first_message(&mut from_member).await?;
        if !passes() {
            return Ok(());
        }
        to_other.write_all(&first).await?;
    }
    tokio::select! {
        result = copy(from_member, to_other, passes) => result,
        result = copy(from_other, to_member, passes) => result,
    }
}

/// Copies one direction to its end. `passes` is checked after each read, so bytes sent after a cut
/// do not pass, even if this thread has not been notified of the cut yet.
async fn copy(
    mut from: ReadHalf<'_>,
    mut to: WriteHalf<'_>,
    passes: &impl Fn() -> bool,
) -> io::Result<()> {
    let mut buffer = vec![0; BUFFER];
    loop {
        let count = from.read(&mut buffer).await?;
        if count == 0 || !passes() {
            return Ok(());
        }
        to.write_all(&buffer[..count]).await?;
    }
}

/// Connects to a member that might not listen yet.
///
/// Without the proxy, an early connection is refused, and the follower tries again. The proxy has
/// already accepted the connection; if the proxy closed it, the follower would conclude that its
/// new leader has failed, and the next election would begin only after that leader has waited for
/// `initLimit`.
async fn connect(upstream: SocketAddr) -> io::Result<TcpStream> {
    let end = Instant::now() + PATIENCE;
    loop {
        match TcpStream::connect(upstream).await {
            Err(_) if Instant::now() < end => sleep(RETRY).await,
            result => return result,
        }
    }
}

impl CallBack {
    /// Reads the first message on an election port, and replaces its address. If it is any other
    /// message, reads only its first number.
    async fn first_message(&self, member: &mut ReadHalf<'_>) -> io::Result<Vec<u8>> {
        let version = member.read_i64().await?;
        if !INITIAL_MESSAGES.contains(&version) {
            return Ok(version.to_be_bytes().into());
        }
        let id = member.read_i64().await?;
        let length = member.read_i32().await?;
        let length = usize::try_from(length.min(LONGEST_ADDRESS)).unwrap_or(0);
        let mut advertised = vec![0; length];
        member.read_exact(&mut advertised).await?;
        let address = String::from_utf8_lossy(&advertised).replace(&self.advertised, &self.instead);
        // The new address is as long as the old one, because both ports have five digits.
        let length = i32::try_from(address.len()).unwrap_or(i32::MAX);
        Ok([
            &version.to_be_bytes()[..],
            &id.to_be_bytes(),
            &length.to_be_bytes(),
            address.as_bytes(),
        ]
        .concat())
    }
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;
    use crate::wait::soon;

    /// The ports of two members, and the network between them.
    struct Pair {
        ports: Vec<InternalPorts>,
        network: Network,
    }

    impl Pair {
        fn new() -> Self {
            let ports = vec![
                InternalPorts::reserve().unwrap(),
                InternalPorts::reserve().unwrap(),
            ];
            Self {
                network: Network::start(&ports).unwrap(),
                ports,
            }
        }

        async fn listen(&self, member: usize) -> TcpListener {
            TcpListener::bind(self.ports[member].election.address())
                .await
                .unwrap()
        }

        /// A connection from the first member to the second.
        async fn connect(&self) -> TcpStream {
            TcpStream::connect(self.network.links[&(0, 1)].ports.election.address())
                .await
                .unwrap()
        }
    }

    fn first_message(address: &str) -> Vec<u8> {
        let length = i32::try_from(address.len()).unwrap();
        [
            &INITIAL_MESSAGES[0].to_be_bytes()[..],
            &1_i64.to_be_bytes(),
            &length.to_be_bytes(),
            address.as_bytes(),
        ]
        .concat()
    }

    #[tokio::test]
    async fn the_election_address_in_a_message_is_replaced_by_the_reverse_proxys_address() {
        let pair = Pair::new();
        let one = pair.listen(0).await;
        let other = pair.listen(1).await;
        let own = pair.ports[0].election.address().to_string();
        let mut connection = pair.connect().await;
        connection
            .write_all(&[first_message(&own), b"more".to_vec()].concat())
            .await
            .unwrap();
        let (mut accepted, _) = soon(other.accept()).await.unwrap();
        let mut read = vec![0; first_message(&own).len() + 4];
        accepted.read_exact(&mut read).await.unwrap();
        let advertised = String::from_utf8(read[20..read.len() - 4].to_vec()).unwrap();
        assert_ne!(advertised, own);
        assert_eq!(
            read,
            [first_message(&advertised), b"more".to_vec()].concat()
        );
        // The new address is the proxy of the other direction, so its connections are cut
        // too.
        let _back = TcpStream::connect(&advertised).await.unwrap();
        soon(one.accept()).await.unwrap();
    }

    #[tokio::test]
    async fn a_connection_waits_for_a_member_that_is_about_to_listen() {
        let pair = Pair::new();
        let mut connection = pair.connect().await;
        connection.write_i64(1).await.unwrap();
        let other = pair.listen(1).await;
        let (mut accepted, _) = soon(other.accept()).await.unwrap();
        assert_eq!(accepted.read_i64().await.unwrap(), 1);
    }
}
