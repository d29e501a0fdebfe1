//! SASL, in the client crate's terms.

use crate::sasl::{Mechanism, SaslOptions};

pub(super) fn options(options: &SaslOptions) -> zookeeper_client::SaslOptions {
    match &options.mechanism {
        #[cfg(feature = "sasl-digest-md5")]
        Mechanism::DigestMd5 { user, password } => {
            zookeeper_client::SaslOptions::digest_md5(user.clone(), password.clone()).into()
        }
        #[cfg(feature = "sasl-gssapi")]
        Mechanism::Gssapi { server } => {
            let (service, host) =
                server.split_once('/').map_or((&**server, None), |(service, host)| (service, Some(host)));
            let options = zookeeper_client::SaslOptions::gssapi().with_username(service.to_owned());
            match host {
                Some(host) => options.with_hostname(host.to_owned()).into(),
                None => options.into(),
            }
        }
    }
}
