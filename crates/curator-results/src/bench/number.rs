//! Formats numbers.

use crate::bench::statistics::Spread;

/// The text in place of a missing number.
pub const NOTHING: &str = "–";

/// Formats a number with three significant digits, and all digits before the point.
#[must_use]
pub fn number(value: f64) -> String {
    let size = value.abs();
    let digits = match size {
        _ if size >= 99.95 || size == 0.0 => 0,
        _ if size >= 9.995 => 1,
        _ if size >= 0.9995 => 2,
        _ => 3,
    };
    let text = format!("{value:.digits$}");
    let (whole, rest) = text
        .split_once('.')
        .map_or((text.as_str(), String::new()), |(whole, rest)| {
            (whole, format!(".{rest}"))
        });
    grouped(whole) + &rest
}

/// Groups the digits with commas.
fn grouped(whole: &str) -> String {
    let mut text = String::new();
    for (index, digit) in whole.chars().enumerate() {
        if index > 0 && (whole.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

pub(super) fn optional(value: Option<f64>) -> String {
    value.map_or_else(|| NOTHING.to_owned(), number)
}

/// The smallest and the greatest value.
pub(super) fn range(spread: Option<Spread>, scale: f64) -> String {
    let text = |Spread { least, most, .. }| {
        format!("{} to {}", number(least * scale), number(most * scale))
    };
    spread.map_or_else(|| NOTHING.to_owned(), text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_rounded_to_three_digits_with_at_most_three_decimals_and_grouped() {
        let written = [0.0, 0.0496, 0.9999, 1.5, 12.34, 99.96, 1234.5, 1_234_567.0].map(number);
        assert_eq!(
            written,
            [
                "0",
                "0.050",
                "1.00",
                "1.50",
                "12.3",
                "100",
                "1,234",
                "1,234,567"
            ]
        );
    }

    #[test]
    fn a_range_is_scaled() {
        let spread = Spread {
            median: 2000.0,
            least: 1500.0,
            most: 12_000.0,
        };
        assert_eq!(range(Some(spread), 1e-3), "1.50 to 12.0");
        assert_eq!(
            (range(None, 1.0), optional(None)),
            (NOTHING.to_owned(), NOTHING.to_owned())
        );
    }
}
