//! Median and spread of several measurements.

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
    /// `None` without values. The median of an even number of values is the mean of the two in the
    /// middle.
    #[must_use]
    pub fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut values: Vec<f64> = values.into_iter().collect();
        values.sort_by(f64::total_cmp);
        let (least, most) = (*values.first()?, *values.last()?);
        let (low, high) = (values[(values.len() - 1) / 2], values[values.len() / 2]);
        Some(Self {
            median: f64::midpoint(low, high),
            least,
            most,
        })
    }

    /// The spread of the inverse of each value: of rates, if these are times.
    #[must_use]
    pub fn inverse(self) -> Self {
        Self {
            median: 1.0 / self.median,
            least: 1.0 / self.most,
            most: 1.0 / self.least,
        }
    }
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
}
