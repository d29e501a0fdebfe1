//! A server that is broken, or not one at all.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use curator_client::ConnectionState::Lost;
use curator_client::SessionEnd;

use crate::support::{builder, soon};

const TIMEOUT: Duration = Duration::from_secs(1);

fn read_frame(stream: &mut TcpStream) -> std::io::Result<Vec<u8>> {
    let mut length = [0; 4];
    stream.read_exact(&mut length)?;
    let mut frame = vec![0; u32::from_be_bytes(length) as usize];
    stream.read_exact(&mut frame)?;
    Ok(frame)
}

fn write_frame(stream: &mut TcpStream, parts: &[&[u8]]) -> std::io::Result<()> {
    let frame = parts.concat();
    stream.write_all(&u32::try_from(frame.len()).unwrap().to_be_bytes())?;
    stream.write_all(&frame)
}

/// Grants a session, answers the first ping and the first probe, and then never comes to the end of an answer. How it is
/// ended by the client.
fn talk_for_ever(stream: &mut TcpStream) -> std::io::Error {
    let mut talk = || -> std::io::Result<()> {
        read_frame(stream)?;
        let timeout = i32::try_from(TIMEOUT.as_millis()).unwrap().to_be_bytes();
        let (version, session, password) =
            ([0; 4], 7_i64.to_be_bytes(), [&16_i32.to_be_bytes()[..], &[7; 16]].concat());
        write_frame(stream, &[&version, &timeout, &session, &password, &[0]])?;
        for _ in 0..2 {
            let request = read_frame(stream)?;
            let (xid, zxid, success) = (&request[..4], [0; 8], [0; 4]);
            // A probe is answered with its path.
            let path = [&1_i32.to_be_bytes()[..], b"/"].concat();
            let is_ping = request.len() == 8;
            write_frame(stream, &[xid, &zxid, &success, if is_ping { &[] } else { &path }])?;
        }
        stream.write_all(&i32::MAX.to_be_bytes())?;
        // For ten seconds, and never silent for so long that a client would notice.
        for _ in 0..2_000 {
            stream.write_all(&[0; 1024])?;
            thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    };
    talk().err().unwrap_or_else(|| std::io::ErrorKind::TimedOut.into())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_talks_for_ever_is_hung_up_on_when_the_session_is_over() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let server = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        // Nobody is accepted any more.
        drop(listener);
        talk_for_ever(&mut stream)
    });
    let client = builder(address.to_string()).session_timeout(TIMEOUT).connect().await.unwrap();
    let (session, mut states) = (client.session().await.unwrap(), client.connection_states());
    assert!(soon(states.wait_for(Lost)).await);
    assert_eq!(session.end(), Some(SessionEnd::LeaseOver));
    let hung_up = soon(tokio::task::spawn_blocking(|| server.join())).await.unwrap().unwrap();
    assert_ne!(hung_up.kind(), std::io::ErrorKind::TimedOut, "the client has listened to the end");
}
