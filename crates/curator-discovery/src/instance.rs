//! An instance of a service, and its JSON.

use std::collections::BTreeMap;
use std::fmt;

use curator_recipes::client::source;
use serde::de::DeserializeOwned;
use serde::{Deserialize as _, Serialize, Serializer};

use crate::coercion::{Boolean, Integer, Text, Type};
use crate::debug::Length;
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
/// Reading and writing an instance loses nothing: unknown fields are kept, and so are payloads of
/// any class as [`RawJson`].
#[derive(Clone, PartialEq, Eq, Serialize)]
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
    /// When the instance was created, in milliseconds since 1970, by the clock of its process.
    #[serde(rename = "registrationTimeUTC")]
    pub registration_time_utc: i64,
    /// The lifetime of the registration.
    pub service_type: ServiceType,
    /// The pattern of the instance's URI.
    pub uri_spec: Option<UriSpec>,
    /// Whether the instance accepts new requests. Java's default serializer omits this; an instance
    /// without the field is enabled, and one with null is not. See also
    /// [`FoundInstance::is_in_service`](crate::FoundInstance::is_in_service).
    #[serde(skip_serializing_if = "Clone::clone")]
    pub enabled: bool,
    /// Unknown fields.
    #[serde(flatten, serialize_with = "unknown_fields")]
    pub other: BTreeMap<String, RawJson>,
}

/// Shows numbers, and the lengths of texts.
impl<P> fmt::Debug for ServiceInstance<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut fields = f.debug_struct("ServiceInstance");
        fields
            .field("name", &Length::of(&self.name))
            .field("id", &Length::of(&self.id));
        fields.field("address", &self.address.as_deref().map(Length::of));
        fields
            .field("port", &self.port)
            .field("ssl_port", &self.ssl_port)
            .field("payload", &self.payload.is_some());
        fields
            .field("registration_time_utc", &self.registration_time_utc)
            .field("service_type", &self.service_type);
        fields
            .field("uri_spec", &self.uri_spec)
            .field("enabled", &self.enabled)
            .field("other", &self.other.len());
        fields.finish()
    }
}

impl ServiceInstance {
    /// An enabled instance, created now, with a random UUID as its id. It has no address and no
    /// port (Java's builder guesses an address).
    #[must_use]
    pub fn new(name: impl Into<String>) -> Self {
        Self::with_optional_payload(name.into(), None)
    }
}

impl<P> ServiceInstance<P> {
    /// Like [`new`](ServiceInstance::new), with this payload.
    #[must_use]
    pub fn with_payload(name: impl Into<String>, payload: P) -> Self {
        Self::with_optional_payload(name.into(), Some(payload))
    }

    fn with_optional_payload(name: String, payload: Option<P>) -> Self {
        let now = source::since_1970().as_millis();
        Self {
            name,
            id: source::new_uuid().to_string(),
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

    /// Sets the id. Use it if a restarted process is the same instance; its registration then waits
    /// until the previous session has ended.
    #[must_use]
    pub fn id(self, id: impl Into<String>) -> Self {
        Self {
            id: id.into(),
            ..self
        }
    }

    /// Sets the address.
    #[must_use]
    pub fn address(self, address: impl Into<String>) -> Self {
        Self {
            address: Some(address.into()),
            ..self
        }
    }

    /// Sets the port without TLS.
    #[must_use]
    pub fn port(self, port: u16) -> Self {
        Self {
            port: Some(port),
            ..self
        }
    }

    /// Sets the port with TLS.
    #[must_use]
    pub fn ssl_port(self, port: u16) -> Self {
        Self {
            ssl_port: Some(port),
            ..self
        }
    }

    /// Sets the lifetime of the registration. Defaults to [`ServiceType::Dynamic`].
    #[must_use]
    pub fn service_type(self, service_type: ServiceType) -> Self {
        Self {
            service_type,
            ..self
        }
    }

    /// Sets the pattern of the URI, in the syntax of [`UriSpec::parse`].
    #[must_use]
    pub fn uri_spec(self, pattern: &str) -> Self {
        Self {
            uri_spec: Some(UriSpec::parse(pattern)),
            ..self
        }
    }

    /// The instance's URI, made from its pattern; `None` without a pattern. The variables are
    /// `scheme` (`https` if there is a port with TLS), `name`, `id`, `address`, `port`, `ssl-port`,
    /// `registration-time-utc` and `service-type`; the variables `[` and `]` stand for braces.
    ///
    /// Curator's `buildUriSpec`.
    ///
    /// # Errors
    ///
    /// [`NoValue`](InvalidInstance::NoValue) if the instance has no value for a variable;
    /// [`UnknownVariable`](InvalidInstance::UnknownVariable).
    pub fn uri(&self) -> Result<Option<String>, InvalidInstance> {
        let Some(spec) = &self.uri_spec else {
            return Ok(None);
        };
        let mut uri = String::new();
        for (index, part) in spec.parts.iter().enumerate() {
            let value = match part.value.as_str() {
                _ if !part.variable => Some(part.value.clone()),
                "scheme" => Some(
                    if self.ssl_port.is_some() {
                        "https"
                    } else {
                        "http"
                    }
                    .to_owned(),
                ),
                "name" => Some(self.name.clone()),
                "id" => Some(self.id.clone()),
                "address" => self.address.clone(),
                "port" => self.port.map(|port| port.to_string()),
                "ssl-port" => self.ssl_port.map(|port| port.to_string()),
                "registration-time-utc" => Some(self.registration_time_utc.to_string()),
                "service-type" => serde_json::to_string(&self.service_type)
                    .ok()
                    .map(|json| json.trim_matches('"').to_lowercase()),
                "[" => Some("{".to_owned()),
                "]" => Some("}".to_owned()),
                _ => return Err(InvalidInstance::UnknownVariable { part: index }),
            };
            uri += &value.ok_or_else(|| InvalidInstance::NoValue {
                variable: part.value.clone(),
            })?;
        }
        Ok(Some(uri))
    }
}

impl<P: Payload> ServiceInstance<P> {
    /// Parses an instance in Java's format. Accepts what Jackson, Java's parser, accepts: numbers
    /// and booleans in quotes (`"port":"8080"`), numbers with a fraction as integers, numbers as
    /// text (`"id":5`), a pattern as `uriSpec`, a byte order mark, and text after the object.
    ///
    /// # Errors
    ///
    /// When the text is not a JSON object, lacks a name or an id, a field has the wrong type, or a
    /// port is not from 0 to 65,535. Java also accepts a missing name or id, and any integer as a
    /// port.
    pub fn from_json(json: &[u8]) -> Result<Self, InvalidInstance> {
        let json = json.strip_prefix(BYTE_ORDER_MARK).unwrap_or(json);
        let fields = BTreeMap::deserialize(&mut serde_json::Deserializer::from_slice(json));
        let mut fields: BTreeMap<String, RawJson> =
            fields.map_err(|error| InvalidInstance::not_an_object(&error))?;
        Ok(Self {
            name: required(&mut fields, "name")?,
            id: required(&mut fields, "id")?,
            address: text(&mut fields, "address")?,
            port: port(&mut fields, "port")?,
            ssl_port: port(&mut fields, "sslPort")?,
            payload: match fields.remove("payload") {
                Some(payload) => payload.parse()?,
                None => None,
            },
            registration_time_utc: take(&mut fields, "registrationTimeUTC", "an integer")?
                .and_then(|Integer(time)| time)
                .unwrap_or_default(),
            service_type: take(&mut fields, "serviceType", "the name of a service type")?
                .map_or_else(ServiceType::default, |Type(service_type)| service_type),
            uri_spec: take(&mut fields, "uriSpec", "an object with parts, or a pattern")?.flatten(),
            enabled: take(&mut fields, "enabled", "a boolean")?
                .is_none_or(|Boolean(enabled)| enabled),
            other: fields,
        })
    }

    /// JSON as Java writes it, with the fields in Java's order; then `enabled` if it is false, and
    /// the [other fields](Self::other).
    ///
    /// # Errors
    ///
    /// When the payload cannot be serialized, or has a [Java class](Payload::JAVA_CLASS) but is not
    /// a JSON object.
    pub fn to_json(&self) -> Result<Vec<u8>, InvalidInstance> {
        serde_json::to_vec(self).map_err(|error| {
            // Only the payload can fail to serialize. Its own error is typed.
            self.payload
                .as_ref()
                .and_then(|payload| payload::to_raw(payload).err())
                .unwrap_or_else(|| InvalidInstance::unwritable(&error))
        })
    }
}

/// The known fields. When an instance is written, they are left out of its [other
/// fields](ServiceInstance::other).
const FIELDS: [&str; 10] = [
    "name",
    "id",
    "address",
    "port",
    "sslPort",
    "payload",
    "registrationTimeUTC",
    "serviceType",
    "uriSpec",
    "enabled",
];

fn unknown_fields<S: Serializer>(
    other: &BTreeMap<String, RawJson>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_map(
        other
            .iter()
            .filter(|(field, _)| !FIELDS.contains(&field.as_str())),
    )
}

const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();

type Fields = BTreeMap<String, RawJson>;

fn required(fields: &mut Fields, field: &'static str) -> Result<String, InvalidInstance> {
    text(fields, field)?.ok_or_else(|| InvalidInstance::Field {
        field,
        reason: "is missing".to_owned(),
    })
}

/// Removes a field that is text; `None` if it is missing or null.
fn text(fields: &mut Fields, field: &'static str) -> Result<Option<String>, InvalidInstance> {
    let Some(json) = fields.remove(field).filter(|json| json.as_str() != "null") else {
        return Ok(None);
    };
    let text =
        Text::from_json(json.as_str()).map_err(|_| InvalidInstance::field(field, "a string"))?;
    Ok(Some(text.0))
}

/// Removes a field that is a port.
fn port(fields: &mut Fields, field: &'static str) -> Result<Option<u16>, InvalidInstance> {
    let Some(Integer(Some(port))) = take(fields, field, PORT)? else {
        return Ok(None);
    };
    let port = u16::try_from(port);
    Ok(Some(port.map_err(|_| InvalidInstance::field(field, PORT))?))
}

const PORT: &str = "a port from 0 to 65535";

/// Removes a field; `None` if it is missing.
fn take<T: DeserializeOwned>(
    fields: &mut Fields,
    field: &'static str,
    expected: &str,
) -> Result<Option<T>, InvalidInstance> {
    let Some(json) = fields.remove(field) else {
        return Ok(None);
    };
    serde_json::from_str(json.as_str())
        .map(Some)
        .map_err(|_| InvalidInstance::field(field, expected))
}

#[cfg(test)]
mod tests;
