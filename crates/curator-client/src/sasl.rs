//! The SASL options of a client, and the check for a Kerberos ticket.

use std::fmt;

use crate::error::{Error, Result};

/// How a client authenticates over SASL (RFC 4422). Set with
/// [`CuratorClientBuilder::sasl`](crate::CuratorClientBuilder::sasl).
///
/// Each connection of a session is authenticated, including one that resumes the session. The
/// client then has an identity in the scheme `sasl`, which ACLs can name: `AuthId::new("sasl",
/// "orders")`.
///
/// Modeled on `ZooKeeperSaslClient` of the Java client, without JAAS: the values of a JAAS login
/// configuration are given here.
///
/// ```
/// # #[cfg(feature = "sasl-digest-md5")] {
/// use curator_client::{Acl, AuthId, CuratorClient, Permission, SaslOptions};
///
/// let builder = CuratorClient::builder("zk1,zk2,zk3")
///     .sasl(SaslOptions::digest_md5("orders", "a long password"))
///     .default_acl([Acl::new(Permission::ALL, AuthId::new("sasl", "orders"))]);
/// # drop(builder);
/// # }
/// ```
///
/// # Guarantees
///
/// A client that is configured to authenticate never falls back to an anonymous session. If a
/// server accepts it without an identity, because SASL is not set up there or because of
/// `zookeeper.allowSaslFailedClients`, that counts as a refusal: [`Error::ConnectRefused`]. The
/// first probe of each connection checks this, without an extra round trip; with
/// `Transport::Native`, the SASL exchange checks it too.
///
/// # Caveats
///
/// With `Transport::ZookeeperClient`: if the client also has an
/// [`authorization`](crate::CuratorClientBuilder::authorization), or a client certificate that the
/// server accepts as an identity, a server without SASL is not detected: the client has another
/// identity there. `Transport::Native` refuses such a server, and sends the credentials only after
/// SASL has succeeded.
#[derive(Clone)]
pub struct SaslOptions {
    pub(crate) mechanism: Mechanism,
}

#[derive(Clone)]
pub(crate) enum Mechanism {
    #[cfg(feature = "sasl-digest-md5")]
    DigestMd5 { user: String, password: String },
    #[cfg(feature = "sasl-gssapi")]
    Gssapi { server: String },
}

impl SaslOptions {
    /// Authenticates with a user and a password that all servers know (`DigestLoginModule` in their
    /// login configuration), with the mechanism `DIGEST-MD5`. Needs the feature `sasl-digest-md5`.
    ///
    /// The identity is the user: `AuthId::new("sasl", user)`.
    ///
    /// The user must not be empty, nor contain quotes, backslashes or control characters. With
    /// `zookeeper-client`, user and password must each be ASCII, or contain a character outside
    /// Latin-1. (ZooKeeper hashes other text as Latin-1, and `zookeeper-client` as UTF-8.) Anything
    /// else is an [`Error::InvalidOption`] when the client starts.
    ///
    /// With `Transport::Native`, the client refuses a server that does not prove that it knows the
    /// password ([`Error::ConnectRefused`]).
    ///
    /// # Caveats
    ///
    /// Use it only with TLS, or in a network that you trust:
    ///
    /// - The password itself is not sent, but the messages allow offline guesses at it. RFC 6331
    ///   calls the mechanism obsolete.
    /// - The messages after authentication are neither encrypted nor signed: an attacker who can
    ///   change them needs no password. The id and the password of a resumed session are sent
    ///   before authentication.
    ///
    /// With `Transport::ZookeeperClient`, in addition:
    ///
    /// - The client's nonce, which should make guesses harder, is predictable.
    /// - The server is not authenticated. A ZooKeeper server proves that it knows the password too,
    ///   but `zookeeper-client` does not require the proof, so it accepts an impostor.
    /// - An impostor can also send a challenge that `zookeeper-client` never finishes reading, or
    ///   that makes it panic. The former blocks a thread of the runtime permanently: neither a
    ///   timeout nor [`CuratorClient::close`](crate::CuratorClient::close) ends this.
    #[cfg(feature = "sasl-digest-md5")]
    #[must_use]
    pub fn digest_md5(user: impl Into<String>, password: impl Into<String>) -> Self {
        Self {
            mechanism: Mechanism::DigestMd5 {
                user: user.into(),
                password: password.into(),
            },
        }
    }

    /// Authenticates with a Kerberos ticket of this process and the mechanism `GSSAPI`. Needs the
    /// feature `sasl-gssapi`, whose build needs the system's Kerberos library (Debian:
    /// `libkrb5-dev` and `libclang-dev`).
    ///
    /// `server` is the principal of the servers, without its realm, as in the Java client's
    /// property `zookeeper.server.principal`: `zookeeper`, which stands for `zookeeper/` and the
    /// host as the connect string names it; or `zookeeper/` and a host, which then applies to all
    /// servers. Anything else is an [`Error::InvalidOption`] when the client starts.
    ///
    /// The Kerberos library finds the ticket (`KRB5CCNAME`, `KRB5_CONFIG`). The client neither gets
    /// nor renews tickets: use `kinit`, `k5start`, or `KRB5_CLIENT_KTNAME`, which names a keytab.
    ///
    /// With `Transport::Native`, the client refuses a server that does not authenticate itself too.
    ///
    /// # Caveats
    ///
    /// - The library may request a service ticket from the key distribution centre before a
    ///   connection is opened, on a thread for blocking work. The client waits for the ticket no
    ///   longer than for a server, but the library occupies the thread until its call returns: see
    ///   `kdc_timeout` and `max_retries` in `krb5.conf`.
    /// - The messages after authentication are neither encrypted nor signed. The id and the
    ///   password of a resumed session are sent before authentication.
    /// - With `Transport::ZookeeperClient`, a forwardable ticket is forwarded to the server,
    ///   because `zookeeper-client` requests all options. Get a ticket that is not forwardable:
    ///   `kinit -F`. `Transport::Native` forwards none.
    #[cfg(feature = "sasl-gssapi")]
    #[must_use]
    pub fn gssapi(server: impl Into<String>) -> Self {
        Self {
            mechanism: Mechanism::Gssapi {
                server: server.into(),
            },
        }
    }

    /// Refuses values that no server would accept.
    pub(crate) fn check(&self) -> Result<()> {
        match &self.mechanism {
            #[cfg(feature = "sasl-digest-md5")]
            Mechanism::DigestMd5 { user, .. } => check_user(user),
            #[cfg(feature = "sasl-gssapi")]
            Mechanism::Gssapi { server } => check_principal(server),
        }
    }

    /// Refuses values that `zookeeper-client` would send in a form that a server does not expect.
    #[cfg(feature = "zookeeper-client")]
    pub(crate) fn check_for_zookeeper_client(&self) -> Result<()> {
        match &self.mechanism {
            #[cfg(feature = "sasl-digest-md5")]
            Mechanism::DigestMd5 { user, password } => check_hashes(user, password),
            #[cfg(feature = "sasl-gssapi")]
            Mechanism::Gssapi { .. } => Ok(()),
        }
    }
}

/// Prints no password.
impl fmt::Debug for SaslOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.mechanism {
            #[cfg(feature = "sasl-digest-md5")]
            Mechanism::DigestMd5 { user, .. } => f
                .debug_struct("DigestMd5")
                .field("user", user)
                .finish_non_exhaustive(),
            #[cfg(feature = "sasl-gssapi")]
            Mechanism::Gssapi { server } => {
                f.debug_struct("Gssapi").field("server", server).finish()
            }
        }
    }
}

fn invalid(option: &'static str, value: &str, expected: &'static str) -> Error {
    Error::InvalidOption {
        option,
        value: format!("{value:?}"),
        expected,
    }
}

#[cfg(all(feature = "sasl-digest-md5", feature = "zookeeper-client"))]
const CHARACTERS: &str = "ASCII, or a text with a character that is not in Latin-1";

#[cfg(feature = "sasl-digest-md5")]
fn check_user(user: &str) -> Result<()> {
    if user.is_empty()
        || user
            .contains(|character: char| matches!(character, '"' | '\\') || character.is_control())
    {
        let expected = "at least one character, and no quotes, backslashes or control characters";
        return Err(invalid("SASL user", user, expected));
    }
    Ok(())
}

#[cfg(all(feature = "sasl-digest-md5", feature = "zookeeper-client"))]
fn check_hashes(user: &str, password: &str) -> Result<()> {
    if is_hashed_differently(user) {
        return Err(invalid("SASL user", user, CHARACTERS));
    }
    if is_hashed_differently(password) {
        return Err(Error::InvalidOption {
            option: "SASL password",
            value: "(not shown)".to_owned(),
            expected: CHARACTERS,
        });
    }
    Ok(())
}

/// Whether a server hashes the Latin-1 bytes of a text (RFC 2831, 2.1.2.1), while
/// `zookeeper-client` hashes its UTF-8 bytes.
#[cfg(all(feature = "sasl-digest-md5", feature = "zookeeper-client"))]
fn is_hashed_differently(text: &str) -> bool {
    !text.is_ascii() && text.chars().all(|character| character <= '\u{ff}')
}

#[cfg(feature = "sasl-gssapi")]
fn check_principal(server: &str) -> Result<()> {
    let (service, host) = server.split_once('/').unwrap_or((server, "-"));
    let is_name = |name: &str| {
        !name.is_empty() && !name.contains(|c: char| matches!(c, '/' | '@') || c.is_control())
    };
    if is_name(service) && is_name(host) {
        return Ok(());
    }
    Err(invalid(
        "SASL server",
        server,
        "`service` or `service/host`, without a realm",
    ))
}

#[cfg(feature = "sasl-gssapi")]
pub(crate) mod ticket {
    //! Checks for a Kerberos ticket before a connection is opened, by starting GSSAPI with the
    //! server's name.
    //!
    //! Both transports need the ticket once they are connected. But `zookeeper-client` reports a
    //! missing ticket only as "no hosts", and contacts the key distribution centre, if necessary,
    //! on the thread that polls it. After this check, the ticket is in the cache.

    use libgssapi::context::{ClientCtx, CtxFlags};
    use libgssapi::credential::{Cred, CredUsage};
    use libgssapi::error::Error;
    use libgssapi::name::Name;
    use libgssapi::oid::{GSS_MECH_KRB5, GSS_NT_HOSTBASED_SERVICE, OidSet};
    use libgssapi::util::Buf;

    use crate::connect_string::HostPort;
    use crate::sasl::{Mechanism, SaslOptions};

    /// Returns why a client that authenticates with Kerberos has no ticket for `server`; `None` if
    /// it has a ticket.
    ///
    /// The Kerberos library is called on a thread for blocking work, which does not delay the end
    /// of the process.
    pub(crate) async fn missing(sasl: Option<&SaslOptions>, server: &HostPort) -> Option<String> {
        let Some(Mechanism::Gssapi { server: principal }) = sasl.map(|sasl| &sasl.mechanism) else {
            return None;
        };
        let name = service_name(principal, server);
        let target = name.clone();
        let begun = blocking::unblock(move || begin(&target).map(drop)).await;
        begun
            .err()
            .map(|error| format!("no Kerberos ticket for {name} ({error})"))
    }

    /// The name of the service on `server`, whose principal is `service` or `service/host`.
    pub(crate) fn service_name(principal: &str, server: &HostPort) -> String {
        let (service, host) = principal
            .split_once('/')
            .unwrap_or((principal, server.host()));
        format!("{service}@{host}")
    }

    /// Starts a security context, and returns it with the token for the server, if there is one.
    /// Blocks.
    ///
    /// The server must authenticate itself too. The ticket is not delegated.
    pub(crate) fn begin(name: &str) -> Result<(ClientCtx, Option<Buf>), Error> {
        let server = Name::new(name.as_bytes(), Some(&GSS_NT_HOSTBASED_SERVICE))?;
        let mut kerberos = OidSet::new()?;
        kerberos.add(&GSS_MECH_KRB5)?;
        let credentials = Cred::acquire(None, None, CredUsage::Initiate, Some(&kerberos))?;
        let flags = CtxFlags::GSS_C_MUTUAL_FLAG | CtxFlags::GSS_C_INTEG_FLAG;
        let mut context = ClientCtx::new(Some(credentials), server, flags, Some(&GSS_MECH_KRB5));
        let token = context.step(None, None)?;
        Ok((context, token))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(options: SaslOptions) -> Option<String> {
        options
            .check()
            .and_then(|()| options.check_for_zookeeper_client())
            .err()
            .map(|error| error.to_string())
    }

    #[cfg(feature = "sasl-digest-md5")]
    #[test]
    fn a_user_name_that_servers_cannot_parse_is_refused() {
        for user in ["", "a\"b", "a\\b", "a\nb", "a\0b"] {
            let refusal = refusal(SaslOptions::digest_md5(user, "secret")).unwrap();
            assert!(
                refusal.starts_with(&format!(
                    "invalid SASL user {user:?}: expected at least one"
                )),
                "{refusal}"
            );
        }
        for user in ["alice", "a b", "a:b", "a,b=c", "алиса"] {
            assert_eq!(
                refusal(SaslOptions::digest_md5(user, "secret")),
                None,
                "{user}"
            );
        }
    }

    #[cfg(feature = "sasl-digest-md5")]
    #[test]
    fn a_non_ascii_latin_1_password_is_refused_and_not_shown() {
        let expected = "invalid SASL password (not shown): expected ASCII, or a text with a character that is not in Latin-1";
        assert_eq!(
            refusal(SaslOptions::digest_md5("alice", "größe")).as_deref(),
            Some(expected)
        );
        assert!(
            refusal(SaslOptions::digest_md5("jürgen", ""))
                .unwrap()
                .starts_with("invalid SASL user \"jürgen\"")
        );
        for password in ["", "a\"b\\c\n", "größe ≥ 1", "пароль"] {
            assert_eq!(
                refusal(SaslOptions::digest_md5("alice", password)),
                None,
                "{password}"
            );
        }
    }

    #[cfg(feature = "sasl-gssapi")]
    #[test]
    fn a_server_principal_is_a_service_with_an_optional_host() {
        for server in ["zookeeper", "zookeeper/zk1.example.org", "zk/127.0.0.1"] {
            assert_eq!(refusal(SaslOptions::gssapi(server)), None, "{server}");
        }
        for server in [
            "",
            "/",
            "zookeeper/",
            "/zk1",
            "zookeeper@EXAMPLE.ORG",
            "zookeeper/zk1@EXAMPLE.ORG",
            "a/b/c",
            "a\0",
        ] {
            let refusal = refusal(SaslOptions::gssapi(server)).unwrap();
            assert!(
                refusal.ends_with("expected `service` or `service/host`, without a realm"),
                "{refusal}"
            );
        }
    }
}
