//! The check that a session continues over another connection, through a forwarder in this process
//! whose connections are cut once.

use std::io;
use std::net::Ipv4Addr;

use curator_recipes::client::{
    ConnectString, ConnectionState, CreateMode, CuratorClient, Error as ClientError, HostPort,
};
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use super::site::{Site, builder};
use super::verdict::{Checked, Problem, Verdict, expect};
use crate::settings::Settings;

/// The limitation of servers that answer a resume with another session.
pub(super) const SESSION_ENDS: &str =
    "a broken connection ends the session, with its locks and ephemeral nodes";

/// Opens a session through the forwarder, cuts its connection, and waits until the session
/// continues or ends.
pub(super) async fn check(site: Site, settings: &Settings) -> Checked {
    if !settings.is_plain() {
        let reason = "a forwarder cannot cut connections over TLS".to_owned();
        return Ok(Verdict::NotChecked(reason));
    }
    let servers = ConnectString::parse(&settings.connect).map_err(ClientError::from)?;
    let listening = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await;
    let listener = listening.map_err(|error| unforwarded(&error))?;
    let address = listener.local_addr().map_err(|error| unforwarded(&error))?;
    let cuts = watch::Sender::new(());
    let chroot = servers.chroot();
    let connect = if chroot.is_root() {
        address.to_string()
    } else {
        format!("{address}{chroot}")
    };
    tokio::select! {
        checked = resume(&site, settings, &connect, &cuts) => checked,
        error = forward(&listener, servers.hosts(), &cuts) => Err(unforwarded(&error)),
    }
}

fn unforwarded(error: &io::Error) -> Problem {
    Problem::fault(format!("cannot forward a connection: {error}"))
}

async fn resume(
    site: &Site,
    settings: &Settings,
    connect: &str,
    cuts: &watch::Sender<()>,
) -> Checked {
    let builder = builder(settings, connect).map_err(|error| Problem::fault(error.to_string()))?;
    let client = builder.connect().await?;
    let checked = cut_once(site, &client, cuts).await;
    let _ = client.close().await;
    checked
}

async fn cut_once(site: &Site, client: &CuratorClient, cuts: &watch::Sender<()>) -> Checked {
    let session = client.session().await?;
    let ephemeral = client.create().with_mode(CreateMode::Ephemeral);
    ephemeral.for_path(&site.path, "").await?;
    let mut states = client.connection_states();
    cuts.send_replace(());
    while let Some(state) = states.next().await {
        match state {
            ConnectionState::Lost => {
                return Ok(Verdict::WorksBut(SESSION_ENDS.to_owned()));
            }
            ConnectionState::Reconnected => {
                let owner = client
                    .check_exists(&site.path)
                    .await?
                    .map(|stat| stat.ephemeral_owner);
                expect(
                    session.is_valid() && client.session().await?.is_same(&session),
                    "another session continues as the same one",
                )?;
                expect(
                    owner == Some(session.id()),
                    "a resumed session has lost its ephemeral node",
                )?;
                return Ok(Verdict::Works);
            }
            _ => {}
        }
    }
    Err(Problem::fault("the client has ended"))
}

/// Forwards each connection to the next of the servers, until a cut. Returns only if no connection
/// can be accepted.
async fn forward(
    listener: &TcpListener,
    servers: &[HostPort],
    cuts: &watch::Sender<()>,
) -> io::Error {
    let mut servers = servers.iter().cycle();
    let mut connections = FuturesUnordered::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((client, _)) => connections.extend(
                    servers.next().map(|server| pass(client, server, cuts.subscribe())),
                ),
                Err(error) => return error,
            },
            Some(()) = connections.next() => {}
        }
    }
}

async fn pass(mut client: TcpStream, server: &HostPort, mut cut: watch::Receiver<()>) {
    let forwarding = async {
        let mut server = TcpStream::connect((server.host(), server.port())).await?;
        server.set_nodelay(true)?;
        client.set_nodelay(true)?;
        tokio::io::copy_bidirectional(&mut client, &mut server).await
    };
    tokio::select! {
        _ = forwarding => {}
        _ = cut.changed() => {}
    }
}
