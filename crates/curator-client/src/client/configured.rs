//! Reads a client's options from configuration files (`serde`).

use serde::Deserialize;

use super::CuratorClientBuilder;
#[cfg(feature = "native")]
use crate::options::Transport;
use crate::retry_policy::ConfiguredRetryPolicy;
use crate::text::DurationText as Text;

/// The options that a file can contain: numbers, durations, names, and the retry policy.
#[derive(Deserialize)]
#[serde(
    deny_unknown_fields,
    expecting = "the options of a client: a table with the field `connect_string`"
)]
pub(super) struct Fields {
    connect_string: String,
    name: Option<String>,
    namespace: Option<String>,
    session_timeout: Option<Text>,
    connection_timeout: Option<Text>,
    close_timeout: Option<Text>,
    operation_timeout: Option<Text>,
    max_request_size: Option<usize>,
    max_requests_in_flight: Option<usize>,
    retry_policy: Option<ConfiguredRetryPolicy>,
    #[cfg(feature = "native")]
    transport: Option<Transport>,
}

impl From<Fields> for CuratorClientBuilder {
    fn from(fields: Fields) -> Self {
        let mut builder = Self::new(fields.connect_string);
        macro_rules! set {
            ($($option:ident $(. $part:tt)?),*) => {
                $(if let Some(value) = fields.$option {
                    builder = builder.$option(value $(. $part)?);
                })*
            };
        }
        set!(
            name,
            namespace,
            max_request_size,
            max_requests_in_flight,
            retry_policy
        );
        set!(
            session_timeout.0,
            connection_timeout.0,
            close_timeout.0,
            operation_timeout.0
        );
        #[cfg(feature = "native")]
        set!(transport);
        builder
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::error::Error;

    fn options_of(file: &str) -> String {
        format!(
            "{:?}",
            toml::from_str::<CuratorClientBuilder>(file).unwrap()
        )
    }

    #[test]
    fn a_configuration_file_sets_the_same_options_as_the_builder_methods() {
        let file = "
            connect_string = 'zk1:2181,zk2:2181/shop'
            name = 'orders'
            namespace = 'stock'
            session_timeout = '10s'
            connection_timeout = '3s'
            close_timeout = '1s 500ms'
            operation_timeout = '4s'
            max_request_size = 4096
            max_requests_in_flight = 100
            retry_policy = { type = 'forever', interval = '1s' }
            transport = 'native'
        ";
        let policy: ConfiguredRetryPolicy =
            toml::from_str("type = 'forever'\ninterval = '1s'").unwrap();
        let builder = CuratorClientBuilder::new("zk1:2181,zk2:2181/shop".to_owned())
            .name("orders")
            .namespace("stock")
            .session_timeout(Duration::from_secs(10))
            .connection_timeout(Duration::from_secs(3))
            .close_timeout(Duration::from_millis(1_500))
            .operation_timeout(Duration::from_secs(4))
            .max_request_size(4_096)
            .max_requests_in_flight(100)
            .retry_policy(policy)
            .transport(Transport::Native);
        assert_eq!(options_of(file), format!("{builder:?}"));
        let default = CuratorClientBuilder::new("zk1:2181".to_owned());
        assert_eq!(
            options_of("connect_string = 'zk1:2181'"),
            format!("{default:?}")
        );
    }

    #[test]
    fn an_invalid_configuration_file_is_refused_with_the_reason() {
        for (file, reason) in [
            (
                "connect_string = 'zk1'\nsession_timeout = 10",
                "invalid type: integer `10`, expected a duration",
            ),
            (
                "connect_string = 'zk1'\nsessionTimeout = '10s'",
                "unknown field `sessionTimeout`, expected one of",
            ),
        ] {
            let error = toml::from_str::<CuratorClientBuilder>(file)
                .unwrap_err()
                .to_string();
            assert!(error.contains(reason), "{file}: {error}");
        }
        let builder: CuratorClientBuilder =
            toml::from_str("connect_string = 'zk1:2181'\nsession_timeout = '1ms'").unwrap();
        // The value is checked when the client starts, like a value that the builder's method has
        // set.
        assert!(matches!(
            builder.start(),
            Err(Error::InvalidOption {
                option: "session timeout",
                ..
            })
        ));
    }
}
