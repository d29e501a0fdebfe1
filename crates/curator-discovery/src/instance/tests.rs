//! Tests of the JSON of instances.

use serde::{Deserialize, Serialize};

use super::*;
use crate::payload::ZookeeperInstance;

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
    assert!(reason.contains("com.example.Odd") && !reason.contains('7'), "{reason}");
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
    let error = |pattern: &str| instance().uri_spec(pattern).uri().unwrap_err();
    assert_eq!(error("a{ssl-port}"), InvalidInstance::NoValue { variable: "ssl-port".to_owned() });
    assert_eq!(error("a{other}"), InvalidInstance::UnknownVariable { part: 1 });
}

/// As Curator 5.9 reads them, with Jackson 2.18: `None` if it fails.
#[test]
fn fields_are_read_as_java_reads_them() {
    fn read_with<T>(field: &str, get: impl Fn(ServiceInstance) -> T) -> Option<T> {
        read::<RawJson>(&format!(r#"{{"id":"b","name":"a",{field}}}"#)).ok().map(get)
    }
    for (json, port) in [
        ("null", Some(None)),
        ("8080", Some(Some(8080))),
        ("0", Some(Some(0))),
        (r#""8080""#, Some(Some(8080))),
        (r#"" 8080\n""#, Some(Some(8080))),
        (r#""+80""#, Some(Some(80))),
        (r#""-0""#, Some(Some(0))),
        (r#""007""#, Some(Some(7))),
        (r#""""#, Some(None)),
        (r#""  ""#, Some(None)),
        (r#""null""#, Some(None)),
        ("8080.0", Some(Some(8080))),
        ("8080.9", Some(Some(8080))),
        ("-0.5", Some(Some(0))),
        ("1e3", Some(Some(1000))),
        // Java also reads numbers that are no ports.
        ("70000", None),
        ("-1", None),
        (r#""8080.5""#, None),
        (r#""1e3""#, None),
        (r#""0x10""#, None),
        (r#""x""#, None),
        ("99999999999999999999", None),
        ("1e400", None),
        ("true", None),
        ("[8080]", None),
        ("{}", None),
    ] {
        assert_eq!(read_with(&format!(r#""port":{json}"#), |read| read.port), port, "{json}");
        assert_eq!(read_with(&format!(r#""sslPort":{json}"#), |read| read.ssl_port), port, "{json}");
    }
    for (json, time) in [
        ("null", Some(0)),
        (r#""123""#, Some(123)),
        (r#"" 12 ""#, Some(12)),
        (r#""""#, Some(0)),
        (r#""null""#, Some(0)),
        ("123.9", Some(123)),
        ("-5", Some(-5)),
        ("9223372036854775807", Some(i64::MAX)),
        ("9.3e18", None),
        ("99999999999999999999", None),
        (r#""99999999999999999999""#, None),
        (r#""123.5""#, None),
        ("true", None),
    ] {
        let field = format!(r#""registrationTimeUTC":{json}"#);
        assert_eq!(read_with(&field, |read| read.registration_time_utc), time, "{json}");
    }
    for (json, enabled) in [
        ("null", Some(false)),
        ("true", Some(true)),
        (r#""true""#, Some(true)),
        (r#""True""#, Some(true)),
        (r#"" TRUE ""#, Some(true)),
        (r#""false""#, Some(false)),
        (r#""FALSE""#, Some(false)),
        (r#""""#, Some(false)),
        (r#""  ""#, Some(false)),
        (r#""null""#, Some(false)),
        ("1", Some(true)),
        ("-1", Some(true)),
        ("0", Some(false)),
        ("-0", Some(false)),
        ("18446744073709551616", Some(true)),
        ("-9223372036854775809", Some(true)),
        ("1.0", None),
        ("0.0", None),
        (r#""1""#, None),
        (r#""yes""#, None),
        (r#""tRue""#, None),
        ("[true]", None),
    ] {
        assert_eq!(read_with(&format!(r#""enabled":{json}"#), |read| read.enabled), enabled, "{json}");
    }
    for (json, service_type) in [
        ("null", Some(ServiceType::Dynamic)),
        (r#""STATIC""#, Some(ServiceType::Static)),
        (r#"" STATIC ""#, Some(ServiceType::Static)),
        (r#""DYNAMIC_SEQUENTIAL""#, Some(ServiceType::DynamicSequential)),
        ("0", Some(ServiceType::Dynamic)),
        ("-0", Some(ServiceType::Dynamic)),
        ("1", Some(ServiceType::Static)),
        (r#""2""#, Some(ServiceType::Permanent)),
        (r#"" 3 ""#, Some(ServiceType::DynamicSequential)),
        ("9", None),
        ("-1", None),
        ("1.0", None),
        ("true", None),
        (r#""9""#, None),
        (r#""""#, None),
        (r#""static""#, None),
        (r#""OTHER""#, None),
    ] {
        let field = format!(r#""serviceType":{json}"#);
        assert_eq!(read_with(&field, |read| read.service_type), service_type, "{json}");
    }
    for (json, text) in [
        ("5", Some("5")),
        ("5.50", Some("5.50")),
        ("1e3", Some("1e3")),
        ("123456789012345678901234567890", Some("123456789012345678901234567890")),
        ("true", Some("true")),
        (r#""""#, Some("")),
        ("[]", None),
        (r#"["x"]"#, None),
        ("{}", None),
    ] {
        assert_eq!(read_with(&format!(r#""address":{json}"#), |read| read.address.unwrap()).as_deref(), text, "{json}");
        assert_eq!(read_with(&format!(r#""id":{json}"#), |read| read.id).as_deref(), text, "{json}");
        assert_eq!(read_with(&format!(r#""name":{json}"#), |read| read.name).as_deref(), text, "{json}");
    }
    assert_eq!(read_with(r#""address":null"#, |read| read.address), Some(None));
}

/// As Curator 5.9 reads it, with Jackson 2.18: `None` if it fails.
#[test]
fn a_uri_spec_is_read_as_java_reads_it() {
    for (json, parts) in [
        (r#"{}"#, Some(vec![])),
        (r#""""#, Some(vec![])),
        (r#""x{port}""#, Some(vec![("x", false), ("port", true)])),
        (r#"{"parts":[],"other":1}"#, Some(vec![])),
        (r#"{"parts":[{"value":"a"}]}"#, Some(vec![("a", false)])),
        (r#"{"parts":[{"value":"a","variable":null,"more":1}]}"#, Some(vec![("a", false)])),
        (r#"{"parts":[{"value":"a","variable":"true"}]}"#, Some(vec![("a", true)])),
        (r#"{"parts":[{"value":5,"variable":1}]}"#, Some(vec![("5", true)])),
        (r#"{"parts":[{"variable":true}]}"#, Some(vec![("", true)])),
        (r#"{"parts":[{}]}"#, Some(vec![("", false)])),
        // Java keeps the nulls.
        (r#"{"parts":null}"#, Some(vec![])),
        (r#"{"parts":[null]}"#, Some(vec![("", false)])),
        (r#"{"parts":[{"value":null}]}"#, Some(vec![("", false)])),
        (r#"{"parts":[{"variable":-0}]}"#, Some(vec![("", false)])),
        (r#"{"parts":["a"]}"#, None),
        (r#"{"parts":{}}"#, None),
        ("5", None),
        ("true", None),
    ] {
        let read = read::<RawJson>(&format!(r#"{{"id":"b","name":"a","uriSpec":{json}}}"#)).ok();
        let spec = read.map(|read| read.uri_spec.unwrap());
        let read = spec.as_ref().map(|spec| spec.parts.iter().map(|part| (&*part.value, part.variable)).collect());
        assert_eq!(read, parts, "{json}");
    }
}

/// Jackson stops after the first value.
#[test]
fn a_byte_order_mark_and_text_after_the_object_are_ignored() {
    for json in ["\u{feff}{\"name\":\"a\",\"id\":\"b\"}", r#"{"name":"a","id":"b"} more"#] {
        assert_eq!(read::<RawJson>(json).unwrap().id, "b", "{json}");
    }
    for json in [r#"{"name":"a","id":"b",}"#, r#"{"name":"a","id":"b","port":00}"#] {
        assert!(read::<RawJson>(json).is_err(), "{json}");
    }
}

/// Spring's clients leave out an instance with a status other than `UP`.
#[test]
fn an_instance_of_spring_that_is_not_up_is_out_of_service() {
    for (metadata, in_service) in [
        ("null", true),
        ("{}", true),
        (r#"{"instance_status":null}"#, true),
        (r#"{"instance_status":""}"#, true),
        (r#"{"instance_status":" \t"}"#, true),
        (r#"{"instance_status":"UP"}"#, true),
        (r#"{"instance_status":"Up","weight":5,"canary":true,"share":0.5}"#, true),
        (r#"{"instance_status":"OUT_OF_SERVICE"}"#, false),
        (r#"{"instance_status":"DOWN"}"#, false),
        (r#"{"instance_status":5}"#, false),
    ] {
        let class = "org.springframework.cloud.zookeeper.discovery.ZookeeperInstance";
        let spring = java(&format!(r#"{{"@class":"{class}","id":5,"name":"orders","metadata":{metadata}}}"#));
        let typed = read::<ZookeeperInstance>(&spring).unwrap().payload.unwrap();
        assert_eq!((typed.id.as_deref(), typed.is_in_service()), (Some("5"), in_service), "{metadata}");
        assert_eq!(read::<RawJson>(&spring).unwrap().payload.unwrap().is_in_service(), in_service, "{metadata}");
        let other = java(&format!(r#"{{"@class":"com.example.Details","metadata":{metadata}}}"#));
        assert!(read::<RawJson>(&other).unwrap().payload.unwrap().is_in_service(), "{metadata}");
    }
    let weight = java(r#"{"metadata":{"weight":5,"canary":true}}"#);
    let metadata = read::<ZookeeperInstance>(&weight).unwrap().payload.unwrap().metadata;
    assert_eq!([&metadata["weight"], &metadata["canary"]], ["5", "true"]);
}

/// `serde_json` quotes values in its messages.
#[test]
fn no_error_contains_a_value_of_the_json() {
    const MARKER: &str = "sw0rdfish";
    #[derive(Clone, Serialize, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Strict {
        kind: ServiceType,
    }
    impl Payload for Strict {}
    /// Its error quotes the value.
    #[derive(Clone, Serialize, Deserialize)]
    #[serde(try_from = "String")]
    struct Quoting;
    impl TryFrom<String> for Quoting {
        type Error = String;
        fn try_from(text: String) -> Result<Self, String> {
            Err(format!("bad value {text}\nWARN forged"))
        }
    }
    impl Payload for Quoting {}
    let long = MARKER.repeat(100_000);
    for value in [MARKER, "sw0rdfish\\nWARN forged \\u001b[2J", &long] {
        let text = format!("\"{value}\"");
        let mut jsons = vec![text.clone(), format!("[{text}]"), format!(r#"{{"id":{{{text}:1}},"name":"a"}}"#)];
        for field in ["port", "sslPort", "registrationTimeUTC", "serviceType", "enabled", "payload"] {
            jsons.push(format!(r#"{{"id":"b","name":"a","{field}":{text}}}"#));
            jsons.push(format!(r#"{{"id":"b","name":"a","{field}":{{{text}:1}}}}"#));
        }
        jsons.push(format!(r#"{{"id":"b","name":"a","payload":{{"kind":{text}}}}}"#));
        jsons.push(format!(r#"{{"id":"b","name":"a","uriSpec":{{"parts":[{text}]}}}}"#));
        jsons.push(format!(r#"{{"id":"b","name":"a","payload":1,{text}}}"#));
        for json in &jsons {
            let strict = read::<Strict>(json).err();
            for error in [strict, read::<Quoting>(json).err(), read::<RawJson>(json).err()].into_iter().flatten() {
                for shown in [error.to_string(), format!("{error:?}"), format!("{error:#?}")] {
                    assert!(!shown.contains(MARKER) && !shown.contains("forged") && shown.len() < 400, "{shown:.500}");
                }
            }
        }
        assert!(read::<Strict>(jsons.last().unwrap()).is_err());
        let pattern = ServiceInstance::new("a").uri_spec(&format!("{{{value}}}")).uri().unwrap_err();
        assert!(!format!("{pattern} {pattern:?}").contains(MARKER));
    }
}

#[test]
fn debug_output_contains_no_value() {
    const MARKER: &str = "sw0rdfish";
    let payload = ZookeeperInstance {
        metadata: BTreeMap::from([(MARKER.to_owned(), MARKER.to_owned())]),
        ..ZookeeperInstance::new(MARKER, MARKER)
    };
    let instance = ServiceInstance::with_payload(MARKER, payload.clone()).id(MARKER).address(MARKER).uri_spec(MARKER);
    let other = BTreeMap::from([(MARKER.to_owned(), RawJson::new(&MARKER).unwrap())]);
    let instance = ServiceInstance { other, ..instance };
    let part = instance.uri_spec.as_ref().unwrap().parts[0].clone();
    let raw = RawJson::new(&MARKER).unwrap();
    let texts = [
        format!("{instance:?} {instance:#?}"),
        format!("{payload:?} {payload:#?}"),
        format!("{:?} {part:?}", instance.uri_spec),
        format!("{raw:?} {raw:#?}"),
    ];
    for text in texts {
        assert!(!text.contains(MARKER), "{text}");
    }
}
