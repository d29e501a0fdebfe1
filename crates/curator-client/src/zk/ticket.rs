//! Looks for a Kerberos ticket before a server is asked for a connection.
//!
//! The client crate does so too, when it is connected, and then says only that it has "no hosts"; and it asks the key
//! distribution centre, if it has to, on the thread that polls it. When this has found the ticket, it is in the cache.

use libgssapi::context::{ClientCtx, CtxFlags};
use libgssapi::credential::{Cred, CredUsage};
use libgssapi::error::Error;
use libgssapi::name::Name;
use libgssapi::oid::{GSS_MECH_KRB5, GSS_NT_HOSTBASED_SERVICE, OidSet};

use crate::connect_string::HostPort;
use crate::options::SessionOptions;
use crate::sasl::Mechanism;

/// Why a client that authenticates by Kerberos has no ticket for `server`.
///
/// The Kerberos library is asked on a thread for work that blocks, for which nobody waits when the process ends.
pub(super) async fn missing(options: &SessionOptions, server: &HostPort) -> Option<String> {
    let Some(Mechanism::Gssapi { server: principal }) = options.sasl.as_ref().map(|sasl| &sasl.mechanism) else {
        return None;
    };
    let (service, host) = principal.split_once('/').unwrap_or((principal.as_str(), server.host()));
    let name = format!("{service}@{host}");
    let asked = name.clone();
    let begun = blocking::unblock(move || begin(&asked)).await;
    begun.err().map(|error| format!("no Kerberos ticket for {name} ({error})"))
}

/// As the crate begins, with the same ticket for the same name.
fn begin(name: &str) -> Result<(), Error> {
    let server = Name::new(name.as_bytes(), Some(&GSS_NT_HOSTBASED_SERVICE))?;
    let mut kerberos = OidSet::new()?;
    kerberos.add(&GSS_MECH_KRB5)?;
    let ours = Cred::acquire(None, None, CredUsage::Initiate, Some(&kerberos))?;
    let mut context = ClientCtx::new(Some(ours), server, CtxFlags::GSS_C_MUTUAL_FLAG, Some(&GSS_MECH_KRB5));
    context.step(None, None).map(drop)
}
