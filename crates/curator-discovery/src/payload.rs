//! The payload of an instance: what a service says about itself besides its address.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;

use crate::error::InvalidInstance;

/// A type of payload.
///
/// Java writes the class of an object into it, as the field `@class`, and a Java reader fails without one that it knows. A
/// string has no class.
///
/// ```
/// use curator_discovery::Payload;
///
/// #[derive(serde::Serialize, serde::Deserialize)]
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
pub trait Payload: Serialize + DeserializeOwned + Send + Sync + 'static {
    /// The Java class of an object, which is written as its first field. `None` if no Java program reads it, or it is no object.
    ///
    /// It is not compared when a payload is read: what has the fields is readable.
    const JAVA_CLASS: Option<&'static str> = None;
}

impl Payload for String {}

/// JSON as it was written, byte for byte.
///
/// The payload of an instance whose payload is of any kind, or of no interest; and the fields of an instance that are not known
/// here.
#[derive(Clone, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RawJson(Box<RawValue>);

impl Payload for RawJson {}

impl RawJson {
    /// The JSON of a value.
    ///
    /// # Errors
    ///
    /// When the value cannot be written as JSON.
    pub fn new(value: &impl Serialize) -> Result<Self, InvalidInstance> {
        let raw = serde_json::value::to_raw_value(value);
        raw.map(Self).map_err(|error| InvalidInstance::Field { field: "payload", reason: error.to_string() })
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        self.0.get()
    }

    /// Reads it as a type.
    ///
    /// # Errors
    ///
    /// When it does not fit the type.
    pub fn parse<T: DeserializeOwned>(&self) -> Result<T, InvalidInstance> {
        let parsed = serde_json::from_str(self.as_str());
        parsed.map_err(|error| InvalidInstance::Field { field: "payload", reason: error.to_string() })
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
    /// What Spring's `spring.cloud.zookeeper.discovery.metadata` has.
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

/// Java may write a null in place of a map, or of a value.
fn without_nulls<'de, D: Deserializer<'de>>(json: D) -> Result<BTreeMap<String, String>, D::Error> {
    let map = Option::<BTreeMap<String, Option<String>>>::deserialize(json)?.unwrap_or_default();
    Ok(map.into_iter().filter_map(|(key, value)| Some((key, value?))).collect())
}

/// A payload as Java writes it.
pub(crate) fn to_raw<P: Payload>(payload: &P) -> Result<Box<RawValue>, InvalidInstance> {
    let invalid = |error: serde_json::Error| InvalidInstance::Field { field: "payload", reason: error.to_string() };
    let raw = serde_json::value::to_raw_value(payload).map_err(invalid)?;
    let Some(class) = P::JAVA_CLASS else { return Ok(raw) };
    let Some(fields) = raw.get().strip_prefix('{') else {
        return Err(InvalidInstance::NoRoomForClass { class, payload: raw.get().chars().take(80).collect() });
    };
    let class = serde_json::to_string(class).map_err(invalid)?;
    let comma = if fields == "}" { "" } else { "," };
    RawValue::from_string(format!("{{\"@class\":{class}{comma}{fields}")).map_err(invalid)
}
