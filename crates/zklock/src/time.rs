//! Times: on a clock that the processes of one machine share, and that also runs while the machine is
//! suspended; in messages; and in the command line and the configuration file: a number of seconds, or
//! a number with a unit.

use std::time::Duration;

use curator_recipes::client::ClockInstant;
use rustix::time::{ClockId, clock_gettime};
use serde::Deserializer;
use serde::de::{Error, Visitor};

#[cfg(target_os = "linux")]
const CLOCK: ClockId = ClockId::Boottime;
#[cfg(not(target_os = "linux"))]
const CLOCK: ClockId = ClockId::Monotonic;

/// A time since the machine was started, on a clock that also runs while the machine is suspended.
pub(crate) type Moment = Duration;

/// The time since the machine was started.
pub(crate) fn now() -> Moment {
    let now = clock_gettime(CLOCK);
    Duration::new(
        now.tv_sec.unsigned_abs(),
        u32::try_from(now.tv_nsec).unwrap_or(0),
    )
}

/// Formats a duration for messages, rounded down to milliseconds.
pub(crate) fn text(time: Duration) -> String {
    humantime::format_duration(Duration::from_millis(
        time.as_millis().try_into().unwrap_or(u64::MAX),
    ))
    .to_string()
}

/// Converts a moment of the client's clock to this clock. The result is never later than the
/// moment.
pub(crate) fn moment(instant: ClockInstant) -> Moment {
    // Read in this order, so a pause between the two reads makes the result earlier.
    let now = now();
    now + instant.remaining()
}

/// The format of a time, for error messages.
const EXPECTED: &str =
    "a time such as 30, 1.5, 500ms, 2m or 1h30m (a number without a unit means seconds)";

/// Parses a time. A number without a unit means seconds, as with `sleep`, `timeout` and `flock
/// --wait`.
pub(crate) fn parse_time(text: &str) -> Result<Duration, String> {
    let text = text.trim();
    let is_number = text.contains(|c: char| c.is_ascii_digit())
        && !text.contains(|c: char| !matches!(c, '0'..='9' | '.'));
    let time = if is_number {
        humantime::parse_duration(&format!("{text}s"))
    } else {
        humantime::parse_duration(text)
    };
    time.map_err(|error| match error {
        _ if text.starts_with('-') => format!("a time is not negative; expected {EXPECTED}"),
        humantime::DurationError::NumberOverflow => {
            format!("the number is too large, or too precise; expected {EXPECTED}")
        }
        _ => format!("expected {EXPECTED}"),
    })
}

/// Reads a time of the configuration file: text, or a number of seconds. The error does not contain
/// the value.
pub(crate) fn deserialize_time<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Duration>, D::Error> {
    struct TimeVisitor;

    impl Visitor<'_> for TimeVisitor {
        type Value = Duration;

        fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str(EXPECTED)
        }

        fn visit_str<E: Error>(self, text: &str) -> Result<Duration, E> {
            parse_time(text).map_err(E::custom)
        }

        fn visit_i64<E: Error>(self, seconds: i64) -> Result<Duration, E> {
            self.visit_str(&seconds.to_string())
        }

        fn visit_f64<E: Error>(self, seconds: f64) -> Result<Duration, E> {
            self.visit_str(&seconds.to_string())
        }
    }

    deserializer.deserialize_any(TimeVisitor).map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_without_a_unit_means_seconds() {
        for (text, milliseconds) in [
            ("5", 5_000),
            ("0", 0),
            ("1.5", 1_500),
            ("0.25", 250),
            (" 7 ", 7_000),
            ("500ms", 500),
            ("1h30m", 5_400_000),
            ("1.5m", 90_000),
        ] {
            assert_eq!(
                parse_time(text),
                Ok(Duration::from_millis(milliseconds)),
                "{text}"
            );
        }
        assert_eq!(
            parse_time(&u64::MAX.to_string()),
            Ok(Duration::from_secs(u64::MAX))
        );
    }

    #[test]
    fn other_texts_are_refused_with_an_example() {
        for text in [
            "",
            " ",
            "-",
            "-1",
            "-1s",
            "-0.5",
            "soon",
            "5 5",
            "1e3",
            "5x",
            ".",
            "1.2.3",
            "inf",
            "٣",
            "--no-wait",
        ] {
            let error = parse_time(text).unwrap_err();
            assert!(error.contains("such as 30, 1.5, 500ms"), "{text}: {error}");
            assert_eq!(
                error.contains("negative"),
                text.starts_with('-'),
                "{text}: {error}"
            );
        }
        for text in [
            "18446744073709551616",
            "18446744073709551615.5s1s",
            "600000000000y",
            "0.0000000001",
        ] {
            let error = parse_time(text).unwrap_err();
            assert!(
                error.starts_with("the number is too large"),
                "{text}: {error}"
            );
        }
    }
}
