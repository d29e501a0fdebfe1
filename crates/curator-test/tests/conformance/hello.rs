//! The handshake: a connection's request, and the session that it is granted.

use curator_client::codec::{ConnectRequest, ConnectResponse, Malformed, Reader, Trailing};
use curator_test::SessionCredentials;

use test_support::transcripts::words::Words;

use crate::transcript::Normal;

/// Parses a handshake, which begins with `connect` in a transcript.
pub(crate) fn connect(text: &str, normal: &mut Normal) -> ConnectRequest<Vec<u8>> {
    let mut words = Words(text);
    assert_eq!(words.next(), "connect");
    let new = ConnectRequest::new(0, 0, vec![0; 16]);
    let number = |words: &mut Words<'_>, name| {
        words
            .number(name)
            .map(|number| i32::try_from(number).expect("an int"))
    };
    let timeout = number(&mut words, "timeout").expect("a timeout");
    let session_id = words
        .value("session")
        .map_or(new.session_id, |name| normal.session_of(name));
    let password = words
        .value("password")
        .map_or(new.password, |name| normal.password_of(name));
    let last_zxid_seen = words.zxid("last_zxid").map_or(0, |zxid| normal.base + zxid);
    let protocol = number(&mut words, "protocol").unwrap_or(new.protocol);
    let read_only = match words.0 {
        "" => Trailing(Some(false)),
        "read_only" => Trailing(Some(true)),
        "without the read-only flag" => Trailing(None),
        other => panic!("{other:?} is not a part of a handshake"),
    };
    ConnectRequest {
        protocol,
        last_zxid_seen,
        timeout,
        session_id,
        password,
        read_only,
    }
}

/// The reply to a handshake in a transcript's notation, and the session if one is granted.
pub(crate) fn granted(
    reader: &mut Reader<'_>,
    normal: &mut Normal,
) -> Result<(String, Option<SessionCredentials>), Malformed> {
    let ConnectResponse {
        protocol,
        timeout,
        session_id,
        password,
        read_only,
    } = reader.read::<ConnectResponse<Option<&[u8]>>>("a session")?;
    reader.end()?;
    let read_only = read_only
        .0
        .map_or("none".to_owned(), |flag| flag.to_string());
    let text = format!(
        "protocol={protocol} timeout={timeout} session={} password={} read_only={read_only}",
        normal.session(session_id),
        normal.password(password),
    );
    let session = SessionCredentials {
        session_id,
        password: password.unwrap_or_default().to_vec(),
    };
    Ok((
        text,
        Some(session).filter(|session| session.session_id != 0),
    ))
}
