//! Servers that lack operations of ZooKeeper: none of their sessions ends because of a request that
//! they do not know, and what they lack is reported with their name.

mod questions;
mod requests;
mod sessions;

use curator_client::{CreateMode, CuratorClient, Error, NodeSpec, ServerOperation, ZPath};
use curator_test::{Dialect, EmbeddedServer, Simulation};

use crate::support::{builder, is_native, soon};

const OPERATIONS: [ServerOperation; 6] = [
    ServerOperation::Create2,
    ServerOperation::CreateContainer,
    ServerOperation::CreateTtl,
    ServerOperation::MultiRead,
    ServerOperation::RemoveWatches,
    ServerOperation::AddWatch,
];

/// The dialects of servers other than ZooKeeper.
const OTHERS: [Dialect; 4] = [
    Dialect::ClickHouseKeeper25_8,
    Dialect::ClickHouseKeeper26_3,
    Dialect::ClickHouseKeeper26_9,
    Dialect::RaftKeeper2_3,
];

fn missing(dialect: Dialect) -> Vec<ServerOperation> {
    use ServerOperation::{AddWatch, Create2, CreateContainer, CreateTtl, RemoveWatches};
    match dialect {
        Dialect::ClickHouseKeeper25_8 | Dialect::RaftKeeper2_3 => {
            vec![Create2, CreateContainer, CreateTtl, RemoveWatches, AddWatch]
        }
        Dialect::ClickHouseKeeper26_3 => vec![CreateContainer, CreateTtl],
        Dialect::ClickHouseKeeper26_9 => vec![CreateTtl],
        // A server of ZooKeeper is not asked.
        _ => Vec::new(),
    }
}

fn server(dialect: Dialect) -> EmbeddedServer {
    EmbeddedServer::builder().dialect(dialect).start().unwrap()
}

/// Whether clients of this test program can use such a server.
fn is_usable(dialect: Dialect) -> bool {
    is_native() || !missing(dialect).contains(&ServerOperation::Create2)
}

async fn connect(connect_string: &str) -> CuratorClient {
    soon(builder(connect_string).connect()).await.unwrap()
}

fn path(text: &str) -> ZPath {
    ZPath::on_server(text).unwrap()
}

fn node(client: &CuratorClient, text: &str, mode: CreateMode) -> NodeSpec {
    NodeSpec {
        path: path(text),
        data: b"data".as_slice().into(),
        mode,
        acl: client.default_acl().clone(),
    }
}

/// Closes a client. Only a server of ZooKeeper confirms that.
async fn close(client: &CuratorClient, dialect: Dialect) {
    match client.close().await {
        Ok(()) => assert!(!OTHERS.contains(&dialect), "{dialect}"),
        Err(Error::CloseUnconfirmed { .. }) => assert!(OTHERS.contains(&dialect), "{dialect}"),
        Err(error) => panic!("{dialect}: {error}"),
    }
}

async fn simulated(dialect: Dialect) -> (Simulation, CuratorClient) {
    let simulation = Simulation::builder().dialect(dialect).start();
    let client = CuratorClient::builder(simulation.connect_string());
    let client = client.connect().await.unwrap();
    (simulation, client)
}
