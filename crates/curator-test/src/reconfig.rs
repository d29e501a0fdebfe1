//! Changes the members of an ensemble: ZooKeeper's request `reconfig`.

use std::{net::SocketAddr, time::Duration};

use curator_client::codec::{
    ConnectRequest, ConnectResponse, Control, ReplyHeader, Trailing, frame,
};
use tokio::net::TcpStream;

use crate::{
    close_session::{read, receive, write},
    error::Error,
    wait::timeout,
};

/// The time limit of one request. The reply arrives when the new members have confirmed the change.
const TIMEOUT: Duration = Duration::from_secs(20);
/// How long the close of the session may take.
const CLOSE: Duration = Duration::from_secs(1);
/// The session timeout of the connection. The server clamps it to its limits.
const SESSION_TIMEOUT_MS: i32 = 30_000;
/// Matches any version of the configuration.
const ANY_VERSION: i64 = -1;

/// A change of the members.
#[derive(Debug, Clone)]
pub(crate) enum Change {
    /// Adds a member: `server.4=host:port:port;port`.
    Join(String),
    /// Removes the member with this id.
    Leave(usize),
}

/// The reply to a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answer {
    Done,
    /// The error code of the server.
    Refused(i32),
}

/// Sends a change to a member, and waits until the ensemble has applied or refused it.
pub(crate) async fn reconfig(address: SocketAddr, change: &Change) -> Result<Answer, Error> {
    let late = |_| Error::timeout(format!("a reply from {address} to {change:?}"), TIMEOUT);
    let connecting = TcpStream::connect(address);
    let mut stream = timeout(TIMEOUT, connecting)
        .await
        .map_err(late)?
        .map_err(Error::io(format!("connect to {address}")))?;
    let answer = timeout(TIMEOUT, exchange(&mut stream, change)).await;
    // Closes the session after a failure too. A failed close does not matter: the change has been
    // made or refused, and the session expires.
    let close: Control<&str, &str, &[u8]> = Control::CloseSession {};
    let closing = async {
        write(&mut stream, &frame(2, &close)).await?;
        receive(&mut stream).await
    };
    drop(timeout(CLOSE, closing).await);
    answer.map_err(late)?
}

async fn exchange(stream: &mut TcpStream, change: &Change) -> Result<Answer, Error> {
    let connect = ConnectRequest::new(SESSION_TIMEOUT_MS, 0, [0_u8; 16].as_slice());
    write(stream, &connect.frame()).await?;
    let granted = receive(stream).await?;
    let ConnectResponse {
        read_only: Trailing(is_read_only),
        ..
    } = read::<ConnectResponse<&[u8]>>(&granted)?;
    if is_read_only == Some(true) {
        return Err(Error::Protocol("the member has no quorum".to_owned()));
    }
    let leaving = match change {
        Change::Leave(id) => Some(id.to_string()),
        Change::Join(_) => None,
    };
    let joining = match change {
        Change::Join(member) => Some(member.as_str()),
        Change::Leave(_) => None,
    };
    let request: Control<&str, Option<&str>, &[u8]> = Control::Reconfig {
        joining,
        leaving: leaving.as_deref(),
        new_members: None,
        config: ANY_VERSION,
    };
    Ok(match answer(stream, 1, &request).await? {
        0 => Answer::Done,
        error => Answer::Refused(error),
    })
}

/// Sends a request, and returns the error code of its reply; 0 means success.
async fn answer(
    stream: &mut TcpStream,
    xid: i32,
    request: &Control<&str, Option<&str>, &[u8]>,
) -> Result<i32, Error> {
    write(stream, &frame(xid, request)).await?;
    loop {
        let answer = receive(stream).await?;
        let reply: ReplyHeader = read(&answer)?;
        if reply.xid == xid {
            return Ok(reply.error);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::embedded::EmbeddedServer;

    #[tokio::test]
    async fn a_refused_change_has_the_error_of_the_server_and_leaves_no_session() {
        const RECONFIG_DISABLED: i32 = -123;
        let server = EmbeddedServer::start().unwrap();
        for change in [
            Change::Leave(1),
            Change::Join("server.4=127.0.0.1:1:2;3".to_owned()),
        ] {
            let answer = reconfig(server.address(), &change).await.unwrap();
            assert_eq!(answer, Answer::Refused(RECONFIG_DISABLED), "{change:?}");
        }
        assert_eq!(server.session_ids(), [0_i64; 0]);
    }
}
