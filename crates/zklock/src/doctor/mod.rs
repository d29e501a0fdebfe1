//! `zklock doctor`: checks the servers, the network, the permissions and this machine, and prints what is wrong.

mod findings;
mod look;

use curator_recipes::client::ConnectString;

use self::findings::findings;
use self::look::{look_at_a_node, look_at_server, look_at_this_machine};
use crate::arguments::Doctor;
use crate::contender::Contender;
use crate::failure::Failure;
use crate::print::print;
use crate::settings::Connection;

/// What was measured.
pub(crate) struct Seen {
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
    looked: Result<Looked, String>,
}

/// The answers of a server.
pub(crate) struct Looked {
    asked: std::time::Duration,
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
        let looked = look_at_server(connection.settings()?.of_server(&name), &this).await;
        match &looked {
            Ok(looked) => print(&format!("{name}: {looked}\n"))?,
            Err(_) => print(&format!("{name}: cannot be used\n"))?,
        }
        servers.push(Server { name, looked });
    }
    let is_one_there = servers.iter().any(|server| server.looked.is_ok());
    let node = if is_one_there { look_at_a_node(connection, &doctor.root, &this).await? } else { Ok(0) };
    let findings = findings(&Seen { servers, node, clock_source: look_at_this_machine() });
    for finding in &findings {
        print(&format!("- {finding}\n"))?;
    }
    if findings.is_empty() {
        print("nothing is wrong\n")?;
    }
    Ok(u8::from(!findings.is_empty()))
}
