//! Tests of the JSON of instances.

use serde::{Deserialize, Serialize};

use super::*;

const ID: &str = "6cbea0b1-1c0b-4b5c-9c3b-0123456789ab";

/// JSON as Curator 5.9 writes it.
fn java(payload: &str) -> String {
    format!(
        "{{\"name\":\"orders\",\"id\":\"{ID}\",\"address\":\"10.0.0.7\",\"port\":8080,\"sslPort\":null,\"payload\":{payload},\
         \"registrationTimeUTC\":1700000000123,\"serviceType\":\"DYNAMIC\",\"uriSpec\":{{\"parts\":[\
         {{\"value\":\"scheme\",\"variable\":true}},{{\"value\":\"://\",\"variable\":false}},\
         {{\"value\":\"address\",\"variable\":true}},{{\"value\":\":\",\"variable\":false}},\
         {{\"value\":\"port\",\"variable\":true}}]}}}}"
    )
}

fn instance() -> ServiceInstance {
    completed(ServiceInstance::new("orders"))
}

fn instance_with<P>(payload: P) -> ServiceInstance<P> {
    completed(ServiceInstance::with_payload("orders", payload))
}

fn completed<P>(instance: ServiceInstance<P>) -> ServiceInstance<P> {
    let instance = instance.id(ID).address("10.0.0.7").port(8080);
    let instance = instance.uri_spec("{scheme}://{address}:{port}");
    ServiceInstance { registration_time_utc: 1_700_000_000_123, ..instance }
}

fn written<P: Payload>(instance: &ServiceInstance<P>) -> String {
    String::from_utf8(instance.to_json().unwrap()).unwrap()
}

fn read<P: Payload>(json: &str) -> Result<ServiceInstance<P>, InvalidInstance> {
    ServiceInstance::from_json(json.as_bytes())
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Details {
    zone: String,
}

impl Payload for Details {
    const JAVA_CLASS: Option<&'static str> = Some("com.example.Details");
}

/// A payload with a Java class: an object without fields, or a number.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
enum Odd {
    Empty {},
    Number(u8),
}

impl Payload for Odd {
    const JAVA_CLASS: Option<&'static str> = Some("com.example.Odd");
}

#[test]
fn instances_are_written_as_javas_json() {
    assert_eq!(written(&instance()), java("null"));
    assert_eq!(written(&instance_with("a \"b\"".to_owned())), java(r#""a \"b\"""#));
    let details = Details { zone: "z".to_owned() };
    assert_eq!(written(&instance_with(details)), java(r#"{"@class":"com.example.Details","zone":"z"}"#));
    assert_eq!(written(&instance_with(Odd::Empty {})), java(r#"{"@class":"com.example.Odd"}"#));
    let error = instance_with(Odd::Number(7)).to_json().unwrap_err();
    let InvalidInstance::Field { field: "payload", reason } = error else { panic!("{error}") };
    assert!(reason.contains("com.example.Odd") && reason.contains('7'), "{reason}");
    let bare = ServiceInstance { registration_time_utc: 0, ..ServiceInstance::new("a").id("b") };
    let json = r#"{"name":"a","id":"b","address":null,"port":null,"sslPort":null,"payload":null,"registrationTimeUTC":0,"serviceType":"DYNAMIC","uriSpec":null}"#;
    assert_eq!(written(&bare), json);
    assert_eq!(read(json), Ok(bare));
}

#[test]
fn an_instance_that_is_read_and_written_again_keeps_all_its_json() {
    let payload = r#"{ "@class" : "com.example.Other", "n": 1.10, "big": 123456789012345678901234567890, "n": [] }"#;
    let json = java(payload).replace("}]}}", "}]},\"zz\":{\"b\":1e400,\"a\":[1]},\"enabled\":false,\"aa\":null}");
    let read: ServiceInstance = read(&json).unwrap();
    assert!(!read.enabled);
    assert_eq!(read.payload.as_ref().unwrap().as_str(), payload);
    // Unknown fields are written last, sorted.
    let unknown = r#","zz":{"b":1e400,"a":[1]},"enabled":false,"aa":null}"#;
    let expected = json.replace(unknown, r#","enabled":false,"aa":null,"zz":{"b":1e400,"a":[1]}}"#);
    assert_eq!(written(&read), expected);
}

#[test]
fn missing_fields_have_their_defaults() {
    let minimal: ServiceInstance = read(r#"{"id":"b","name":"a","serviceType":null}"#).unwrap();
    assert_eq!((minimal.enabled, minimal.service_type, minimal.registration_time_utc), (true, ServiceType::Dynamic, 0));
    let last: ServiceInstance = read(r#"{"id":"b","name":"a","port":1,"port":2,"serviceType":"PERMANENT"}"#).unwrap();
    assert_eq!((last.port, last.service_type), (Some(2), ServiceType::Permanent));
}

#[test]
fn a_payload_is_read_as_the_requested_type() {
    let object = java(r#"{"@class":"com.example.Details","zone":"z"}"#);
    assert_eq!(read::<Details>(&object).unwrap().payload, Some(Details { zone: "z".to_owned() }));
    let error = read::<String>(&object).unwrap_err();
    assert!(matches!(error, InvalidInstance::Field { field: "payload", .. }), "{error}");
    assert_eq!(read::<String>(&java("\"text\"")).unwrap().payload.as_deref(), Some("text"));
    assert_eq!(read::<String>(&java("null")).unwrap().payload, None);
    let raw = read::<RawJson>(&object).unwrap().payload.unwrap();
    assert_eq!(raw.parse::<Details>().unwrap().zone, "z");
    assert!(raw.parse::<u8>().is_err());
    assert_eq!(RawJson::new(&[1, 2]).unwrap().as_str(), "[1,2]");
}

#[test]
fn an_invalid_instance_is_an_error_that_names_the_field() {
    for json in ["", "[]", "{", "\"a\"", "\u{1}"] {
        let error = read::<RawJson>(json).unwrap_err();
        assert!(matches!(error, InvalidInstance::NotAnObject { .. }), "{json}: {error}");
    }
    let fields = [
        ("name", r#"{"id":"b"}"#),
        ("id", r#"{"name":"a","id":null}"#),
        ("port", r#"{"name":"a","id":"b","port":70000}"#),
        ("serviceType", r#"{"name":"a","id":"b","serviceType":"OTHER"}"#),
    ];
    for (wanted, json) in fields {
        let error = read::<RawJson>(json).unwrap_err();
        assert!(matches!(error, InvalidInstance::Field { field, .. } if field == wanted), "{json}: {error}");
    }
    assert!(ServiceInstance::<RawJson>::from_json(b"{\"name\":\"\xff\"}").is_err());
}

#[test]
fn the_uri_is_built_from_the_uri_spec() {
    assert_eq!(instance().uri().unwrap().unwrap(), "http://10.0.0.7:8080");
    let secure =
        instance().ssl_port(8443).uri_spec("{scheme}://{ address }:{ssl-port}/{name}/{id}?{service-type}{[}{]}{");
    assert_eq!(secure.uri().unwrap().unwrap(), format!("https://10.0.0.7:8443/orders/{ID}?dynamic{{}}{{"));
    assert_eq!(instance().uri_spec("{registration-time-utc}").uri().unwrap().unwrap(), "1700000000123");
    assert_eq!(ServiceInstance::new("orders").uri(), Ok(None));
    for variable in ["ssl-port", "other"] {
        let error = instance().uri_spec(&format!("a{{{variable}}}")).uri().unwrap_err();
        assert_eq!(error, InvalidInstance::NoValue { variable: variable.to_owned() });
    }
}
