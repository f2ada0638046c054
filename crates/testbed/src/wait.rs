//! Waiting for conditions, never for a fixed time: a slow machine makes a test slower, not wrong.

use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

/// Time that a test waits for an expected condition. Only a failing test ever waits that long.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// Polls `check` until it returns `Some`. An error, or the end of [`PATIENCE`], is a failure that
/// names `what`.
pub fn eventually<T>(what: &str, mut check: impl FnMut() -> Result<Option<T>>) -> Result<T> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = check().with_context(|| format!("while waiting: {what}"))? {
            return Ok(found);
        }
        if Instant::now() >= deadline {
            bail!("did not happen within {PATIENCE:?}: {what}");
        }
        sleep(Duration::from_millis(20));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn polls_until_the_condition_holds() {
        let mut tries = 0;
        let third = eventually("third time", || {
            tries += 1;
            Ok((tries == 3).then_some(tries))
        });
        assert_eq!(third.expect("comes"), 3);
    }

    #[test]
    fn an_error_ends_the_wait_at_once() {
        let error = eventually::<()>("a thing", || bail!("broken")).expect_err("fails");
        assert_eq!(format!("{error:#}"), "while waiting: a thing: broken");
    }
}
