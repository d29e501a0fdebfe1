//! The payload of an instance: a service's data besides its address.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::DeserializeOwned;
use serde::ser::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

use crate::error::InvalidInstance;

/// The type of a payload.
///
/// Java writes the class of an object into its JSON, as the field `@class`. A Java reader fails if the field is missing
/// or names an unknown class. A string has no class.
///
/// ```
/// use curator_discovery::Payload;
///
/// #[derive(Clone, serde::Serialize, serde::Deserialize)]
/// struct Details {
///     zone: String,
///     weight: u32,
/// }
///
/// impl Payload for Details {
///     // Java programs have this class, with the same fields.
///     const JAVA_CLASS: Option<&'static str> = Some("com.example.Details");
/// }
/// ```
pub trait Payload: Clone + Serialize + DeserializeOwned + Send + Sync + 'static {
    /// The Java class of an object, written as its first field. `None` if no Java program reads it, or the payload is
    /// not an object.
    ///
    /// Ignored when a payload is read: any object with the fields is accepted.
    const JAVA_CLASS: Option<&'static str> = None;
}

impl Payload for String {}

/// JSON text, kept byte for byte.
///
/// Used for payloads of any or unknown type, and for unknown fields of an instance.
#[derive(Clone, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RawJson(Box<RawValue>);

impl Payload for RawJson {}

impl RawJson {
    /// Serializes a value.
    ///
    /// # Errors
    ///
    /// When the value cannot be serialized.
    pub fn new(value: &impl Serialize) -> Result<Self, InvalidInstance> {
        let raw = serde_json::value::to_raw_value(value);
        raw.map(Self).map_err(|error| InvalidInstance::field("payload", &error))
    }

    /// The JSON text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        self.0.get()
    }

    /// Parses the JSON as a type.
    ///
    /// # Errors
    ///
    /// When the JSON does not fit the type.
    pub fn parse<T: DeserializeOwned>(&self) -> Result<T, InvalidInstance> {
        self.parse_field("payload")
    }

    pub(crate) fn parse_field<T: DeserializeOwned>(&self, field: &'static str) -> Result<T, InvalidInstance> {
        serde_json::from_str(self.as_str()).map_err(|error| InvalidInstance::field(field, &error))
    }
}

/// Compares the texts.
impl PartialEq for RawJson {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}

impl Eq for RawJson {}

impl fmt::Debug for RawJson {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The payload of Spring Cloud ZooKeeper, `org.springframework.cloud.zookeeper.discovery.ZookeeperInstance`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ZookeeperInstance {
    /// The id that Spring gives to the instance.
    pub id: Option<String>,
    /// The name of the application.
    pub name: Option<String>,
    /// The entries of Spring's `spring.cloud.zookeeper.discovery.metadata`.
    #[serde(default, deserialize_with = "without_nulls")]
    pub metadata: BTreeMap<String, String>,
}

impl ZookeeperInstance {
    /// A payload without metadata.
    #[must_use]
    pub fn new(id: impl Into<String>, name: impl Into<String>) -> Self {
        Self { id: Some(id.into()), name: Some(name.into()), metadata: BTreeMap::new() }
    }
}

impl Payload for ZookeeperInstance {
    const JAVA_CLASS: Option<&'static str> = Some("org.springframework.cloud.zookeeper.discovery.ZookeeperInstance");
}

/// Reads null as an empty map, and leaves out values that are null: Java may write either.
fn without_nulls<'de, D: Deserializer<'de>>(json: D) -> Result<BTreeMap<String, String>, D::Error> {
    let map = Option::<BTreeMap<String, Option<String>>>::deserialize(json)?.unwrap_or_default();
    Ok(map.into_iter().filter_map(|(key, value)| Some((key, value?))).collect())
}

/// Serializes a payload as Java does.
pub(crate) fn serialize<P: Payload, S: Serializer>(payload: &Option<P>, serializer: S) -> Result<S::Ok, S::Error> {
    payload.as_ref().map(to_raw).transpose().map_err(S::Error::custom)?.serialize(serializer)
}

fn to_raw<P: Payload>(payload: &P) -> serde_json::Result<Box<RawValue>> {
    let raw = serde_json::value::to_raw_value(payload)?;
    let Some(class) = P::JAVA_CLASS else { return Ok(raw) };
    let Some(fields) = raw.get().strip_prefix('{') else {
        let payload: String = raw.get().chars().take(80).collect();
        let reason = format!("a payload of the Java class {class} must be a JSON object, not {payload}");
        return Err(serde::de::Error::custom(reason));
    };
    let comma = if fields == "}" { "" } else { "," };
    RawValue::from_string(format!("{{\"@class\":{}{comma}{fields}", serde_json::to_string(class)?))
}
