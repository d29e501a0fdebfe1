//! `zklock doctor`: checks the servers, the network, the permissions and this machine, and prints
//! what is wrong.

mod certify;
mod findings;

use std::time::{Duration, Instant, SystemTime};

use curator_recipes::client::{
    ConnectString, CreateMode, CuratorClient, EnsembleTracker, Error as ClientError,
};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

pub(crate) use self::certify::certify;
use self::findings::findings;
use crate::connection_log::session_text;
use crate::contender::Contender;
use crate::failure::Failure;
use crate::print::{SENTENCE, print, printable, step};
use crate::settings::{Connection, Settings};

/// The results of all measurements.
pub(crate) struct Measurements {
    servers: Vec<Server>,
    /// How far the leader's clock is ahead of this machine's, in milliseconds, by the stat of a
    /// node created below the root of the locks; or why the node could not be created or deleted.
    node: Result<i64, String>,
    /// The kernel's clock source.
    clock_source: Option<String>,
}

/// A server of the connect string, and what was measured, or why the server cannot be used.
type Server = (String, Result<ServerMeasurement, String>);

/// The results of the measurements of one server.
pub(crate) struct ServerMeasurement {
    requested: Duration,
    granted: Duration,
    round_trip: Duration,
    /// `None` if the server does not report it.
    version: Option<String>,
}

/// Prints a line for each server, and a sentence for each problem. Returns the exit code: 1 if
/// there is a problem.
pub(crate) async fn doctor(root: &str, connection: &Connection) -> Result<u8, Failure> {
    let mut settings = connection.settings()?;
    let connect = ConnectString::parse(&settings.connect).map_err(ClientError::from)?;
    let mut servers = Vec::new();
    let all = settings.connect.clone();
    for host in connect.hosts() {
        settings.connect = host.to_string();
        let measurement = measure_server(&settings).await;
        match &measurement {
            Ok(measurement) => {
                print(&(printable(&format!("{host}: {measurement}"), SENTENCE) + "\n"))?;
            }
            Err(_) => print(&format!("{host}: cannot be used\n"))?,
        }
        servers.push((host.to_string(), measurement));
    }
    let is_any_usable = servers.iter().any(|(_, measurement)| measurement.is_ok());
    let node = if is_any_usable {
        settings.connect = all;
        settings
            .with_client(async |client| measure_node(client, root).await)
            .await?
    } else {
        Ok(0)
    };
    let findings = findings(&Measurements {
        servers,
        node,
        clock_source: read_clock_source(),
    });
    for finding in &findings {
        print(&format!("- {}\n", printable(finding, SENTENCE)))?;
    }
    if findings.is_empty() {
        print("nothing is wrong\n")?;
    }
    Ok(u8::from(!findings.is_empty()))
}

/// How many round trips are timed. Their median is reported.
const ROUND_TRIPS: usize = 11;
/// The most bytes that are read of a server's answer to `srvr`.
const LONGEST_ANSWER: u64 = 16_384;

/// Connects to one server, and measures its session timeout, its round trip and its version.
pub(crate) async fn measure_server(settings: &Settings) -> Result<ServerMeasurement, String> {
    let builder = settings
        .builder(&Contender::this(None))
        .map_err(|error| error.to_string())?
        // The client must not move to another server.
        .ensemble_tracker(EnsembleTracker::Never);
    step(format_args!("connecting to {}", settings.connect));
    let client = builder.connect().await.map_err(|error| error.to_string())?;
    step(format_args!("connected to {}", session_text(&client)));
    let measurement = async {
        let granted = client.session().await?.timeout();
        let mut times = Vec::new();
        for _ in 0..ROUND_TRIPS {
            let begun = Instant::now();
            client.sync("/").await?;
            times.push(begun.elapsed());
        }
        times.sort_unstable();
        Ok((granted, times[ROUND_TRIPS / 2]))
    };
    let measurement: Result<_, ClientError> = measurement.await;
    let _ = client.close().await;
    let (granted, round_trip) = measurement.map_err(|error| error.to_string())?;
    let version = if settings.is_plain() {
        version(&settings.connect).await
    } else {
        None
    };
    Ok(ServerMeasurement {
        requested: settings.session_timeout,
        granted,
        round_trip,
        version,
    })
}

/// The server's version, by the command `srvr`; `None` if the server refuses it.
async fn version(server: &str) -> Option<String> {
    let requested = async {
        let mut stream = TcpStream::connect(server).await.ok()?;
        stream.write_all(b"srvr").await.ok()?;
        let mut answer = String::new();
        stream
            .take(LONGEST_ANSWER)
            .read_to_string(&mut answer)
            .await
            .ok()?;
        let version = answer.lines().next()?.strip_prefix("Zookeeper version: ")?;
        Some(version.split(['-', ' ', ',']).next()?.to_owned())
    };
    tokio::time::timeout(Duration::from_secs(3), requested)
        .await
        .ok()?
}

/// Creates and deletes a node below the root of the locks, as a lock does. Returns how far the
/// leader's clock is ahead, in milliseconds.
pub(crate) async fn measure_node(client: &CuratorClient, root: &str) -> Result<i64, String> {
    let root = nearest(client, root).await;
    let path = format!("{root}/zklock-doctor-");
    let text = |error: ClientError| error.to_string();
    let denied = |remedy: &'static str| {
        move |error: ClientError| match error {
            ClientError::NoAuth { .. } => format!("{error}; {remedy}"),
            error => error.to_string(),
        }
    };
    let before = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default();
    let created = client
        .create()
        .with_mode(CreateMode::EphemeralSequential)
        .for_path(&path, "")
        .await;
    let node = created.map_err(|error| match error {
        ClientError::NoNode { .. } => {
            format!("{error}; the chroot of the connect string is missing: create it")
        }
        error => denied("give this client CREATE, or name another --root")(error),
    })?;
    let node = client.unresolve(&node).map_err(text)?;
    let found = client.check_exists(&node).await.map_err(text)?;
    let listed = client
        .get_children(if root.is_empty() { "/" } else { root })
        .await;
    let deleted = client.delete().for_path(&node).await;
    deleted.map_err(denied(
        "without DELETE, a lock is held until its session ends: give this client DELETE",
    ))?;
    listed.map_err(denied(
        "without READ, a client cannot list the contenders before it: give this client READ",
    ))?;
    let before = i64::try_from(before.as_millis()).unwrap_or(i64::MAX);
    Ok(found.map_or(0, |stat| stat.ctime.saturating_sub(before)))
}

/// The nearest node at or above `root` that exists; empty for `/`. Locks create missing parents, so
/// the doctor creates its nodes below this one.
async fn nearest<'a>(client: &CuratorClient, root: &'a str) -> &'a str {
    let mut root = root.trim_end_matches('/');
    while !root.is_empty() && matches!(client.check_exists(root).await, Ok(None)) {
        root = root.rsplit_once('/').map_or("", |(parent, _)| parent);
    }
    root
}

/// The kernel's clock source.
pub(crate) fn read_clock_source() -> Option<String> {
    let file = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
    std::fs::read_to_string(file)
        .ok()
        .map(|source| source.trim().to_owned())
}
