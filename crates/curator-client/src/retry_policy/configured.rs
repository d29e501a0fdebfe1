//! Reads retry policies from configuration files (`serde`).

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{
    BoundedExponentialBackoffRetry, ExponentialBackoffRetry, InvalidRetryPolicy, LONGEST_SLEEP,
    RetryContext, RetryForever, RetryNTimes, RetryOneTime, RetryPolicy, RetryUntilElapsed,
};
use crate::text::DurationText as Text;

/// A retry policy in a configuration file: any policy of this crate except `BackoffRetry`. Needs
/// the feature `serde`.
///
/// The field `type` names the policy; the other fields are the parameters of its constructor.
/// Durations are text with a unit: `"100ms"`, `"1m 30s"`. Values that the constructor refuses cause
/// the same error when they are read. Missing and unknown fields, and values of the wrong type, are
/// refused too; the error for a wrong type contains the value and the expected type.
///
/// | `type` | fields |
/// |---|---|
/// | `exponential-backoff` | `base_sleep`, `max_retries`; optionally `max_sleep` |
/// | `bounded-exponential-backoff` | `base_sleep`, `max_sleep`, `max_retries` |
/// | `n-times` | `n`, `sleep_between` |
/// | `one-time` | `sleep` |
/// | `until-elapsed` | `max_elapsed`, `sleep_between` |
/// | `forever` | `interval` |
///
/// ```
/// use curator_client::ConfiguredRetryPolicy;
///
/// let text = r#"{ "type": "exponential-backoff", "base_sleep": "100ms", "max_retries": 3 }"#;
/// let policy: ConfiguredRetryPolicy = serde_json::from_str(text)?;
/// let builder = curator_client::CuratorClient::builder("127.0.0.1:2181").retry_policy(policy);
///
/// let absurd = r#"{ "type": "forever", "interval": "0s" }"#;
/// let error = serde_json::from_str::<ConfiguredRetryPolicy>(absurd).unwrap_err();
/// assert_eq!(error.to_string(), "invalid interval 0ns: expected between 1 ms and 24 h");
/// # drop(builder);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Fields", into = "Fields")]
#[non_exhaustive]
pub enum ConfiguredRetryPolicy {
    /// [`ExponentialBackoffRetry`].
    ExponentialBackoff(ExponentialBackoffRetry),
    /// [`BoundedExponentialBackoffRetry`].
    BoundedExponentialBackoff(BoundedExponentialBackoffRetry),
    /// [`RetryNTimes`].
    NTimes(RetryNTimes),
    /// [`RetryOneTime`].
    OneTime(RetryOneTime),
    /// [`RetryUntilElapsed`].
    UntilElapsed(RetryUntilElapsed),
    /// [`RetryForever`].
    Forever(RetryForever),
}

impl RetryPolicy for ConfiguredRetryPolicy {
    fn next_delay(&self, failed: &RetryContext<'_>) -> Option<Duration> {
        match self {
            Self::ExponentialBackoff(policy) => policy.next_delay(failed),
            Self::BoundedExponentialBackoff(policy) => policy.next_delay(failed),
            Self::NTimes(policy) => policy.next_delay(failed),
            Self::OneTime(policy) => policy.next_delay(failed),
            Self::UntilElapsed(policy) => policy.next_delay(failed),
            Self::Forever(policy) => policy.next_delay(failed),
        }
    }
}

/// The content of the file, not validated yet.
#[derive(Serialize, Deserialize)]
#[serde(
    tag = "type",
    rename_all = "kebab-case",
    deny_unknown_fields,
    expecting = "a retry policy: a table with the field `type` and the parameters of that type"
)]
enum Fields {
    ExponentialBackoff {
        base_sleep: Text,
        #[serde(skip_serializing_if = "Option::is_none")]
        max_sleep: Option<Text>,
        max_retries: u32,
    },
    BoundedExponentialBackoff {
        base_sleep: Text,
        max_sleep: Text,
        max_retries: u32,
    },
    NTimes {
        n: u32,
        sleep_between: Text,
    },
    OneTime {
        sleep: Text,
    },
    UntilElapsed {
        max_elapsed: Text,
        sleep_between: Text,
    },
    Forever {
        interval: Text,
    },
}

impl TryFrom<Fields> for ConfiguredRetryPolicy {
    type Error = InvalidRetryPolicy;

    fn try_from(fields: Fields) -> Result<Self, InvalidRetryPolicy> {
        Ok(match fields {
            Fields::ExponentialBackoff {
                base_sleep,
                max_sleep,
                max_retries,
            } => {
                let policy = ExponentialBackoffRetry::new(base_sleep.0, max_retries)?;
                Self::ExponentialBackoff(match max_sleep {
                    Some(max_sleep) => policy.with_max_sleep(max_sleep.0)?,
                    None => policy,
                })
            }
            Fields::BoundedExponentialBackoff {
                base_sleep,
                max_sleep,
                max_retries,
            } => {
                let policy =
                    BoundedExponentialBackoffRetry::new(base_sleep.0, max_sleep.0, max_retries)?;
                Self::BoundedExponentialBackoff(policy)
            }
            Fields::NTimes { n, sleep_between } => {
                Self::NTimes(RetryNTimes::new(n, sleep_between.0)?)
            }
            Fields::OneTime { sleep } => Self::OneTime(RetryOneTime::new(sleep.0)?),
            Fields::UntilElapsed {
                max_elapsed,
                sleep_between,
            } => Self::UntilElapsed(RetryUntilElapsed::new(max_elapsed.0, sleep_between.0)?),
            Fields::Forever { interval } => Self::Forever(RetryForever::new(interval.0)?),
        })
    }
}

impl From<ConfiguredRetryPolicy> for Fields {
    fn from(policy: ConfiguredRetryPolicy) -> Self {
        match policy {
            ConfiguredRetryPolicy::ExponentialBackoff(policy) => Self::ExponentialBackoff {
                base_sleep: Text(policy.base_sleep),
                max_sleep: (policy.max_sleep != LONGEST_SLEEP).then_some(Text(policy.max_sleep)),
                max_retries: policy.max_retries,
            },
            ConfiguredRetryPolicy::BoundedExponentialBackoff(BoundedExponentialBackoffRetry {
                curve,
            }) => Self::BoundedExponentialBackoff {
                base_sleep: Text(curve.base_sleep),
                max_sleep: Text(curve.max_sleep),
                max_retries: curve.max_retries,
            },
            ConfiguredRetryPolicy::NTimes(policy) => Self::NTimes {
                n: policy.n,
                sleep_between: Text(policy.sleep_between),
            },
            ConfiguredRetryPolicy::OneTime(policy) => Self::OneTime {
                sleep: Text(policy.sleep),
            },
            ConfiguredRetryPolicy::UntilElapsed(policy) => Self::UntilElapsed {
                max_elapsed: Text(policy.max_elapsed),
                sleep_between: Text(policy.sleep_between),
            },
            ConfiguredRetryPolicy::Forever(policy) => Self::Forever {
                interval: Text(policy.interval),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);
    const SECOND: Duration = Duration::from_secs(1);

    fn all() -> Vec<(ConfiguredRetryPolicy, &'static str)> {
        use ConfiguredRetryPolicy::{
            BoundedExponentialBackoff, ExponentialBackoff, Forever, NTimes, OneTime, UntilElapsed,
        };
        let exponential = ExponentialBackoffRetry::new(100 * MS, 3).unwrap();
        let bounded = BoundedExponentialBackoffRetry::new(100 * MS, 2 * SECOND, 29).unwrap();
        vec![
            (
                ExponentialBackoff(exponential.clone()),
                r#"{"type":"exponential-backoff","base_sleep":"100ms","max_retries":3}"#,
            ),
            (
                ExponentialBackoff(exponential.with_max_sleep(90 * SECOND).unwrap()),
                r#"{"type":"exponential-backoff","base_sleep":"100ms","max_sleep":"1m 30s","max_retries":3}"#,
            ),
            (
                BoundedExponentialBackoff(bounded),
                r#"{"type":"bounded-exponential-backoff","base_sleep":"100ms","max_sleep":"2s","max_retries":29}"#,
            ),
            (
                NTimes(RetryNTimes::new(2, 50 * MS).unwrap()),
                r#"{"type":"n-times","n":2,"sleep_between":"50ms"}"#,
            ),
            (
                OneTime(RetryOneTime::new(SECOND).unwrap()),
                r#"{"type":"one-time","sleep":"1s"}"#,
            ),
            (
                UntilElapsed(RetryUntilElapsed::new(60 * SECOND, SECOND).unwrap()),
                r#"{"type":"until-elapsed","max_elapsed":"1m","sleep_between":"1s"}"#,
            ),
            (
                Forever(RetryForever::new(SECOND).unwrap()),
                r#"{"type":"forever","interval":"1s"}"#,
            ),
        ]
    }

    #[test]
    fn every_policy_round_trips_through_json_and_toml() {
        for (policy, text) in all() {
            assert_eq!(serde_json::to_string(&policy).unwrap(), text);
            assert_eq!(
                serde_json::from_str::<ConfiguredRetryPolicy>(text).unwrap(),
                policy
            );
            let file = toml::to_string(&policy).unwrap();
            assert_eq!(
                toml::from_str::<ConfiguredRetryPolicy>(&file).unwrap(),
                policy,
                "{file}"
            );
        }
    }

    #[test]
    fn a_configured_policy_returns_the_delays_of_its_inner_policy() {
        let policy: ConfiguredRetryPolicy =
            toml::from_str("type = 'until-elapsed'\nmax_elapsed = '10s'\nsleep_between = '3s'")
                .unwrap();
        assert_eq!(
            policy.next_delay(&RetryContext::new(3, 9 * SECOND)),
            Some(SECOND)
        );
        assert_eq!(policy.next_delay(&RetryContext::new(4, 10 * SECOND)), None);
        for (policy, _) in all() {
            let limit = if matches!(policy, ConfiguredRetryPolicy::Forever(_)) {
                u32::MAX
            } else {
                29
            };
            assert!(
                policy
                    .next_delay(&RetryContext::new(0, Duration::ZERO))
                    .is_some(),
                "{policy:?}"
            );
            assert_eq!(
                policy
                    .next_delay(&RetryContext::new(limit, 60 * SECOND))
                    .is_some(),
                limit == u32::MAX,
                "{policy:?}"
            );
        }
    }

    #[test]
    fn an_invalid_configured_policy_is_refused_with_the_reason() {
        for (text, reason) in [
            (
                r#"{"type":"exponential-backoff","base_sleep":"2s","max_sleep":"1s","max_retries":3}"#,
                "invalid max_sleep 1s: expected at least the base sleep",
            ),
            (
                r#"{"type":"until-elapsed","max_elapsed":"1s","sleep_between":"2s"}"#,
                "invalid max_elapsed 1s: expected at least the sleep between two attempts",
            ),
            (
                r#"{"type":"one-time","sleep":"100"}"#,
                "invalid value: string \"100\", expected a duration with its unit, such as \"100ms\" or \"1m 30s\"",
            ),
            (
                r#"{"type":"forever","interval":null}"#,
                "invalid type: null, expected a duration with its unit",
            ),
            (
                r#"{"type":"forever","interval":"1s","jitter":true}"#,
                "unknown field `jitter`, expected `interval`",
            ),
            (
                r"5",
                "invalid type: integer `5`, expected a retry policy: a table with the field `type`",
            ),
        ] {
            let error = serde_json::from_str::<ConfiguredRetryPolicy>(text)
                .unwrap_err()
                .to_string();
            assert!(error.starts_with(reason), "{text}: {error}");
        }
    }
}
