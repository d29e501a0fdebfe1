//! The payload of an instance: a service's data besides its address.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::DeserializeOwned;
use serde::ser::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

use crate::coercion::{self, Text};
use crate::debug::Length;
use crate::error::InvalidInstance;

/// The type of a payload.
///
/// Java writes the class of an object into its JSON, as the field `@class`. A Java reader fails if
/// the field is missing or names an unknown class. A string has no class.
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
    /// The Java class of an object, written as its first field. `None` if no Java program reads it,
    /// or the payload is not an object.
    ///
    /// Ignored when a payload is read: any object with the fields is accepted.
    const JAVA_CLASS: Option<&'static str> = None;

    /// Whether the payload allows requests to the instance. Providers and load balancers skip an
    /// instance if this is `false`, like one that is not
    /// [enabled](crate::ServiceInstance::enabled). It is called when an instance is read. It must
    /// not ask a cache for the same instances, because the cache would call it again, without end.
    ///
    /// Defaults to `true`. [`ZookeeperInstance`], and the same payload as [`RawJson`], follow
    /// Spring's status.
    fn is_in_service(&self) -> bool {
        true
    }
}

impl Payload for String {}

/// JSON text, kept byte for byte.
///
/// Used for payloads of any or unknown type, and for unknown fields of an instance.
#[derive(Clone, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RawJson(Box<RawValue>);

impl Payload for RawJson {
    fn is_in_service(&self) -> bool {
        #[derive(Deserialize)]
        struct Class {
            #[serde(rename = "@class")]
            class: String,
        }
        let is_spring = serde_json::from_str::<Class>(self.as_str())
            .is_ok_and(|class| class.class == SPRING_CLASS);
        // A payload that does not have Spring's format has no status.
        !is_spring
            || serde_json::from_str(self.as_str())
                .map_or(true, |spring: ZookeeperInstance| spring.is_up())
    }
}

impl RawJson {
    /// Serializes a value.
    ///
    /// # Errors
    ///
    /// When the value cannot be serialized.
    pub fn new(value: &impl Serialize) -> Result<Self, InvalidInstance> {
        serde_json::value::to_raw_value(value)
            .map(Self)
            .map_err(|error| InvalidInstance::unwritable(&error))
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
        serde_json::from_str(self.as_str())
            .map_err(|error| InvalidInstance::payload(std::any::type_name::<T>(), &error))
    }
}

/// Compares the texts.
impl PartialEq for RawJson {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}

impl Eq for RawJson {}

/// Shows the length of the text, not the text.
impl fmt::Debug for RawJson {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("RawJson")
            .field(&Length::of(self.as_str()))
            .finish()
    }
}

/// The payload of Spring Cloud ZooKeeper,
/// `org.springframework.cloud.zookeeper.discovery.ZookeeperInstance`.
///
/// In Spring, the metadata entry `instance_status` takes an instance out of service. As in Spring's
/// load balancer, an instance gets requests if the entry is missing, blank, or `UP` in any case.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ZookeeperInstance {
    /// The id that Spring gives to the instance.
    #[serde(default, deserialize_with = "coercion::optional_text")]
    pub id: Option<String>,
    /// The name of the application.
    #[serde(default, deserialize_with = "coercion::optional_text")]
    pub name: Option<String>,
    /// The entries of Spring's `spring.cloud.zookeeper.discovery.metadata`.
    #[serde(default, deserialize_with = "without_nulls")]
    pub metadata: BTreeMap<String, String>,
}

const SPRING_CLASS: &str = "org.springframework.cloud.zookeeper.discovery.ZookeeperInstance";

impl ZookeeperInstance {
    /// A payload without metadata.
    #[must_use]
    pub fn new(id: impl Into<String>, name: impl Into<String>) -> Self {
        Self {
            id: Some(id.into()),
            name: Some(name.into()),
            metadata: BTreeMap::new(),
        }
    }

    fn is_up(&self) -> bool {
        let status = self.metadata.get("instance_status");
        status.is_none_or(|status| status.trim().is_empty() || status.eq_ignore_ascii_case("UP"))
    }
}

/// Shows the number of entries, without names and values.
impl fmt::Debug for ZookeeperInstance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ZookeeperInstance")
            .field("metadata", &self.metadata.len())
            .finish_non_exhaustive()
    }
}

impl Payload for ZookeeperInstance {
    const JAVA_CLASS: Option<&'static str> = Some(SPRING_CLASS);

    fn is_in_service(&self) -> bool {
        self.is_up()
    }
}

/// Reads null as an empty map, and leaves out values that are null: Java may write either.
fn without_nulls<'de, D: Deserializer<'de>>(json: D) -> Result<BTreeMap<String, String>, D::Error> {
    let map = Option::<BTreeMap<String, Option<Text>>>::deserialize(json)?.unwrap_or_default();
    Ok(map
        .into_iter()
        .filter_map(|(key, value)| Some((key, value?.0)))
        .collect())
}

/// Serializes a payload as Java does.
pub(crate) fn serialize<P: Payload, S: Serializer>(
    payload: &Option<P>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    payload
        .as_ref()
        .map(to_raw)
        .transpose()
        .map_err(S::Error::custom)?
        .serialize(serializer)
}

pub(crate) fn to_raw<P: Payload>(payload: &P) -> Result<Box<RawValue>, InvalidInstance> {
    let unwritable = |error: serde_json::Error| InvalidInstance::unwritable(&error);
    let raw = serde_json::value::to_raw_value(payload).map_err(unwritable)?;
    let Some(class) = P::JAVA_CLASS else {
        return Ok(raw);
    };
    let Some(fields) = raw.get().strip_prefix('{') else {
        let reason = format!("a payload of the Java class {class} must be a JSON object");
        return Err(InvalidInstance::Field {
            field: "payload",
            reason,
        });
    };
    let comma = if fields == "}" { "" } else { "," };
    let class = serde_json::to_string(class).map_err(unwritable)?;
    RawValue::from_string(format!("{{\"@class\":{class}{comma}{fields}")).map_err(unwritable)
}
