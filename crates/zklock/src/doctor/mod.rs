//! `zklock doctor`: checks the servers, the network, the permissions and this machine, and prints
//! what is wrong.

mod findings;
mod measure;

use curator_recipes::client::{ConnectString, Error as ClientError};

use self::findings::findings;
use self::measure::{measure_node, measure_server, read_clock_source};
use crate::failure::Failure;
use crate::print::print;
use crate::printable::{SENTENCE, printable};
use crate::settings::Connection;

/// What was measured.
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

/// What was measured of a server.
pub(crate) struct ServerMeasurement {
    requested: std::time::Duration,
    granted: std::time::Duration,
    round_trip: std::time::Duration,
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
                print(&(printable(&format!("{host}: {measurement}"), SENTENCE) + "\n"))?
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
