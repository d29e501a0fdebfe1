//! Four-letter words: the server's reports about itself.

use std::fmt::{self, Write};

use super::{family::Family, processor::Processor, sessions::Connection};
use crate::{OpCode, dialect::Dialect, error::Error, wire::is_word};

/// The release that this server reproduces. That of ZooKeeper 3.9 is compared with this server in
/// the conformance tests.
fn release(dialect: Dialect) -> &'static str {
    match dialect {
        Dialect::ZooKeeper3_5 => "3.5.10",
        Dialect::ZooKeeper3_6 => "3.6.4",
        Dialect::ZooKeeper3_7 => "3.7.1",
        Dialect::ZooKeeper3_8_0 => "3.8.0",
        Dialect::ZooKeeper3_8 => "3.8.6",
        Dialect::ZooKeeper3_9 => "3.9.5",
        Dialect::ZooKeeper3_10 => "3.10.0",
        Dialect::ClickHouseKeeper25_8 => "v25.8.1",
        Dialect::ClickHouseKeeper26_3 => "v26.3.1",
        Dialect::ClickHouseKeeper26_9 => "v26.9.1",
        Dialect::RaftKeeper2_3 => "2.3.0",
    }
}

/// The version that the server reports.
fn version(server: &Processor) -> String {
    let release = release(server.settings.protocol.dialect);
    let package = env!("CARGO_PKG_VERSION");
    format!("{release}-embedded, built into curator-test {package}")
}

/// Parses a four-letter word.
///
/// # Errors
///
/// When this is not a four-letter word.
pub(crate) fn parse(word: &str) -> Result<[u8; 4], Error> {
    word.as_bytes()
        .try_into()
        .ok()
        .filter(|word| is_word(*word))
        .ok_or_else(|| Error::Protocol(format!("`{word}` is not a four-letter word")))
}

/// The reply to a word.
pub(crate) fn answer(word: [u8; 4], server: &Processor) -> String {
    let mut text = String::new();
    if !server.has_quorum && word != *b"ruok" {
        let what = match server.family() {
            Family::ZooKeeper => "ZooKeeper instance",
            Family::ClickHouseKeeper | Family::RaftKeeper => "instance",
        };
        return format!("This {what} is not currently serving requests\n");
    }
    // Writing to a string cannot fail.
    let _: fmt::Result = match &word {
        b"ruok" => text.write_str("imok"),
        b"srvr" => srvr(server, &mut text),
        b"mntr" => mntr(server, &mut text),
        b"cons" => cons(server, &mut text),
        b"wchs" => wchs(server, &mut text),
        b"wchp" => wchp(server, &mut text),
        other => {
            let word = String::from_utf8_lossy(other);
            writeln!(
                text,
                "{word} is not executed because it is not in the whitelist."
            )
        }
    };
    text
}

fn srvr(server: &Processor, text: &mut String) -> fmt::Result {
    let name = match server.family() {
        Family::ZooKeeper => "Zookeeper",
        Family::ClickHouseKeeper => "ClickHouse Keeper",
        Family::RaftKeeper => "RaftKeeper",
    };
    writeln!(text, "{name} version: {}", version(server))?;
    writeln!(text, "Latency min/avg/max: 0/0.0/0")?;
    writeln!(text, "Received: {}", server.packets.received)?;
    writeln!(text, "Sent: {}", server.packets.sent)?;
    writeln!(text, "Connections: {}", server.connections.len())?;
    writeln!(text, "Outstanding: 0")?;
    writeln!(text, "Zxid: 0x{:x}", server.zxid)?;
    writeln!(text, "Mode: standalone")?;
    writeln!(text, "Node count: {}", server.tree.node_count())
}

fn mntr(server: &Processor, text: &mut String) -> fmt::Result {
    let numbers = [
        ("packets_received", server.packets.received),
        ("packets_sent", server.packets.sent),
        ("num_alive_connections", server.connections.len() as u64),
        ("outstanding_requests", 0),
        ("znode_count", server.tree.node_count() as u64),
        ("watch_count", server.watches.count() as u64),
        ("ephemerals_count", server.tree.ephemeral_count() as u64),
        (
            "approximate_data_size",
            server.tree.approximate_size() as u64,
        ),
        ("global_sessions", server.sessions.ids().count() as u64),
    ];
    writeln!(text, "zk_version\t{}", version(server))?;
    writeln!(text, "zk_server_state\tstandalone")?;
    numbers
        .iter()
        .try_for_each(|(name, number)| writeln!(text, "zk_{name}\t{number}"))
}

fn cons(server: &Processor, text: &mut String) -> fmt::Result {
    for connection in server.connections.values() {
        write!(
            text,
            " /{}[1](queued=0,recved={},sent={}",
            connection.peer, connection.received, connection.sent
        )?;
        if let Some(session) = connection.session {
            let Connection {
                last_xid,
                last_zxid,
                established,
                last_response,
                ..
            } = connection;
            write!(
                text,
                ",sid=0x{:x},lop={}",
                session.id,
                short_name(connection.last_op)
            )?;
            write!(text, ",est={established},to={}", session.timeout)?;
            write!(
                text,
                ",lcxid=0x{last_xid:x},lzxid=0x{last_zxid:x},lresp={last_response}"
            )?;
            write!(text, ",llat=0,minlat=0,avglat=0,maxlat=0")?;
        }
        writeln!(text, ")")?;
    }
    writeln!(text)
}

/// The real server's short name of a kind of request.
fn short_name(op: OpCode) -> &'static str {
    match op {
        OpCode::Ping => "PING",
        OpCode::CreateSession => "SESS",
        OpCode::Multi => "MULT",
        OpCode::MultiRead => "MLTR",
        OpCode::Create | OpCode::Create2 | OpCode::CreateContainer | OpCode::CreateTtl => "CREA",
        OpCode::Delete | OpCode::DeleteContainer => "DELE",
        OpCode::SetData => "SETD",
        OpCode::Reconfig => "RECO",
        OpCode::SetAcl => "SETA",
        OpCode::CloseSession => "CLOS",
        OpCode::Sync => "SYNC",
        OpCode::Exists => "EXIS",
        OpCode::GetData => "GETD",
        OpCode::SetWatches => "SETW",
        OpCode::SetWatches2 => "STW2",
        OpCode::AddWatch => "ADDW",
        OpCode::GetAcl => "GETA",
        OpCode::GetChildren | OpCode::GetChildren2 => "GETC",
        OpCode::GetAllChildrenNumber => "GETACN",
        OpCode::CheckWatches => "CHKW",
        OpCode::RemoveWatches => "REMW",
        OpCode::WhoAmI => "HOMI",
        OpCode::GetEphemerals => "GETE",
        _ => "NA",
    }
}

fn wchs(server: &Processor, text: &mut String) -> fmt::Result {
    let watches = &server.watches.data;
    writeln!(
        text,
        "{} connections watching {} paths",
        watches.connections(),
        watches.paths()
    )?;
    writeln!(text, "Total watches:{}", watches.count())
}

fn wchp(server: &Processor, text: &mut String) -> fmt::Result {
    for (path, watchers) in server.watches.data.by_path() {
        writeln!(text, "{path}")?;
        for id in watchers {
            let session_id = server
                .connections
                .get(&id)
                .map_or(0, Connection::session_id);
            writeln!(text, "\t0x{session_id:x}")?;
        }
    }
    writeln!(text)
}
