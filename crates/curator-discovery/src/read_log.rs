//! Logs the nodes of a service that cannot be read as instances, but not each of their writes.

use std::sync::{Mutex, MutexGuard, PoisonError};

use curator_recipes::client::{CuratorClient, FailureLog, Recovery, ZPath, source};

use crate::error::UnreadableInstance;
use crate::text::Escaped;

/// The log lines of a cache, shared by its handles and streams.
pub(crate) struct ReadLog {
    /// The name of the client.
    client: String,
    service: ZPath,
    failures: Mutex<FailureLog>,
}

impl ReadLog {
    pub(crate) fn new(client: &CuratorClient, service: ZPath) -> Self {
        Self {
            client: client.name().to_owned(),
            service,
            failures: Mutex::default(),
        }
    }

    /// Must not be held while a line is logged: a subscriber may ask for the instances.
    fn failures(&self) -> MutexGuard<'_, FailureLog> {
        self.failures.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A node cannot be read.
    pub(crate) fn failed(&self, unreadable: &UnreadableInstance) {
        let UnreadableInstance { path, cause, .. } = unreadable;
        let is_logged = self
            .failures()
            .failed(format_args!("{path}: {cause}"), source::now());
        if is_logged {
            tracing::warn!(client = self.client, path = %Escaped(path.as_str()), %cause, "service discovery: a node cannot be read as an instance, and is left out");
        }
    }

    /// All nodes can be read.
    pub(crate) fn recovered(&self) {
        let recovered = self.failures().recovered(source::now());
        if let Some(Recovery {
            lasted, failures, ..
        }) = recovered
        {
            tracing::info!(client = self.client, path = %Escaped(self.service.as_str()), ?lasted, failures, "service discovery: all nodes can be read as instances again");
        }
    }
}
