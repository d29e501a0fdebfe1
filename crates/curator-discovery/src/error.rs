//! Errors of service discovery.

use curator_recipes::client::{Error as ClientError, Stat, ZPath, error_of_parts};
use curator_recipes::{CacheError, PersistentNodeError};
use serde_json::error::Category;

use crate::debug::{Escaped, debug_as_text};
use crate::service_type::ServiceType;

/// An error of service discovery.
#[derive(Clone, thiserror::Error)]
#[non_exhaustive]
pub enum DiscoveryError {
    /// An error of the client.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The create, write or delete of a registration's node failed or is not confirmed, or the
    /// registration has ended.
    #[error(transparent)]
    Node(#[from] PersistentNodeError),
    /// The cache of a service has ended.
    #[error(transparent)]
    Cache(#[from] CacheError),
    /// The instance cannot be registered, published or written.
    #[error(transparent)]
    Invalid(#[from] InvalidInstance),
    /// The instance cannot be published: its node belongs to a
    /// [`Registration`](crate::Registration), and would be deleted with it.
    #[error("{path} cannot be published: it is registered in session {owner:#x}")]
    Registered {
        /// The node.
        path: ZPath,
        /// The session that owns the node.
        owner: i64,
    },
    /// The node cannot be read, or its data is not an instance.
    #[error(transparent)]
    Unreadable(#[from] Box<UnreadableInstance>),
}

/// A node that cannot be read, or whose data is not an instance. The message contains none of the
/// data.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[error("{} cannot be read: {cause}", Escaped(path.as_str()))]
#[non_exhaustive]
pub struct UnreadableInstance {
    /// The node.
    pub path: ZPath,
    /// The node's stat; `None` if this client has no permission to read the node.
    pub stat: Option<Stat>,
    /// Why it is unreadable.
    #[source]
    pub cause: InvalidInstance,
}

impl UnreadableInstance {
    pub(crate) fn denied(path: &ZPath) -> Box<Self> {
        Box::new(Self {
            path: path.clone(),
            stat: None,
            cause: InvalidInstance::NotPermitted,
        })
    }
}

/// Why an instance is invalid, or its node cannot be read. No variant contains a value of the JSON,
/// which may be secret.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidInstance {
    /// The text is not a JSON object.
    #[error("not a JSON object: {reason}")]
    NotAnObject {
        /// What was expected, with line and column.
        reason: String,
    },
    /// This client has no permission to read the node.
    #[error("the client has no permission to read the node")]
    NotPermitted,
    /// A field is missing, or cannot be read or written; or the payload has a [Java
    /// class](crate::Payload::JAVA_CLASS), but is not a JSON object.
    #[error("the field `{field}`: {reason}")]
    Field {
        /// The field's name in JSON.
        field: &'static str,
        /// What was expected; for a payload, with its line and column.
        reason: String,
    },
    /// The type of the instance does not fit the call: dynamic instances are registered, static and
    /// permanent ones are published.
    #[error("an instance of the type {service_type:?} cannot be {operation}")]
    ServiceType {
        /// The type of the instance.
        service_type: ServiceType,
        /// The attempted operation.
        operation: &'static str,
    },
    /// The name, id or type of an update differs from the registered instance.
    #[error("the registered instance is {registered}, not {update}")]
    OtherInstance {
        /// Service, id and type of the registered instance.
        registered: String,
        /// Service, id and type of the update.
        update: String,
    },
    /// A known variable of a [`UriSpec`](crate::UriSpec) has no value in the instance.
    #[error("the variable {{{variable}}} has no value")]
    NoValue {
        /// The name of the variable.
        variable: String,
    },
    /// A part of a [`UriSpec`](crate::UriSpec) is a variable with an unknown name. See
    /// [`ServiceInstance::uri`](crate::ServiceInstance::uri) for the known names.
    #[error("the part {part} of the URI's pattern is an unknown variable")]
    UnknownVariable {
        /// The index of the part in [`UriSpec::parts`](crate::UriSpec::parts).
        part: usize,
    },
}

debug_as_text!(DiscoveryError, UnreadableInstance, InvalidInstance);
error_of_parts!(DiscoveryError: Client, Node, Cache);

impl InvalidInstance {
    pub(crate) fn not_an_object(error: &serde_json::Error) -> Self {
        Self::NotAnObject {
            reason: reason(error, "an object"),
        }
    }

    /// A field that does not have the `expected` type.
    pub(crate) fn field(field: &'static str, expected: &str) -> Self {
        Self::Field {
            field,
            reason: format!("expected {expected}"),
        }
    }

    /// A payload that does not fit its type.
    pub(crate) fn payload(expected: &str, error: &serde_json::Error) -> Self {
        Self::Field {
            field: "payload",
            reason: reason(error, expected),
        }
    }

    /// An error of a payload's serializer.
    pub(crate) fn unwritable(error: &serde_json::Error) -> Self {
        let reason = match error.classify() {
            Category::Data => "its `Serialize` returns an error".to_owned(),
            _ => error.to_string(),
        };
        Self::Field {
            field: "payload",
            reason,
        }
    }
}

/// Returns why JSON cannot be read, without its values. A message of the category `Data` may quote
/// a value or come from a type's own `Deserialize`, so it is left out. All other messages are fixed
/// texts.
fn reason(error: &serde_json::Error, expected: &str) -> String {
    match error.classify() {
        Category::Data => format!(
            "expected {expected} at line {} column {}",
            error.line(),
            error.column()
        ),
        _ => error.to_string(),
    }
}
