//! Tests of the JSON of instances.

use std::fmt::Debug;

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
    ServiceInstance {
        registration_time_utc: 1_700_000_000_123,
        ..instance
    }
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
    assert_eq!(
        written(&instance_with("a \"b\"".to_owned())),
        java(r#""a \"b\"""#)
    );
    let details = Details {
        zone: "z".to_owned(),
    };
    assert_eq!(
        written(&instance_with(details)),
        java(r#"{"@class":"com.example.Details","zone":"z"}"#)
    );
    assert_eq!(
        written(&instance_with(Odd::Empty {})),
        java(r#"{"@class":"com.example.Odd"}"#)
    );
    let error = instance_with(Odd::Number(7)).to_json().unwrap_err();
    let InvalidInstance::Field {
        field: "payload",
        reason,
    } = error
    else {
        panic!("{error}")
    };
    assert!(
        reason.contains("com.example.Odd") && !reason.contains('7'),
        "{reason}"
    );
    let bare = ServiceInstance {
        registration_time_utc: 0,
        ..ServiceInstance::new("a").id("b")
    };
    let json = r#"{"name":"a","id":"b","address":null,"port":null,"sslPort":null,"payload":null,"registrationTimeUTC":0,"serviceType":"DYNAMIC","uriSpec":null}"#;
    assert_eq!(written(&bare), json);
    assert_eq!(read(json), Ok(bare));
}

#[test]
fn an_instance_that_is_read_and_written_again_keeps_all_its_json() {
    let payload = r#"{ "@class" : "com.example.Other", "n": 1.10, "big": 123456789012345678901234567890, "n": [] }"#;
    let json = java(payload).replace(
        "}]}}",
        "}]},\"zz\":{\"b\":1e400,\"a\":[1]},\"enabled\":false,\"aa\":null}",
    );
    let read: ServiceInstance = read(&json).unwrap();
    assert!(!read.enabled);
    assert_eq!(read.payload.as_ref().unwrap().as_str(), payload);
    // Unknown fields are written last, sorted.
    let unknown = r#","zz":{"b":1e400,"a":[1]},"enabled":false,"aa":null}"#;
    let expected = json.replace(
        unknown,
        r#","enabled":false,"aa":null,"zz":{"b":1e400,"a":[1]}}"#,
    );
    assert_eq!(written(&read), expected);
}

#[test]
fn missing_fields_have_their_defaults() {
    let minimal: ServiceInstance = read(r#"{"id":"b","name":"a","serviceType":null}"#).unwrap();
    assert_eq!(
        (
            minimal.enabled,
            minimal.service_type,
            minimal.registration_time_utc
        ),
        (true, ServiceType::Dynamic, 0)
    );
    let last: ServiceInstance =
        read(r#"{"id":"b","name":"a","port":1,"port":2,"serviceType":"PERMANENT"}"#).unwrap();
    assert_eq!(
        (last.port, last.service_type),
        (Some(2), ServiceType::Permanent)
    );
}

#[test]
fn a_payload_is_read_as_the_requested_type() {
    let object = java(r#"{"@class":"com.example.Details","zone":"z"}"#);
    assert_eq!(
        read::<Details>(&object).unwrap().payload,
        Some(Details {
            zone: "z".to_owned()
        })
    );
    let error = read::<String>(&object).unwrap_err();
    assert!(
        matches!(
            error,
            InvalidInstance::Field {
                field: "payload",
                ..
            }
        ),
        "{error}"
    );
    assert_eq!(
        read::<String>(&java("\"text\""))
            .unwrap()
            .payload
            .as_deref(),
        Some("text")
    );
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
        assert!(
            matches!(error, InvalidInstance::NotAnObject { .. }),
            "{json}: {error}"
        );
    }
    let fields = [
        ("name", r#"{"id":"b"}"#),
        ("id", r#"{"name":"a","id":null}"#),
        ("port", r#"{"name":"a","id":"b","port":70000}"#),
        (
            "serviceType",
            r#"{"name":"a","id":"b","serviceType":"OTHER"}"#,
        ),
    ];
    for (wanted, json) in fields {
        let error = read::<RawJson>(json).unwrap_err();
        assert!(
            matches!(error, InvalidInstance::Field { field, .. } if field == wanted),
            "{json}: {error}"
        );
    }
    assert!(ServiceInstance::<RawJson>::from_json(b"{\"name\":\"\xff\"}").is_err());
}

#[test]
fn the_uri_is_built_from_the_uri_spec() {
    assert_eq!(instance().uri().unwrap().unwrap(), "http://10.0.0.7:8080");
    let secure = instance()
        .ssl_port(8443)
        .uri_spec("{scheme}://{ address }:{ssl-port}/{name}/{id}?{service-type}{[}{]}{");
    assert_eq!(
        secure.uri().unwrap().unwrap(),
        format!("https://10.0.0.7:8443/orders/{ID}?dynamic{{}}{{")
    );
    assert_eq!(
        instance()
            .uri_spec("{registration-time-utc}")
            .uri()
            .unwrap()
            .unwrap(),
        "1700000000123"
    );
    assert_eq!(ServiceInstance::new("orders").uri(), Ok(None));
    let error = |pattern: &str| instance().uri_spec(pattern).uri().unwrap_err();
    assert_eq!(
        error("a{ssl-port}"),
        InvalidInstance::NoValue {
            variable: "ssl-port".to_owned()
        }
    );
    assert_eq!(
        error("a{other}"),
        InvalidInstance::UnknownVariable { part: 1 }
    );
}

/// Checks how these JSON values of a field are read: `None` if that fails.
fn check_values<T: PartialEq + Debug>(
    field: &str,
    get: fn(ServiceInstance) -> T,
    read_as: &[(Option<T>, &[&str])],
) {
    for (expected, values) in read_as {
        for value in *values {
            let found = read::<RawJson>(&format!(r#"{{"id":"b","name":"a","{field}":{value}}}"#));
            assert_eq!(found.ok().map(get), *expected, "{field}: {value}");
        }
    }
}

/// The expected values are from Curator 5.9 with Jackson 2.18.
#[test]
fn fields_are_read_as_java_reads_them() {
    let ports: &[(_, &[_])] = &[
        (Some(None), &["null", r#""""#, r#""  ""#, r#""null""#]),
        (
            Some(Some(8080)),
            &["8080", r#""8080""#, r#"" 8080\n""#, "8080.0", "8080.9"],
        ),
        (Some(Some(0)), &["0", r#""-0""#, "-0.5"]),
        (Some(Some(80)), &[r#""+80""#]),
        (Some(Some(7)), &[r#""007""#]),
        (Some(Some(1000)), &["1e3"]),
        // Java also reads numbers that are no ports.
        (None, &["70000", "-1", "99999999999999999999", "1e400"]),
        (
            None,
            &[
                r#""8080.5""#,
                r#""1e3""#,
                r#""0x10""#,
                r#""x""#,
                "true",
                "[8080]",
                "{}",
            ],
        ),
    ];
    check_values("port", |read| read.port, ports);
    check_values("sslPort", |read| read.ssl_port, ports);
    let times: &[(_, &[_])] = &[
        (Some(0), &["null", r#""""#, r#""null""#]),
        (Some(123), &[r#""123""#, r#"" 123 ""#, "123.9"]),
        (Some(-5), &["-5"]),
        (Some(i64::MAX), &["9223372036854775807"]),
        (
            None,
            &[
                "9.3e18",
                "99999999999999999999",
                r#""99999999999999999999""#,
                r#""123.5""#,
                "true",
            ],
        ),
    ];
    check_values(
        "registrationTimeUTC",
        |read| read.registration_time_utc,
        times,
    );
    let booleans: &[(_, &[_])] = &[
        (
            Some(true),
            &["true", r#""true""#, r#""True""#, r#"" TRUE ""#, "1", "-1"],
        ),
        (
            Some(true),
            &["18446744073709551616", "-9223372036854775809"],
        ),
        (
            Some(false),
            &[
                "null",
                r#""false""#,
                r#""FALSE""#,
                r#""""#,
                r#""  ""#,
                r#""null""#,
                "0",
                "-0",
            ],
        ),
        (
            None,
            &["1.0", "0.0", r#""1""#, r#""yes""#, r#""tRue""#, "[true]"],
        ),
    ];
    check_values("enabled", |read| read.enabled, booleans);
    let types: &[(_, &[_])] = &[
        (Some(ServiceType::Dynamic), &["null", "0", "-0"]),
        (
            Some(ServiceType::Static),
            &[r#""STATIC""#, r#"" STATIC ""#, "1"],
        ),
        (Some(ServiceType::Permanent), &[r#""2""#]),
        (
            Some(ServiceType::DynamicSequential),
            &[r#""DYNAMIC_SEQUENTIAL""#, r#"" 3 ""#],
        ),
        (
            None,
            &[
                "9",
                "-1",
                "1.0",
                "true",
                r#""9""#,
                r#""""#,
                r#""static""#,
                r#""OTHER""#,
            ],
        ),
    ];
    check_values("serviceType", |read| read.service_type, types);
    for text in [
        "5",
        "5.50",
        "1e3",
        "123456789012345678901234567890",
        "true",
        "",
    ] {
        let json = if text.is_empty() { r#""""# } else { text };
        let text = &[
            (Some(text.to_owned()), &[json][..]),
            (None, &["[]", r#"["x"]"#, "{}"]),
        ];
        check_values("address", |read| read.address.unwrap(), text);
        check_values("id", |read| read.id, text);
        check_values("name", |read| read.name, text);
    }
    check_values("address", |read| read.address, &[(Some(None), &["null"])]);
}

/// The expected values are from Curator 5.9 with Jackson 2.18.
#[test]
fn a_uri_spec_is_read_as_java_reads_it() {
    let parts = |parts: &[(&str, bool)]| {
        Some(
            parts
                .iter()
                .map(|&(value, variable): &(&str, bool)| (value.to_owned(), variable))
                .collect::<Vec<_>>(),
        )
    };
    let read_as: &[(_, &[_])] = &[
        // Java keeps the nulls.
        (
            parts(&[]),
            &[
                "{}",
                r#""""#,
                r#"{"parts":[],"other":1}"#,
                r#"{"parts":null}"#,
            ],
        ),
        (parts(&[("x", false), ("port", true)]), &[r#""x{port}""#]),
        (parts(&[("a", false)]), &[r#"{"parts":[{"value":"a"}]}"#]),
        (
            parts(&[("a", false)]),
            &[r#"{"parts":[{"value":"a","variable":null,"more":1}]}"#],
        ),
        (
            parts(&[("a", true)]),
            &[r#"{"parts":[{"value":"a","variable":"true"}]}"#],
        ),
        (
            parts(&[("5", true)]),
            &[r#"{"parts":[{"value":5,"variable":1}]}"#],
        ),
        (parts(&[("", true)]), &[r#"{"parts":[{"variable":true}]}"#]),
        (
            parts(&[("", false)]),
            &[r#"{"parts":[{}]}"#, r#"{"parts":[null]}"#],
        ),
        (
            parts(&[("", false)]),
            &[
                r#"{"parts":[{"value":null}]}"#,
                r#"{"parts":[{"variable":-0}]}"#,
            ],
        ),
        (
            None,
            &[r#"{"parts":["a"]}"#, r#"{"parts":{}}"#, "5", "true"],
        ),
    ];
    check_values(
        "uriSpec",
        |read: ServiceInstance| {
            read.uri_spec
                .unwrap()
                .parts
                .iter()
                .map(|part| (part.value.clone(), part.variable))
                .collect()
        },
        read_as,
    );
}

/// Jackson stops after the first value.
#[test]
fn a_byte_order_mark_and_text_after_the_object_are_ignored() {
    for json in [
        "\u{feff}{\"name\":\"a\",\"id\":\"b\"}",
        r#"{"name":"a","id":"b"} more"#,
    ] {
        assert_eq!(read::<RawJson>(json).unwrap().id, "b", "{json}");
    }
    for json in [
        r#"{"name":"a","id":"b",}"#,
        r#"{"name":"a","id":"b","port":00}"#,
    ] {
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
        (
            r#"{"instance_status":"Up","weight":5,"canary":true,"share":0.5}"#,
            true,
        ),
        (r#"{"instance_status":"OUT_OF_SERVICE"}"#, false),
        (r#"{"instance_status":"DOWN"}"#, false),
        (r#"{"instance_status":5}"#, false),
    ] {
        let class = "org.springframework.cloud.zookeeper.discovery.ZookeeperInstance";
        let spring = java(&format!(
            r#"{{"@class":"{class}","id":5,"name":"orders","metadata":{metadata}}}"#
        ));
        let typed = read::<ZookeeperInstance>(&spring).unwrap().payload.unwrap();
        assert_eq!(
            (typed.id.as_deref(), typed.is_in_service()),
            (Some("5"), in_service),
            "{metadata}"
        );
        assert_eq!(
            read::<RawJson>(&spring)
                .unwrap()
                .payload
                .unwrap()
                .is_in_service(),
            in_service,
            "{metadata}"
        );
        let other = java(&format!(
            r#"{{"@class":"com.example.Details","metadata":{metadata}}}"#
        ));
        assert!(
            read::<RawJson>(&other)
                .unwrap()
                .payload
                .unwrap()
                .is_in_service(),
            "{metadata}"
        );
    }
    let weight = java(r#"{"metadata":{"weight":5,"canary":true}}"#);
    let metadata = read::<ZookeeperInstance>(&weight)
        .unwrap()
        .payload
        .unwrap()
        .metadata;
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
        let mut jsons = vec![
            text.clone(),
            format!("[{text}]"),
            format!(r#"{{"id":{{{text}:1}},"name":"a"}}"#),
        ];
        for field in [
            "port",
            "sslPort",
            "registrationTimeUTC",
            "serviceType",
            "enabled",
            "payload",
        ] {
            jsons.push(format!(r#"{{"id":"b","name":"a","{field}":{text}}}"#));
            jsons.push(format!(r#"{{"id":"b","name":"a","{field}":{{{text}:1}}}}"#));
        }
        jsons.push(format!(
            r#"{{"id":"b","name":"a","payload":{{"kind":{text}}}}}"#
        ));
        jsons.push(format!(
            r#"{{"id":"b","name":"a","uriSpec":{{"parts":[{text}]}}}}"#
        ));
        jsons.push(format!(r#"{{"id":"b","name":"a","payload":1,{text}}}"#));
        for json in &jsons {
            let strict = read::<Strict>(json).err();
            for error in [
                strict,
                read::<Quoting>(json).err(),
                read::<RawJson>(json).err(),
            ]
            .into_iter()
            .flatten()
            {
                for shown in [
                    error.to_string(),
                    format!("{error:?}"),
                    format!("{error:#?}"),
                ] {
                    assert!(
                        !shown.contains(MARKER) && !shown.contains("forged") && shown.len() < 400,
                        "{shown:.500}"
                    );
                }
            }
        }
        assert!(read::<Strict>(jsons.last().unwrap()).is_err());
        let pattern = ServiceInstance::new("a")
            .uri_spec(&format!("{{{value}}}"))
            .uri()
            .unwrap_err();
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
    let instance = ServiceInstance::with_payload(MARKER, payload.clone())
        .id(MARKER)
        .address(MARKER)
        .uri_spec(MARKER);
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
