//! Looks for a Kerberos ticket before a connection is opened.
//!
//! `zookeeper-client` also looks for a ticket once it is connected, but reports a failure only as "no hosts", and
//! contacts the key distribution centre, if necessary, on the thread that polls it. After this look-up, the ticket is
//! in the cache.

use libgssapi::context::{ClientCtx, CtxFlags};
use libgssapi::credential::{Cred, CredUsage};
use libgssapi::error::Error;
use libgssapi::name::Name;
use libgssapi::oid::{GSS_MECH_KRB5, GSS_NT_HOSTBASED_SERVICE, OidSet};

use crate::connect_string::HostPort;
use crate::options::SessionOptions;
use crate::sasl::Mechanism;

/// Returns why a client that authenticates by Kerberos has no ticket for `server`; `None` if it has one.
///
/// The Kerberos library is called on a thread for blocking work, which does not delay the end of the process.
pub(crate) async fn missing(options: &SessionOptions, server: &HostPort) -> Option<String> {
    let Some(Mechanism::Gssapi { server: principal }) = options.sasl.as_ref().map(|sasl| &sasl.mechanism) else {
        return None;
    };
    let (service, host) = principal.split_once('/').unwrap_or((principal.as_str(), server.host()));
    let name = format!("{service}@{host}");
    let target = name.clone();
    let begun = blocking::unblock(move || begin(&target)).await;
    begun.err().map(|error| format!("no Kerberos ticket for {name} ({error})"))
}

/// Starts GSSAPI like `zookeeper-client`, with the same ticket for the same name.
fn begin(name: &str) -> Result<(), Error> {
    let server = Name::new(name.as_bytes(), Some(&GSS_NT_HOSTBASED_SERVICE))?;
    let mut kerberos = OidSet::new()?;
    kerberos.add(&GSS_MECH_KRB5)?;
    let ours = Cred::acquire(None, None, CredUsage::Initiate, Some(&kerberos))?;
    let mut context = ClientCtx::new(Some(ours), server, CtxFlags::GSS_C_MUTUAL_FLAG, Some(&GSS_MECH_KRB5));
    context.step(None, None).map(drop)
}
