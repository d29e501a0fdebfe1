//! Authenticates a connection over SASL: the client's side of an exchange of tokens with the
//! server.
//!
//! | File | Contents |
//! |---|---|
//! | `digest_md5.rs` | the mechanism DIGEST-MD5: a user and a password |
//! | `directives.rs` | the messages of DIGEST-MD5 |
//! | `gssapi.rs` | the mechanism GSSAPI: a Kerberos ticket |
#![cfg_attr(
    not(any(feature = "sasl-digest-md5", feature = "sasl-gssapi")),
    allow(dead_code, unused_variables, reason = "there is no mechanism")
)]

#[cfg(feature = "sasl-digest-md5")]
pub(super) mod digest_md5;
#[cfg(feature = "sasl-digest-md5")]
mod directives;
#[cfg(feature = "sasl-gssapi")]
mod gssapi;

#[cfg(feature = "sasl-digest-md5")]
use self::digest_md5::{DIGEST_URI, Login, Proof};
#[cfg(feature = "sasl-gssapi")]
use self::gssapi::Gssapi;
use crate::connect_string::HostPort;
use crate::options::SessionOptions;
#[cfg(any(feature = "sasl-digest-md5", feature = "sasl-gssapi"))]
use crate::sasl::Mechanism;
#[cfg(feature = "sasl-gssapi")]
use crate::sasl::ticket;
#[cfg(feature = "sasl-digest-md5")]
use crate::source;
use crate::transport::Unauthenticated;

/// The state of an exchange.
pub(super) enum Exchange {
    #[cfg(feature = "sasl-digest-md5")]
    Challenge(Login),
    #[cfg(feature = "sasl-digest-md5")]
    Proof(Proof),
    #[cfg(feature = "sasl-gssapi")]
    Gssapi(Box<Gssapi>),
}

/// What the client does after a token of the server.
pub(super) enum Step {
    /// Sends this token. The server answers each token.
    Respond(Vec<u8>),
    /// Nothing: both sides are authenticated.
    Done,
}

/// Why an exchange has failed.
pub(super) enum SaslFailure {
    Unauthenticated(Unauthenticated),
    /// The server's token is wrong, or the Kerberos library has failed.
    Failed(String),
}

impl Exchange {
    /// Begins the exchange of a connection to `server`, if the client uses SASL. Also returns the
    /// first token.
    #[cfg_attr(
        not(feature = "sasl-gssapi"),
        expect(unused_variables, reason = "only Kerberos needs the server")
    )]
    pub(super) async fn begin(
        options: &SessionOptions,
        server: &HostPort,
    ) -> Result<Option<(Self, Vec<u8>)>, SaslFailure> {
        #[cfg(any(feature = "sasl-digest-md5", feature = "sasl-gssapi"))]
        match options.sasl.as_ref().map(|sasl| &sasl.mechanism) {
            // The server begins.
            #[cfg(feature = "sasl-digest-md5")]
            Some(Mechanism::DigestMd5 { user, password }) => {
                let login = Login {
                    user: user.clone(),
                    password: password.clone(),
                };
                return Ok(Some((Self::Challenge(login), Vec::new())));
            }
            #[cfg(feature = "sasl-gssapi")]
            Some(Mechanism::Gssapi { server: principal }) => {
                let name = ticket::service_name(principal, server);
                let (client, token) = blocking::unblock(move || Gssapi::begin(&name)).await?;
                return Ok(Some((Self::Gssapi(Box::new(client)), token)));
            }
            None => {}
        }
        Ok(None)
    }

    /// Handles the server's next token.
    pub(super) async fn step(self, token: &[u8]) -> Result<(Self, Step), SaslFailure> {
        match self {
            #[cfg(feature = "sasl-digest-md5")]
            // A server sends no token if it does not support SASL, or admits clients whose
            // authentication has failed.
            Self::Challenge(_) | Self::Proof(_) if token.is_empty() => {
                Err(SaslFailure::Unauthenticated(Unauthenticated::Client))
            }
            #[cfg(feature = "sasl-digest-md5")]
            Self::Challenge(login) => {
                let nonce = source::new_uuid().simple().to_string();
                let (response, proof) = login.respond(token, &nonce, DIGEST_URI)?;
                Ok((Self::Proof(proof), Step::Respond(response)))
            }
            #[cfg(feature = "sasl-digest-md5")]
            Self::Proof(proof) => {
                if !proof.is_in(token)? {
                    return Err(SaslFailure::Unauthenticated(Unauthenticated::Server));
                }
                Ok((Self::Proof(proof), Step::Done))
            }
            #[cfg(feature = "sasl-gssapi")]
            Self::Gssapi(mut client) => {
                let token = token.to_vec();
                // The Kerberos library may block.
                let stepped = blocking::unblock(move || {
                    let step = client.step(&token)?;
                    Ok::<_, SaslFailure>((client, step))
                });
                let (client, step) = stepped.await?;
                Ok((Self::Gssapi(client), step))
            }
        }
    }
}

#[cfg(feature = "sasl-digest-md5")]
impl From<directives::Failure> for SaslFailure {
    fn from(failure: directives::Failure) -> Self {
        Self::Failed(failure.to_string())
    }
}
