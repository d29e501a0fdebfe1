//! An instance of a service, and its JSON.

use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::de::DeserializeOwned;
use serde::{Serialize, Serializer};
use uuid::Uuid;

use crate::error::InvalidInstance;
use crate::payload::{self, Payload, RawJson};
use crate::service_type::ServiceType;
use crate::uri_spec::UriSpec;

/// An instance of a service: a process and its address.
///
/// Curator's `ServiceInstance`, with the same JSON. `P` is the [payload](Payload).
///
/// ```
/// use curator_discovery::ServiceInstance;
///
/// let instance = ServiceInstance::with_payload("orders", "zone-a".to_owned()).address("10.0.0.7").port(8080);
/// assert_eq!(instance.port, Some(8080));
/// ```
///
/// # Guarantees
///
/// Reading and writing an instance loses nothing: unknown fields are kept, and so are payloads of any class as
/// [`RawJson`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase", bound(serialize = "P: Payload"))]
#[non_exhaustive]
pub struct ServiceInstance<P = RawJson> {
    /// The service of the instance: a node name.
    pub name: String,
    /// Identifies the instance within the service: a node name.
    pub id: String,
    /// A host name or an IP address.
    pub address: Option<String>,
    /// The port without TLS.
    pub port: Option<u16>,
    /// The port with TLS.
    pub ssl_port: Option<u16>,
    /// The service's data besides the address.
    #[serde(serialize_with = "payload::serialize")]
    pub payload: Option<P>,
    /// When the instance was created, in milliseconds since 1970, on the clock of its process.
    #[serde(rename = "registrationTimeUTC")]
    pub registration_time_utc: i64,
    /// The lifetime of the registration.
    pub service_type: ServiceType,
    /// The pattern of the instance's URI.
    pub uri_spec: Option<UriSpec>,
    /// Whether the instance accepts new requests. Java's default serializer omits this; an instance without the field
    /// is enabled.
    #[serde(skip_serializing_if = "Clone::clone")]
    pub enabled: bool,
    /// Unknown fields.
    #[serde(flatten, serialize_with = "unknown_fields")]
    pub other: BTreeMap<String, RawJson>,
}

impl ServiceInstance {
    /// An enabled instance, created now, with a random UUID as its id. It has no address and no port (Java's builder
    /// guesses an address).
    #[must_use]
    pub fn new(name: impl Into<String>) -> Self {
        Self::of(name.into(), None)
    }
}

impl<P> ServiceInstance<P> {
    /// Like [`new`](ServiceInstance::new), with this payload.
    #[must_use]
    pub fn with_payload(name: impl Into<String>, payload: P) -> Self {
        Self::of(name.into(), Some(payload))
    }

    fn of(name: String, payload: Option<P>) -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
        Self {
            name,
            id: Uuid::new_v4().to_string(),
            address: None,
            port: None,
            ssl_port: None,
            payload,
            registration_time_utc: i64::try_from(now).unwrap_or(i64::MAX),
            service_type: ServiceType::Dynamic,
            uri_spec: None,
            enabled: true,
            other: BTreeMap::new(),
        }
    }

    /// Sets the id. Use it if a restarted process is the same instance; its registration then waits until the previous
    /// session has ended.
    #[must_use]
    pub fn id(self, id: impl Into<String>) -> Self {
        Self { id: id.into(), ..self }
    }

    /// Sets the address.
    #[must_use]
    pub fn address(self, address: impl Into<String>) -> Self {
        Self { address: Some(address.into()), ..self }
    }

    /// Sets the port without TLS.
    #[must_use]
    pub fn port(self, port: u16) -> Self {
        Self { port: Some(port), ..self }
    }

    /// Sets the port with TLS.
    #[must_use]
    pub fn ssl_port(self, port: u16) -> Self {
        Self { ssl_port: Some(port), ..self }
    }

    /// Sets the lifetime of the registration. Defaults to [`ServiceType::Dynamic`].
    #[must_use]
    pub fn service_type(self, service_type: ServiceType) -> Self {
        Self { service_type, ..self }
    }

    /// Sets the pattern of the URI, in the syntax of [`UriSpec::parse`].
    #[must_use]
    pub fn uri_spec(self, pattern: &str) -> Self {
        Self { uri_spec: Some(UriSpec::parse(pattern)), ..self }
    }

    /// The instance's URI, made from its pattern; `None` without a pattern. The variables are `scheme` (`https` if
    /// there is a port with TLS), `name`, `id`, `address`, `port`, `ssl-port`, `registration-time-utc` and
    /// `service-type`; the variables `[` and `]` stand for braces.
    ///
    /// Curator's `buildUriSpec`.
    ///
    /// # Errors
    ///
    /// [`InvalidInstance::NoValue`] for an unknown variable, or if the instance has no value for it.
    pub fn uri(&self) -> Result<Option<String>, InvalidInstance> {
        let Some(spec) = &self.uri_spec else { return Ok(None) };
        let service_type = || Some(serde_json::to_string(&self.service_type).ok()?.trim_matches('"').to_lowercase());
        let mut uri = String::new();
        for part in &spec.parts {
            let value = match part.value.as_str() {
                _ if !part.variable => Some(part.value.clone()),
                "scheme" => Some(if self.ssl_port.is_some() { "https" } else { "http" }.to_owned()),
                "name" => Some(self.name.clone()),
                "id" => Some(self.id.clone()),
                "address" => self.address.clone(),
                "port" => self.port.map(|port| port.to_string()),
                "ssl-port" => self.ssl_port.map(|port| port.to_string()),
                "registration-time-utc" => Some(self.registration_time_utc.to_string()),
                "service-type" => service_type(),
                "[" => Some("{".to_owned()),
                "]" => Some("}".to_owned()),
                _ => None,
            };
            uri += &value.ok_or_else(|| InvalidInstance::NoValue { variable: part.value.clone() })?;
        }
        Ok(Some(uri))
    }
}

impl<P: Payload> ServiceInstance<P> {
    /// Parses an instance in Java's format.
    ///
    /// # Errors
    ///
    /// When the text is not a JSON object, lacks a name or an id, or a field has the wrong type.
    pub fn from_json(json: &[u8]) -> Result<Self, InvalidInstance> {
        let fields =
            serde_json::from_slice(json).map_err(|error| InvalidInstance::NotAnObject { reason: error.to_string() })?;
        let mut fields: BTreeMap<String, RawJson> = fields;
        Ok(Self {
            name: required(&mut fields, "name")?,
            id: required(&mut fields, "id")?,
            address: take(&mut fields, "address")?,
            port: take(&mut fields, "port")?,
            ssl_port: take(&mut fields, "sslPort")?,
            payload: take(&mut fields, "payload")?,
            registration_time_utc: take(&mut fields, "registrationTimeUTC")?.unwrap_or_default(),
            service_type: take(&mut fields, "serviceType")?.unwrap_or_default(),
            uri_spec: take(&mut fields, "uriSpec")?,
            enabled: take(&mut fields, "enabled")?.unwrap_or(true),
            other: fields,
        })
    }

    /// JSON as Java writes it, with the fields in Java's order; then `enabled` if it is false, and the
    /// [other fields](Self::other).
    ///
    /// # Errors
    ///
    /// When the payload cannot be serialized, or has a [Java class](Payload::JAVA_CLASS) but is not a JSON object.
    pub fn to_json(&self) -> Result<Vec<u8>, InvalidInstance> {
        // Only the payload can fail to serialize.
        serde_json::to_vec(self).map_err(|error| InvalidInstance::field("payload", &error))
    }
}

/// The known fields. When an instance is written, they are left out of its [other fields](ServiceInstance::other).
const FIELDS: [&str; 10] =
    ["name", "id", "address", "port", "sslPort", "payload", "registrationTimeUTC", "serviceType", "uriSpec", "enabled"];

fn unknown_fields<S: Serializer>(other: &BTreeMap<String, RawJson>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(other.iter().filter(|(field, _)| !FIELDS.contains(&field.as_str())))
}

fn required<T: DeserializeOwned>(
    fields: &mut BTreeMap<String, RawJson>,
    field: &'static str,
) -> Result<T, InvalidInstance> {
    take(fields, field)?.ok_or_else(|| InvalidInstance::Field { field, reason: "is missing".to_owned() })
}

/// Removes a field; `None` if it is missing or null.
fn take<T: DeserializeOwned>(
    fields: &mut BTreeMap<String, RawJson>,
    field: &'static str,
) -> Result<Option<T>, InvalidInstance> {
    fields.remove(field).map_or(Ok(None), |value| value.parse_field(field))
}

#[cfg(test)]
mod tests;
