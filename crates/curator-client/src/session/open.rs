//! Opening a session.

use std::sync::Arc;

use super::Session;
use crate::clock::ClockInstant;
use crate::error::{Error, Result};
use crate::options::SessionOptions;
use crate::timer::Timer;
use crate::zk::link::Link;

impl Session {
    /// Makes one attempt to open a session, no longer than the connection timeout.
    pub(crate) async fn open(epoch: u64, options: &Arc<SessionOptions>, timer: &Timer) -> Result<Self> {
        let connect_sent = ClockInstant::now();
        let attempt = async {
            let link = match Link::open(options).await {
                Ok(link) => link,
                Err(error) if Link::is_refusal(&error) => {
                    return Err(Error::ConnectRefused {
                        connect_string: options.connect_string.clone(),
                        cause: error.to_string(),
                    });
                }
                Err(error) => return Err(options.connect_failed(error.to_string())),
            };
            let session = Self::new(epoch, link, connect_sent, options, timer);
            let (sent, answer) = session.probe().await;
            answer.map_err(|error| options.connect_failed(error.to_string()))?;
            session.lease().probe_answered(sent);
            // Other servers were tried first and did not answer, or the answers were slow. The next two probes have to
            // be answered within what is left of the lease, so it is better to start over.
            if session.lease().remaining() < session.timeout() / 2 {
                return Err(options.connect_failed("the handshake took too long for the session to be reliable"));
            }
            session.set_connected(true);
            Ok(session)
        };
        tokio::select! {
            opened = attempt => opened,
            () = timer.sleep(options.connection_timeout) => Err(options.connect_failed("no server answered the handshake")),
        }
    }
}
