//! Backoff after failed deliveries to a collector.
//!
//! Rule: the delay doubles after each failure in a row, up to a limit. The actual delay is random
//! between half of that and all of it, so that many switches do not reconnect to a collector at the
//! same instant. Source: docs/monitoring/telemetry.md, "Delivery".

use std::time::Duration;

/// Returns the delay after `failures` in a row, 1 or more; `random` is from 0 to 1.
pub fn delay(failures: u32, random: f64, first: Duration, most: Duration) -> Duration {
    let doubled = 1_u32.checked_shl(failures.saturating_sub(1)).unwrap_or(u32::MAX);
    first.saturating_mul(doubled).min(most).mul_f64(0.5 + random.clamp(0.0, 1.0) / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_doubles_up_to_a_limit_and_differs_by_chance() {
        let ms = |failures, random| {
            delay(failures, random, Duration::from_millis(200), Duration::from_secs(10)).as_millis()
        };
        let longest: Vec<_> = (1..=8).map(|failures| ms(failures, 1.0)).collect();
        assert_eq!(longest, [200, 400, 800, 1600, 3200, 6400, 10_000, 10_000]);
        let shortest: Vec<_> = [1, 2, 7, 33, u32::MAX].map(|failures| ms(failures, 0.0)).to_vec();
        assert_eq!(shortest, [100, 200, 5000, 5000, 5000]);
        assert_eq!(ms(1, 0.5), 150);
    }
}
