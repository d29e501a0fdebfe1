//! Converts SASL options to the type of `zookeeper-client`.

use crate::connect_string::HostPort;
use crate::sasl::{Mechanism, SaslOptions};

/// For a connection to `server`. `zookeeper-client` may connect to an address, but Kerberos needs
/// the name.
#[cfg_attr(
    not(feature = "sasl-gssapi"),
    expect(unused_variables, reason = "only Kerberos needs it")
)]
pub(super) fn options(options: &SaslOptions, server: &HostPort) -> zookeeper_client::SaslOptions {
    match &options.mechanism {
        #[cfg(feature = "sasl-digest-md5")]
        Mechanism::DigestMd5 { user, password } => {
            zookeeper_client::SaslOptions::digest_md5(user.clone(), password.clone()).into()
        }
        #[cfg(feature = "sasl-gssapi")]
        Mechanism::Gssapi { server: principal } => {
            let (service, host) = principal
                .split_once('/')
                .unwrap_or((principal.as_str(), server.host()));
            let options = zookeeper_client::SaslOptions::gssapi().with_username(service.to_owned());
            options.with_hostname(host.to_owned()).into()
        }
    }
}
