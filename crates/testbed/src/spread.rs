//! The middle of repeated measurements, and how far they are apart.

/// Median, least and greatest of some numbers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spread {
    /// The number in the middle; of an even number of them, the mean of the two in the middle.
    pub median: f64,
    /// The lower end of the range.
    pub least: f64,
    /// The upper end of the range.
    pub greatest: f64,
}

impl Spread {
    /// Returns nothing without numbers.
    pub fn of(numbers: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut sorted: Vec<f64> = numbers.into_iter().collect();
        sorted.sort_by(f64::total_cmp);
        let (least, greatest) = (*sorted.first()?, *sorted.last()?);
        let middle = sorted.len() / 2;
        let median =
            if sorted.len() % 2 == 1 { sorted[middle] } else { (sorted[middle - 1] + sorted[middle]) / 2.0 };
        Some(Self { median, least, greatest })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_an_even_number_is_between_the_two_in_the_middle() {
        assert_eq!(Spread::of([4.0, 1.0, 2.0, 3.0]), Some(Spread { median: 2.5, least: 1.0, greatest: 4.0 }));
        assert_eq!(Spread::of([]), None);
    }
}
