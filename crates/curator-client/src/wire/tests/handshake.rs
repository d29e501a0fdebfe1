//! Handshakes, with and without SASL, of clients whose server is a script, which may be hostile.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use curator_test::{soon, until};
#[cfg(feature = "sasl-digest-md5")]
use futures_util::future::join_all;

#[cfg(feature = "sasl-digest-md5")]
use super::super::sasl::digest_md5::{self, Login};
use crate::{CuratorClient, CuratorClientBuilder, Error, RetryNTimes, Transport};

/// What a server does with one connection.
type Talk = Box<dyn Fn(&mut Conversation) -> std::io::Result<()> + Send>;

fn talk(talk: impl Fn(&mut Conversation) -> std::io::Result<()> + Send + 'static) -> Talk {
    Box::new(talk)
}

/// One connection, on the side of the server.
struct Conversation {
    stream: TcpStream,
    /// The requests so far, of all connections.
    requests: Arc<Mutex<Vec<Vec<u8>>>>,
}

impl Conversation {
    fn read(&mut self) -> std::io::Result<Vec<u8>> {
        let mut length = [0; 4];
        self.stream.read_exact(&mut length)?;
        let mut frame = vec![0; usize::try_from(u32::from_be_bytes(length)).unwrap()];
        self.stream.read_exact(&mut frame)?;
        self.requests.lock().unwrap().push(frame.clone());
        Ok(frame)
    }

    fn write(&mut self, frame: &[u8]) -> std::io::Result<()> {
        self.stream
            .write_all(&u32::try_from(frame.len()).unwrap().to_be_bytes())?;
        self.stream.write_all(frame)
    }

    fn grant_session(&mut self) -> std::io::Result<()> {
        self.read()?;
        self.write(&frame![
            int(0),
            int(60_000),
            // A small id would be that of a server other than ZooKeeper.
            long(7 << 48),
            buffer(&[7; 16]),
            boolean(false)
        ])
    }

    /// Waits until the client closes the connection.
    fn wait_for_end(&mut self) -> std::io::Result<()> {
        self.stream.read_to_end(&mut Vec::new()).map(drop)
    }
}

/// Starts a server that handles the connections in this order, and later ones like the last.
/// Returns a client of it, and the requests.
fn serve<const N: usize>(talks: [Talk; N]) -> (CuratorClientBuilder, Arc<Mutex<Vec<Vec<u8>>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let client = CuratorClient::builder(listener.local_addr().unwrap().to_string());
    let requests = Arc::<Mutex<Vec<_>>>::default();
    let seen = Arc::clone(&requests);
    // The thread ends with the process.
    std::thread::spawn(move || {
        for (stream, number) in listener.incoming().zip(0..) {
            let mut conversation = Conversation {
                stream: stream.unwrap(),
                requests: Arc::clone(&seen),
            };
            // The client may have closed the connection.
            let _: std::io::Result<()> = talks[N.min(number + 1) - 1](&mut conversation);
        }
    });
    (
        client
            .transport(Transport::Native)
            .session_timeout(Duration::from_secs(60)),
        requests,
    )
}

/// How long a client tries to connect, in real time, to a server that never accepts it.
const BRIEF: Duration = Duration::from_secs(1);

/// The cause that a client reports if it finds no server.
async fn cause_of_failure(client: CuratorClientBuilder) -> String {
    let once = RetryNTimes::new(0, Duration::from_millis(1)).unwrap();
    match soon(
        client
            .connection_timeout(BRIEF)
            .retry_policy(once)
            .connect(),
    )
    .await
    {
        Err(Error::ConnectFailed { cause, .. }) => cause,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_long_reply_to_the_handshake_is_not_awaited() {
    let (client, _) = serve([talk(|conversation| {
        conversation.read()?;
        conversation.stream.write_all(&65_537_u32.to_be_bytes())?;
        conversation.wait_for_end()
    })]);
    let cause = cause_of_failure(client).await;
    assert!(
        cause.contains(
            "its reply to the handshake cannot be read (a frame of 65537 bytes, where at most"
        ),
        "{cause}"
    );
}

fn closes_session(request: &[u8]) -> bool {
    request.get(4..8) == Some(&(-11_i32).to_be_bytes())
}

#[tokio::test]
async fn a_new_session_is_closed_over_another_connection_if_the_server_ends_the_first() {
    let (client, requests) = serve([
        talk(|conversation| {
            conversation.grant_session()?;
            // The credentials.
            conversation.read().map(drop)
        }),
        talk(|conversation| {
            conversation.grant_session()?;
            conversation.read()?;
            conversation.wait_for_end()
        }),
    ]);
    let connecting = tokio::spawn(client.authorization("digest", "alice:wonderland").connect());
    until(async || {
        requests
            .lock()
            .unwrap()
            .iter()
            .any(|request| closes_session(request))
    })
    .await;
    connecting.abort();
}

/// The client must not wait for the timeout of the attempt, here almost three hours.
#[tokio::test]
async fn a_refusal_is_reported_although_the_server_does_not_end_the_session() {
    let (client, _) = serve([
        talk(|conversation| {
            conversation.grant_session()?;
            conversation.read()?;
            conversation.write(&frame![int(-4), long(0), int(-115)])
        }),
        talk(Conversation::wait_for_end),
    ]);
    let hours = Duration::from_secs(10_000);
    let client = client
        .authorization("digest", "alice:wonderland")
        .connection_timeout(hours)
        .session_timeout(hours);
    let error = soon(client.connect()).await.unwrap_err();
    assert!(!error.is_retryable(), "{error}");
}

#[cfg(feature = "sasl-digest-md5")]
mod sasl {
    use super::*;
    use crate::SaslOptions;
    use crate::path::ZPath;
    use crate::state::ConnectionState;

    const SASL: i32 = 102;
    const AUTH: i32 = 100;
    const CLOSE: i32 = -11;
    const SYNC: i32 = 9;
    const UNIMPLEMENTED: i32 = -6;

    /// Like the challenge of a Java server.
    const CHALLENGE: &[u8] =
        br#"realm="zk-sasl-md5",nonce="JFV1P1ym/nPOv8+=",charset=utf-8,algorithm=md5-sess"#;

    fn alice(client: CuratorClientBuilder) -> CuratorClientBuilder {
        client.sasl(SaslOptions::digest_md5("alice", "wonderland"))
    }

    fn int_at(frame: &[u8], at: usize) -> i32 {
        i32::from_be_bytes(frame[at..at + 4].try_into().unwrap())
    }

    /// The codes of the requests that are not the first of their connection.
    fn ops(requests: &Mutex<Vec<Vec<u8>>>) -> Vec<i32> {
        requests
            .lock()
            .unwrap()
            .iter()
            .map(|frame| int_at(frame, 4))
            .filter(|op| *op != 0)
            .collect()
    }

    /// The nonce in the client's response.
    fn client_nonce(response: &str) -> &str {
        let (_, rest) = response.split_once("cnonce=\"").unwrap();
        rest.split_once('"').unwrap().0
    }

    impl Conversation {
        /// Answers the client's next token.
        fn answer_token(&mut self, answer: impl FnOnce(&[u8]) -> Vec<u8>) -> std::io::Result<()> {
            let request = self.read()?;
            assert_eq!(int_at(&request, 4), SASL);
            let answer = answer(&request[12..]);
            self.write(&frame![
                int(int_at(&request, 0)),
                long(0),
                int(0),
                buffer(&answer)
            ])
        }

        fn challenge(&mut self, challenge: &[u8]) -> std::io::Result<()> {
            self.grant_session()?;
            self.answer_token(|token| {
                assert_eq!(token, b"");
                challenge.to_vec()
            })
        }

        /// Authenticates the client, and itself by its knowledge of this password.
        fn authenticate(&mut self, password: &str) -> std::io::Result<()> {
            self.challenge(CHALLENGE)?;
            self.answer_token(|response| {
                let response = std::str::from_utf8(response).unwrap();
                assert!(
                    response.contains("username=\"alice\",realm=\"zk-sasl-md5\""),
                    "{response}"
                );
                let alice = Login {
                    user: "alice".to_owned(),
                    password: password.to_owned(),
                };
                let nonce = client_nonce(response);
                digest_md5::tests::final_message(&alice, CHALLENGE, nonce)
            })
        }

        /// Answers this many requests, including the probe that confirms the session.
        fn answer_requests(&mut self, count: usize) -> std::io::Result<()> {
            for _ in 0..count {
                let request = self.read()?;
                let xid = int_at(&request, 0);
                let reply = match int_at(&request, 4) {
                    SYNC => frame![int(xid), long(0), int(0), string("/")],
                    AUTH => frame![int(xid), long(0), int(0)],
                    _ => frame![int(xid), long(0), int(UNIMPLEMENTED)],
                };
                self.write(&reply)?;
            }
            Ok(())
        }
    }

    #[tokio::test]
    async fn a_server_that_does_not_prove_that_it_knows_the_password_is_refused() {
        for talk in [
            talk(|conversation| conversation.authenticate("looking-glass")),
            talk(|conversation| {
                conversation.challenge(CHALLENGE)?;
                // What an impostor knows: the client's digest.
                conversation.answer_token(|response| {
                    let response = std::str::from_utf8(response).unwrap();
                    let digest = response
                        .split_once("response=")
                        .unwrap()
                        .1
                        .split(',')
                        .next()
                        .unwrap();
                    format!("rspauth={digest}").into_bytes()
                })
            }),
            talk(|conversation| {
                conversation.challenge(CHALLENGE)?;
                conversation.answer_token(|_| b"stale=true".to_vec())
            }),
        ] {
            let (client, _) = serve([talk]);
            let error = soon(alice(client).connect()).await.unwrap_err();
            let Error::ConnectRefused { cause, .. } = &error else {
                panic!("{error}")
            };
            assert!(
                cause.contains("the server has not proven by SASL who it is"),
                "{cause}"
            );
        }
    }

    /// If the client also has credentials of another scheme, only the SASL exchange shows that it
    /// was not authenticated. The server does not get these credentials, and the session that it
    /// has opened is closed.
    #[tokio::test]
    async fn a_server_that_sends_no_token_has_not_authenticated_the_client() {
        for (talk, sent) in [
            (
                talk(|conversation| {
                    conversation.challenge(b"")?;
                    conversation.read().map(drop)
                }),
                vec![SASL, CLOSE],
            ),
            (
                talk(|conversation| {
                    conversation.challenge(CHALLENGE)?;
                    conversation.answer_token(|_| Vec::new())?;
                    conversation.read().map(drop)
                }),
                vec![SASL, SASL, CLOSE],
            ),
        ] {
            let (client, requests) = serve([talk]);
            let client = alice(client).authorization("digest", "alice:wonderland");
            let error = soon(client.connect()).await.unwrap_err();
            let Error::ConnectRefused { cause, .. } = &error else {
                panic!("{error}")
            };
            assert!(
                cause.contains("connected, but the server accepted this client as anonymous"),
                "{cause}"
            );
            until(async || ops(&requests) == sent).await;
        }
    }

    #[tokio::test]
    async fn an_exchange_that_cannot_be_continued_fails_an_attempt_with_the_reason() {
        let challenged = |challenge: &[u8]| {
            let challenge = challenge.to_vec();
            talk(move |conversation| {
                conversation.challenge(&challenge)?;
                conversation.wait_for_end()
            })
        };
        // Each of these servers sends something else in place of the reply to the first token.
        let unimplemented = talk(|conversation| {
            conversation.grant_session()?;
            let request = conversation.read()?;
            conversation.write(&frame![
                int(int_at(&request, 0)),
                long(0),
                int(UNIMPLEMENTED)
            ])?;
            conversation.wait_for_end()
        });
        let reply_to_nothing = talk(|conversation| {
            conversation.grant_session()?;
            conversation.write(&frame![int(99), long(0), int(0), buffer(CHALLENGE)])?;
            conversation.wait_for_end()
        });
        let end = talk(|conversation| {
            conversation.grant_session()?;
            conversation.read().map(drop)
        });
        let rows = [
            // `zookeeper-client` would not return from these two.
            (
                challenged(br#"realm="\\\\\\",nonce="\\"#),
                "SASL has failed (a quoted value has no end)",
            ),
            (
                challenged("realm=\"\\\u{20ac}\",nonce=\"n\"".as_bytes()),
                "SASL has failed (the algorithm is not md5-sess)",
            ),
            (
                challenged(&[b','; 60_000]),
                "SASL has failed (the message is too long)",
            ),
            (
                challenged(&[b','; 70_000]),
                "its reply to the handshake cannot be read (a frame of 70020 bytes",
            ),
            (
                challenged(CHALLENGE),
                "connected, but no reply to the handshake",
            ),
            (
                unimplemented,
                "SASL has failed (the server replied Unimplemented",
            ),
            (
                reply_to_nothing,
                "its reply to the handshake cannot be read (expected the xid of a request",
            ),
            (end, "connected, but the server ended the handshake"),
        ];
        join_all(rows.map(async |(talk, why)| {
            let (client, _) = serve([talk]);
            let cause = cause_of_failure(alice(client)).await;
            assert!(cause.contains(why), "{cause}");
        }))
        .await;
    }

    /// The impostor may be one of several servers. It must not end the session, and gets no other
    /// credentials.
    #[tokio::test]
    async fn a_resumed_session_is_authenticated_again_and_outlives_an_impostor() {
        let (client, requests) = serve([
            talk(|conversation| {
                conversation.authenticate("wonderland")?;
                conversation.answer_requests(3)?;
                // Breaks the connection in place of a reply.
                conversation.read().map(drop)
            }),
            talk(|conversation| {
                conversation.authenticate("looking-glass")?;
                // The client sends nothing: a request to close the session would end it.
                conversation.read().map(drop)
            }),
            talk(|conversation| {
                conversation.authenticate("wonderland")?;
                conversation.answer_requests(usize::MAX)
            }),
        ]);
        let client = soon(
            alice(client)
                .authorization("digest", "alice:wonderland")
                .connect(),
        )
        .await
        .unwrap();
        let session = client.session().await.unwrap();
        soon(session.get_data(&ZPath::root())).await.unwrap_err();
        // Credentials and a probe are sent over the first and the third connection.
        until(async || ops(&requests).iter().filter(|op| **op == SYNC).count() >= 2).await;
        until(async || client.health().state == ConnectionState::Reconnected).await;
        assert_eq!(session.end(), None);
        let ops = ops(&requests);
        assert_eq!(ops[..3], [SASL, SASL, AUTH], "{ops:?}");
        assert_eq!(ops.iter().filter(|op| **op == SASL).count(), 6);
        assert_eq!(ops.iter().filter(|op| **op == AUTH).count(), 2);
        assert!(!ops.contains(&CLOSE), "{ops:?}");
        let requests = requests.lock().unwrap();
        let mut nonces: Vec<_> = requests
            .iter()
            .map(|request| String::from_utf8_lossy(request))
            .filter(|text| text.contains("cnonce="))
            .map(|text| client_nonce(&text).to_owned())
            .collect();
        assert!(nonces.iter().all(|nonce| nonce.len() == 32), "{nonces:?}");
        nonces.sort();
        nonces.dedup();
        assert_eq!(nonces.len(), 3);
    }
}
