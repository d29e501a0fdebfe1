//! The client's side of DIGEST-MD5 (RFC 2831), without I/O.
//!
//! 1. The server sends a challenge: its realms and a nonce.
//! 2. The client responds with a digest of its password, the server's nonce and its own.
//! 3. The server proves by another digest that it knows the password too: `rspauth`.
//!
//! Any bytes can be parsed: they are a challenge, or cause a [`Failure`]. The messages after the
//! exchange are not protected (`qop=auth`).

use std::fmt::Write as _;

use md5::{Digest as _, Md5};

use super::directives::{Directives, Failure, quoted};

/// The service that the digest is bound to, the same for all ZooKeeper clients and servers.
pub(super) const DIGEST_URI: &str = "zookeeper/zk-sasl-md5";

/// The client uses each of its nonces for one response.
const NONCE_COUNT: &str = "00000001";

/// The client's user and password.
pub(in crate::wire) struct Login {
    pub(in crate::wire) user: String,
    pub(in crate::wire) password: String,
}

/// The digest that proves that a server knows the password.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::wire) struct Proof(String);

impl Login {
    /// The response to a server's challenge, and the server's proof, which must follow.
    ///
    /// `client_nonce` must be unpredictable, and different in each exchange.
    ///
    /// # Errors
    ///
    /// If the challenge cannot be read, or the server does not support this way of authentication.
    pub(in crate::wire) fn respond(
        &self,
        challenge: &[u8],
        client_nonce: &str,
        digest_uri: &str,
    ) -> Result<(Vec<u8>, Proof), Failure> {
        let directives = Directives::parse(challenge)?;
        let nonce = directives
            .one("nonce")?
            .ok_or(Failure("the challenge has no nonce"))?;
        if directives.one("algorithm")? != Some(b"md5-sess".as_slice()) {
            return Err(Failure("the algorithm is not md5-sess"));
        }
        let mut qop = directives
            .one("qop")?
            .unwrap_or(b"auth")
            .split(|byte| *byte == b',');
        if !qop.any(|option| option.trim_ascii() == b"auth") {
            return Err(Failure(
                "the server does not offer authentication alone (`qop=auth`)",
            ));
        }
        let is_utf_8 = match directives.one("charset")? {
            None => false,
            Some(b"utf-8") => true,
            Some(_) => return Err(Failure("the charset is not utf-8")),
        };
        let user = if is_utf_8 {
            self.user.as_bytes().to_vec()
        } else {
            latin_1(&self.user).ok_or(NOT_LATIN_1)?
        };
        if !is_utf_8 && latin_1(&self.password).is_none() {
            return Err(NOT_LATIN_1);
        }
        // Any realm will do: the server knows its users in each of its realms.
        let realm = directives.all("realm").next();

        let secret = self.secret(realm.unwrap_or_default(), is_utf_8)?;
        let session_key = hex(&hash(&[
            &secret,
            b":",
            nonce,
            b":",
            client_nonce.as_bytes(),
        ]));
        let digest = |method: &str| {
            let target = hex(&hash(&[method.as_bytes(), b":", digest_uri.as_bytes()]));
            let count = NONCE_COUNT.as_bytes();
            let parts = [
                session_key.as_bytes(),
                nonce,
                count,
                client_nonce.as_bytes(),
                b"auth",
                target.as_bytes(),
            ];
            hex(&hash(&[&parts.join(&b':')]))
        };

        let mut response = if is_utf_8 {
            b"charset=utf-8,".to_vec()
        } else {
            Vec::new()
        };
        response.extend([b"username=".to_vec(), quoted(&user)].concat());
        if let Some(realm) = realm {
            response.extend([b",realm=".to_vec(), quoted(realm)].concat());
        }
        response.extend([b",nonce=".to_vec(), quoted(nonce)].concat());
        let rest = format!(
            ",nc={NONCE_COUNT},cnonce=\"{client_nonce}\",digest-uri=\"{digest_uri}\",response={},qop=auth",
            digest("AUTHENTICATE")
        );
        response.extend(rest.as_bytes());
        Ok((response, Proof(digest(""))))
    }

    /// The hash of user, realm and password, each as Latin-1 if it can be (RFC 2831, 2.1.2.1), even
    /// in a response in UTF-8.
    fn secret(&self, realm: &[u8], is_utf_8: bool) -> Result<[u8; 16], Failure> {
        let realm = if is_utf_8 {
            hashed_form(std::str::from_utf8(realm).map_err(|_| Failure("the realm is not UTF-8"))?)
        } else {
            realm.to_vec()
        };
        Ok(hash(&[
            &hashed_form(&self.user),
            b":",
            &realm,
            b":",
            &hashed_form(&self.password),
        ]))
    }
}

impl Proof {
    /// Whether the server's last message contains this proof.
    ///
    /// # Errors
    ///
    /// If the message cannot be read.
    pub(in crate::wire) fn is_in(&self, message: &[u8]) -> Result<bool, Failure> {
        Ok(Directives::parse(message)?.one("rspauth")? == Some(self.0.as_bytes()))
    }
}

const NOT_LATIN_1: Failure =
    Failure("the server accepts only Latin-1, and the user or the password has other characters");

fn hashed_form(text: &str) -> Vec<u8> {
    latin_1(text).unwrap_or_else(|| text.as_bytes().to_vec())
}

fn latin_1(text: &str) -> Option<Vec<u8>> {
    text.chars()
        .map(|character| u8::try_from(u32::from(character)).ok())
        .collect()
}

fn hash(parts: &[&[u8]]) -> [u8; 16] {
    let mut hash = Md5::new();
    parts.iter().for_each(|part| hash.update(part));
    hash.finalize().into()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a string does not fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
pub(in crate::wire) mod tests {
    use proptest::prelude::*;

    use super::*;

    fn login(user: &str, password: &str) -> Login {
        Login {
            user: user.to_owned(),
            password: password.to_owned(),
        }
    }

    fn respond(
        login: &Login,
        challenge: &str,
        client_nonce: &str,
        digest_uri: &str,
    ) -> (String, Proof) {
        let (response, proof) = login
            .respond(challenge.as_bytes(), client_nonce, digest_uri)
            .unwrap();
        (String::from_utf8(response).unwrap(), proof)
    }

    fn refusal(challenge: &[u8]) -> &'static str {
        login("alice", "secret")
            .respond(challenge, "nonce", DIGEST_URI)
            .unwrap_err()
            .0
    }

    /// RFC 2831, section 4.
    #[test]
    fn the_examples_of_the_specification_result_in_its_digests() {
        for (challenge, client_nonce, digest_uri, response, proof) in [
            (
                r#"realm="elwood.innosoft.com",nonce="OA6MG9tEQGm2hh",qop="auth",algorithm=md5-sess,charset=utf-8"#,
                "OA6MHXh6VqTrRk",
                "imap/elwood.innosoft.com",
                "d388dad90d4bbd760a152321f2143af7",
                "rspauth=ea40f60335c427b5527b84dbabcdfffd",
            ),
            (
                r#"realm="elwood.innosoft.com",nonce="OA9BSXrbuRhWay",qop="auth",algorithm=md5-sess,charset=utf-8"#,
                "OA9BSuZWMSpW8m",
                "acap/elwood.innosoft.com",
                "6084c6db3fede7352c551284490fd0fc",
                "rspauth=2f0b3d7c3c2e486600ef710726aa2eae",
            ),
        ] {
            let (sent, expected) = respond(
                &login("chris", "secret"),
                challenge,
                client_nonce,
                digest_uri,
            );
            assert!(sent.contains(&format!("response={response}")), "{sent}");
            assert_eq!(expected.is_in(proof.as_bytes()), Ok(true));
        }
    }

    /// The last message of a server that knows the password.
    pub(in crate::wire) fn final_message(
        login: &Login,
        challenge: &[u8],
        client_nonce: &str,
    ) -> Vec<u8> {
        let (_, proof) = login.respond(challenge, client_nonce, DIGEST_URI).unwrap();
        format!("rspauth={}", proof.0).into_bytes()
    }

    /// Recorded from Java 17, whose implementation ZooKeeper uses.
    #[test]
    fn the_challenge_of_zookeeper_is_answered() {
        let challenge = r#"realm="zk-sasl-md5",nonce="JFV1P1ymInPOv8tVbZcubPTE+ks3x6bqt4nDheTP",charset=utf-8,algorithm=md5-sess"#;
        let (response, proof) = respond(
            &login("alice", "wonderland"),
            challenge,
            "0123456789abcdef",
            DIGEST_URI,
        );
        let expected = concat!(
            r#"charset=utf-8,username="alice",realm="zk-sasl-md5",nonce="JFV1P1ymInPOv8tVbZcubPTE+ks3x6bqt4nDheTP","#,
            r#"nc=00000001,cnonce="0123456789abcdef",digest-uri="zookeeper/zk-sasl-md5","#,
            "response=224d3a9ba993ba2ea59a43dc6322137d,qop=auth"
        );
        assert_eq!(response, expected);
        assert_eq!(
            proof.is_in(b"rspauth=be6eb86a509dbc5fdadd669745b3c843"),
            Ok(true)
        );
    }

    #[test]
    fn only_the_right_proof_of_the_server_is_accepted() {
        let proof = Proof("ea40f60335c427b5527b84dbabcdfffd".to_owned());
        for (message, is_right) in [
            ("rspauth=ea40f60335c427b5527b84dbabcdfffd", Ok(true)),
            ("rspauth=\"ea40f60335c427b5527b84dbabcdfffd\"", Ok(true)),
            ("rspauth=ea40f60335c427b5527b84dbabcdfffe", Ok(false)),
            ("rspauth=ea40f60335c427b5", Ok(false)),
            ("rspauth=\"\"", Ok(false)),
            ("stale=true", Ok(false)),
            ("", Ok(false)),
        ] {
            assert_eq!(proof.is_in(message.as_bytes()), is_right, "{message}");
        }
        for message in [
            "rspauth",
            "rspauth=ea40f60335c427b5527b84dbabcdfffd,rspauth=x",
        ] {
            proof.is_in(message.as_bytes()).unwrap_err();
        }
    }

    /// An impostor could send the client's digest back, so it must not count as a proof.
    #[test]
    fn the_proof_of_the_server_differs_from_the_response_of_the_client() {
        let (response, proof) = respond(
            &login("a", "b"),
            r#"nonce="n",algorithm=md5-sess,charset=utf-8"#,
            "c",
            DIGEST_URI,
        );
        assert!(!response.contains(&proof.0), "{response}");
    }

    #[test]
    fn text_is_hashed_as_latin_1_if_it_can_be() {
        let challenge = r#"nonce="n",algorithm=md5-sess,charset=utf-8"#;
        let (response, proof) = respond(&login("jürgen", "größe"), challenge, "c", DIGEST_URI);
        // The name itself is sent as UTF-8.
        assert!(response.contains("username=\"jürgen\",nonce"), "{response}");
        let secret = hash(&[b"j\xfcrgen::gr\xf6\xdfe"]);
        let key = hex(&hash(&[&secret, b":n:c"]));
        let target = hex(&hash(&[b":zookeeper/zk-sasl-md5"]));
        let expected = hex(&hash(&[
            format!("{key}:n:00000001:c:auth:{target}").as_bytes()
        ]));
        assert_eq!(proof, Proof(expected));
    }

    #[test]
    fn a_server_without_utf_8_gets_latin_1_or_nothing() {
        let challenge = br#"realm="r",nonce="n",algorithm=md5-sess"#;
        let (response, _) = login("jürgen", "")
            .respond(challenge, "c", DIGEST_URI)
            .unwrap();
        assert!(
            response.starts_with(b"username=\"j\xfcrgen\",realm=\"r\""),
            "{response:?}"
        );
        for (user, password) in [("алиса", ""), ("alice", "≥")] {
            assert_eq!(
                login(user, password).respond(challenge, "c", DIGEST_URI),
                Err(NOT_LATIN_1)
            );
        }
    }

    #[test]
    fn quotes_in_the_servers_values_are_sent_back_quoted_and_hashed_as_they_are() {
        let challenge = r#"realm="a\"b\\c",nonce="\n",algorithm=md5-sess,charset=utf-8"#;
        let (response, proof) = respond(&login("u", "p"), challenge, "c", DIGEST_URI);
        assert!(
            response.contains(r#"realm="a\"b\\c",nonce="n""#),
            "{response}"
        );
        let plain = r#"realm="a\"b\\c",nonce=n,algorithm=md5-sess,charset=utf-8"#;
        assert_eq!(respond(&login("u", "p"), plain, "c", DIGEST_URI).1, proof);
    }

    #[test]
    fn a_challenge_that_asks_for_something_else_is_refused() {
        for (challenge, why) in [
            (&b""[..], "the challenge has no nonce"),
            (b"algorithm=md5-sess", "the challenge has no nonce"),
            (b"nonce=n", "the algorithm is not md5-sess"),
            (b"nonce=n,algorithm=md5", "the algorithm is not md5-sess"),
            (
                b"nonce=n,algorithm=md5-sess,charset=latin1",
                "the charset is not utf-8",
            ),
            (
                b"nonce=n,algorithm=md5-sess,qop=\"auth-int,auth-conf\"",
                "the server does not offer authentication alone (`qop=auth`)",
            ),
            (
                b"nonce=n,algorithm=md5-sess,charset=utf-8,realm=\"\xff\"",
                "the realm is not UTF-8",
            ),
        ] {
            assert_eq!(refusal(challenge), why, "{challenge:?}");
        }
        respond(
            &login("u", "p"),
            r#"nonce=n,algorithm=md5-sess,qop="auth-int, auth""#,
            "c",
            DIGEST_URI,
        );
    }

    proptest! {
        /// Bytes that resemble a challenge reach more of the parser than random ones.
        #[test]
        fn no_challenge_makes_the_client_panic_or_loop(
            parts in prop::collection::vec(
                prop::sample::select(vec![
                    "realm", "nonce", "qop", "charset", "algorithm", "rspauth", "=", ",", "\"", "\\", "\\\\", " ", "\r\n",
                    "auth", "utf-8", "md5-sess", "\u{e9}", "\u{20ac}", "\0", "ea40f60335c427b5527b84dbabcdfffd",
                ]),
                0..40,
            ),
            noise in prop::collection::vec(any::<u8>(), 0..20),
            at in any::<prop::sample::Index>(),
        ) {
            let mut challenge = parts.concat().into_bytes();
            let at = at.index(challenge.len() + 1);
            challenge.splice(at..at, noise);
            if let Ok((_, proof)) = login("alice", "secret").respond(&challenge, "nonce", DIGEST_URI) {
                // An impostor can send its challenge again without the password.
                prop_assert_ne!(proof.is_in(&challenge), Ok(true));
            }
        }

        /// The server can parse the response, whatever bytes its own values contain.
        #[test]
        fn a_response_can_be_parsed(
            realm in prop::collection::vec(any::<u8>(), 1..30), nonce in prop::collection::vec(any::<u8>(), 1..30),
        ) {
            let challenge =
                [b"algorithm=md5-sess,realm=".to_vec(), quoted(&realm), b",nonce=".to_vec(), quoted(&nonce)].concat();
            let response = login("alice", "secret").respond(&challenge, "c", DIGEST_URI);
            if let Ok((response, _)) = response {
                let directives = Directives::parse(&response).unwrap();
                prop_assert_eq!(directives.one("realm"), Ok(Some(&*realm)));
                prop_assert_eq!(directives.one("nonce"), Ok(Some(&*nonce)));
            }
        }
    }
}
