//! Numbers of a table: the median and the spread of several measurements, and their format.

/// The median, and the extremes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spread {
    /// The median.
    pub median: f64,
    /// The least value.
    pub least: f64,
    /// The greatest value.
    pub most: f64,
}

impl Spread {
    /// `None` without values. The median of an even number of values is the mean of the two middle
    /// values.
    #[must_use]
    pub fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut values: Vec<f64> = values.into_iter().collect();
        values.sort_by(f64::total_cmp);
        let least = *values.first()?;
        let most = *values.last()?;
        let low = values[(values.len() - 1) / 2];
        let high = values[values.len() / 2];
        Some(Self {
            median: f64::midpoint(low, high),
            least,
            most,
        })
    }

    /// The spread of the inverse of each value: for example, rates from times.
    #[must_use]
    pub fn inverse(self) -> Self {
        Self {
            median: 1.0 / self.median,
            least: 1.0 / self.most,
            most: 1.0 / self.least,
        }
    }
}

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
    spread.map_or_else(
        || NOTHING.to_owned(),
        |Spread { least, most, .. }| {
            format!("{} to {}", number(least * scale), number(most * scale))
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_in_the_middle_and_not_the_mean() {
        assert_eq!(
            Spread::of([9.0, 1.0, 2.0]),
            Some(Spread {
                median: 2.0,
                least: 1.0,
                most: 9.0
            })
        );
        assert_eq!(
            Spread::of([4.0, 1.0, 2.0, 9.0]),
            Some(Spread {
                median: 3.0,
                least: 1.0,
                most: 9.0
            })
        );
        assert_eq!(
            Spread::of([5.0]),
            Some(Spread {
                median: 5.0,
                least: 5.0,
                most: 5.0
            })
        );
        assert_eq!(Spread::of([]), None);
    }

    #[test]
    fn the_slowest_time_is_the_least_rate() {
        let rates = Spread {
            median: 4.0,
            least: 2.0,
            most: 8.0,
        }
        .inverse();
        assert_eq!(
            rates,
            Spread {
                median: 0.25,
                least: 0.125,
                most: 0.5
            }
        );
    }

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
