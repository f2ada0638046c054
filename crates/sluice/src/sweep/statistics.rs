//! Mean and 95 % confidence interval of a metric over seeds.
//!
//! Rule: mean ± t · s / √n, where t is the 97.5 % quantile of Student's t with n − 1 degrees of
//! freedom. One value has no interval.

/// 97.5 % quantiles of Student's t for 1 to 30 degrees of freedom.
const QUANTILES: [f64; 30] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
    2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
];

/// A metric over seeds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate {
    pub count: usize,
    pub mean: f64,
    /// Lower and upper end of the confidence interval.
    pub interval: Option<[f64; 2]>,
}

/// Estimates the mean of values; `None` without any.
pub fn estimate(values: &[f64]) -> Option<Estimate> {
    let count = values.len();
    let mean = values.iter().sum::<f64>() / count as f64;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    let interval = (count > 1).then(|| {
        let half = quantile(count - 1) * (squares / (count - 1) as f64 / count as f64).sqrt();
        [mean - half, mean + half]
    });
    (count > 0).then_some(Estimate { count, mean, interval })
}

/// Returns the quantile; beyond the table by the first terms of its expansion around the normal
/// distribution's. Source: M. Abramowitz and I. Stegun, 26.7.5.
fn quantile(freedom: usize) -> f64 {
    const NORMAL: f64 = 1.959_964;
    let n = freedom as f64;
    let beyond = || NORMAL + (NORMAL.powi(3) + NORMAL) / (4.0 * n);
    QUANTILES.get(freedom - 1).copied().unwrap_or_else(beyond)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_are_those_of_the_textbook() {
        assert_eq!(estimate(&[]), None);
        assert_eq!(estimate(&[5.0]), Some(Estimate { count: 1, mean: 5.0, interval: None }));
        let Estimate { mean, interval, .. } = estimate(&[1.0, 2.0, 3.0, 4.0, 5.0]).unwrap();
        let [low, high] = interval.unwrap();
        // s = √2.5, t(4) = 2.776: 2.776 · √(2.5 / 5) = 1.963.
        assert_eq!(mean, 3.0);
        assert!((low - 1.0371).abs() < 1e-3 && (high - 4.9629).abs() < 1e-3, "{low}, {high}");
        assert!((quantile(60) - 2.000).abs() < 0.002 && (quantile(1000) - 1.962).abs() < 0.001);
    }
}
