//! Starts GSSAPI with a server's name, and so looks for a Kerberos ticket before a connection is
//! opened.
//!
//! Both transports need the ticket once they are connected. But `zookeeper-client` reports a
//! missing one only as "no hosts", and contacts the key distribution centre, if necessary, on the
//! thread that polls it. After this look-up, the ticket is in the cache.

use libgssapi::context::{ClientCtx, CtxFlags};
use libgssapi::credential::{Cred, CredUsage};
use libgssapi::error::Error;
use libgssapi::name::Name;
use libgssapi::oid::{GSS_MECH_KRB5, GSS_NT_HOSTBASED_SERVICE, OidSet};
use libgssapi::util::Buf;

use crate::connect_string::HostPort;
use crate::options::SessionOptions;
use crate::sasl::Mechanism;

/// Returns why a client that authenticates by Kerberos has no ticket for `server`; `None` if it has
/// one.
///
/// The Kerberos library is called on a thread for blocking work, which does not delay the end of
/// the process.
pub(crate) async fn missing(options: &SessionOptions, server: &HostPort) -> Option<String> {
    let Some(Mechanism::Gssapi { server: principal }) =
        options.sasl.as_ref().map(|sasl| &sasl.mechanism)
    else {
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
    let ours = Cred::acquire(None, None, CredUsage::Initiate, Some(&kerberos))?;
    let flags = CtxFlags::GSS_C_MUTUAL_FLAG | CtxFlags::GSS_C_INTEG_FLAG;
    let mut context = ClientCtx::new(Some(ours), server, flags, Some(&GSS_MECH_KRB5));
    let token = context.step(None, None)?;
    Ok((context, token))
}
