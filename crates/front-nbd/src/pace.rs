//! When replies leave: a client that is still busy with earlier ones gets the next ones together.

use esker_base::{Nanos, Time};
use esker_rt::Rt;

use crate::link::Link;

/// A client that takes nothing for so long is not waited for.
const PATIENCE: Nanos = Nanos::micros(30);
/// Holds in vain make the next batches leave at once: at most this many.
const PAUSE_MAX: u32 = 255;
/// A client that had taken everything so many times in a row waits for each reply: it is looked at only now and then,
/// because a look is a system call.
const IDLE_MIN: u32 = 8;
/// Batches to such a client that leave without a look.
const IDLE_PAUSE: u32 = 7;

/// Holds batches back while the other end has more to take than the last one. Many small buffers cost it, and us, more
/// than a few large ones, and it cannot be faster than it is. One that waits for its reply has taken all before it, so
/// nothing is ever held back from it.
pub(crate) struct Pace {
    rt: Rt,
    link: Link,
    /// Memory that was there before the last batch, and of that batch alone.
    before: usize,
    last: usize,
    /// Batches that will leave at once, and how many there were after the last hold in vain.
    pause: u32,
    pause_last: u32,
    /// How often in a row it had taken everything.
    idle: u32,
}

impl Pace {
    pub(crate) fn new(rt: &Rt, link: Link) -> Pace {
        Pace { rt: rt.clone(), link, before: 0, last: 0, pause: 0, pause_last: 0, idle: 0 }
    }

    /// Waits until the next batch shall leave, at most as long as `more` may be added to it.
    pub(crate) async fn hold(&mut self, more: impl Fn() -> bool) {
        if self.pause > 0 {
            self.pause -= 1;
            return;
        }
        self.before = self.link.untaken();
        self.idle = if self.before == 0 { self.idle + 1 } else { 0 };
        if self.idle >= IDLE_MIN {
            (self.idle, self.pause) = (IDLE_MIN - 1, IDLE_PAUSE);
        }
        if self.before <= self.last || !more() {
            return;
        }
        let in_vain = self.wait(more).await;
        self.pause_last = if in_vain { (self.pause_last * 2 + 1).min(PAUSE_MAX) } else { 0 };
        self.pause = self.pause_last;
    }

    /// Whether the other end stopped taking meanwhile.
    async fn wait(&mut self, more: impl Fn() -> bool) -> bool {
        let mut seen: Time = self.rt.now();
        while more() && self.before > self.last {
            self.rt.yield_now().await;
            let left = self.link.untaken();
            let now = self.rt.now();
            if left < self.before {
                (self.before, seen) = (left, now);
            } else if now.since(seen) >= PATIENCE {
                return true;
            }
        }
        false
    }

    /// A batch has left.
    pub(crate) fn sent(&mut self) {
        if self.pause == 0 {
            self.last = self.link.untaken().saturating_sub(self.before);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use esker_rt::mem::Slice;
    use esker_rt::net::{Address, Listener, Stream};
    use esker_rt::real::{Reactor, RealConfig};

    const BATCH: usize = 4096;

    /// Sends a batch as an outbox does.
    async fn send(pace: &mut Pace, more: bool) {
        pace.hold(|| more).await;
        pace.link.write_all(Slice::heap(vec![0; BATCH]).into()).await.unwrap();
        pace.sent();
    }

    #[test]
    fn batches_are_held_back_from_a_busy_reader_alone_and_not_for_long_from_an_idle_one() {
        let dir = tempfile::tempdir().unwrap();
        let address = Address::Unix(dir.path().join("sock"));
        let reactor = Reactor::new(RealConfig::seeded(1)).unwrap();
        let rt = reactor.rt();
        reactor.block_on(async move {
            let listener = Listener::bind(&rt, &address).unwrap();
            let near = Stream::connect(&rt, &address).unwrap();
            let far = listener.accept().await.unwrap();
            let take = |batches: usize| far.read_exact(vec![Slice::heap(vec![0; batches * BATCH])]);
            let mut pace = Pace::new(&rt, Link::new(near));
            for _ in 0..3 {
                send(&mut pace, true).await;
                take(1).await.unwrap();
            }
            assert_eq!(pace.pause_last, 0, "a reader that waits for its reply");
            send(&mut pace, true).await;
            send(&mut pace, true).await;
            assert_eq!(pace.pause_last, 0, "one batch may lie there");
            send(&mut pace, false).await;
            assert_eq!(pace.pause_last, 0, "nothing can be added");
            send(&mut pace, true).await;
            assert_eq!((pace.pause_last, pace.pause), (1, 1), "it takes nothing");
            send(&mut pace, true).await;
            send(&mut pace, true).await;
            assert_eq!(pace.pause_last, 3, "each hold in vain makes the next ones rarer");
            take(6).await.unwrap();
            pace.pause = 0;
            send(&mut pace, true).await;
            pace.last = 0;
            let there = far.clone();
            let busy =
                rt.spawn("busy", async move { there.read_exact(vec![Slice::heap(vec![0; BATCH])]).await.is_ok() });
            pace.hold(|| true).await;
            assert!(busy.is_done() && pace.pause_last == 0, "it took what lay there meanwhile");
            for _ in 0..IDLE_MIN {
                send(&mut pace, true).await;
                take(1).await.unwrap();
            }
            assert_eq!(pace.pause, IDLE_PAUSE, "a client that waits for each reply is looked at now and then");
        });
    }
}
