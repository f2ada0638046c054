//! Signals that end a program which has something to remove first.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Result;

/// Returns a flag that is set on SIGINT, SIGTERM or SIGHUP; from then on the
/// program cleans up by itself.
pub fn watch_signals() -> Result<Arc<AtomicBool>> {
    use tokio::signal::unix::{SignalKind, signal};
    let interrupted = Arc::new(AtomicBool::new(false));
    let flag = interrupted.clone();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let _inside = runtime.enter();
    let mut signals =
        [signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?, signal(SignalKind::hangup())?];
    drop(_inside);
    std::thread::spawn(move || {
        runtime.block_on(async {
            let [interrupt, terminate, hangup] = &mut signals;
            tokio::select! { _ = interrupt.recv() => {}, _ = terminate.recv() => {}, _ = hangup.recv() => {} }
        });
        flag.store(true, Ordering::Relaxed);
    });
    Ok(interrupted)
}
