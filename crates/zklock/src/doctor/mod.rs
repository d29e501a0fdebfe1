//! `zklock doctor`: checks the servers, the network, the permissions and this machine, and prints what is wrong.

mod findings;
mod measure;

use curator_recipes::client::ConnectString;

use self::findings::findings;
use self::measure::{measure_node, measure_server, read_clock_source};
use crate::arguments::Doctor;
use crate::contender::Contender;
use crate::failure::Failure;
use crate::print::print;
use crate::settings::Connection;

/// What was measured.
pub(crate) struct Measurements {
    servers: Vec<Server>,
    /// How far the leader's clock is ahead of this machine's, in milliseconds, by the stat of a node created below the
    /// root of the locks; or why the node could not be created or deleted.
    node: Result<i64, String>,
    /// The kernel's clock source.
    clock_source: Option<String>,
}

/// A server of the connect string.
pub(crate) struct Server {
    name: String,
    measurement: Result<ServerMeasurement, String>,
}

/// The answers of a server.
pub(crate) struct ServerMeasurement {
    requested: std::time::Duration,
    granted: std::time::Duration,
    round_trip: std::time::Duration,
    /// `None` if the server does not report it.
    version: Option<String>,
}

/// Prints a line for each server, and a sentence for each thing that is wrong. The exit code is 1 if there is one.
pub(crate) async fn doctor(doctor: &Doctor, connection: &Connection) -> Result<u8, Failure> {
    let connect = connection.settings()?.connect;
    let connect = ConnectString::parse(&connect).map_err(|error| Failure::here(error.to_string()))?;
    let this = Contender::this(None);
    let mut servers = Vec::new();
    for host in connect.hosts() {
        let name = host.to_string();
        let measurement = measure_server(connection.settings()?.of_server(&name), &this).await;
        match &measurement {
            Ok(measurement) => print(&format!("{name}: {measurement}\n"))?,
            Err(_) => print(&format!("{name}: cannot be used\n"))?,
        }
        servers.push(Server { name, measurement });
    }
    let is_any_usable = servers.iter().any(|server| server.measurement.is_ok());
    let node = if is_any_usable { measure_node(connection, &doctor.root, &this).await? } else { Ok(0) };
    let findings = findings(&Measurements { servers, node, clock_source: read_clock_source() });
    for finding in &findings {
        print(&format!("- {finding}\n"))?;
    }
    if findings.is_empty() {
        print("nothing is wrong\n")?;
    }
    Ok(u8::from(!findings.is_empty()))
}
