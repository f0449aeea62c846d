//! What a service manager is told: ready, alive, stopping (the protocol of systemd's sd_notify). Without one, nothing.

use std::future::Future;
use std::time::Duration;

use esker_base::Nanos;
use esker_rt::Rt;
use sd_notify::NotifyState;

/// Without a listener, and when the listener has gone, there is nothing to notify.
fn notify_manager(state: &NotifyState<'_>) {
    let _unheard = sd_notify::notify(std::slice::from_ref(state));
}

/// Says that clients may connect, and from then on, as often as was asked for, that the reactor turns: a server that
/// hangs is restarted.
///
/// `degraded` is a line for an operator about what cannot be used, if anything.
pub fn ready(rt: &Rt, degraded: Option<&str>) {
    degraded.into_iter().for_each(|text| notify_manager(&NotifyState::Status(text)));
    notify_manager(&NotifyState::Ready);
    if let Some(period) = sd_notify::watchdog_enabled() {
        let own = rt.clone();
        rt.spawn("watchdog", async move { keep_alive(&own, period).await }).detach();
    }
}

/// Says that process `pid` is the service from now on.
pub fn successor(pid: u32) {
    notify_manager(&NotifyState::MainPid(pid));
}

/// Waits for `asked` and says that the server stops.
pub async fn stopping(asked: impl Future<Output = ()>) {
    asked.await;
    notify_manager(&NotifyState::Stopping);
}

/// Twice as often as needed, so that one late turn does no harm.
async fn keep_alive(rt: &Rt, period: Duration) {
    let pause = Nanos(u64::try_from(period.as_nanos() / 2).unwrap_or(u64::MAX));
    loop {
        rt.sleep(pause).await;
        notify_manager(&NotifyState::Watchdog);
    }
}
