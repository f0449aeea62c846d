//! A wait for bytes that another task ends. No byte is lost: what has come stays in the stream, or is returned.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::io;
use std::pin::{Pin, pin};
use std::task::{Poll, Waker};

use super::{Kind, Stream, is_not_yet, when_readable};
use crate::mem::Parts;
use crate::real::Op;

/// Ends the waits of one reader. It stays in force until it is [lifted](Interrupt::lift).
#[derive(Default)]
pub struct Interrupt {
    asked: Cell<bool>,
    reader: RefCell<Option<Waker>>,
}

impl Interrupt {
    /// Ends the wait that is under way, and those to come.
    pub fn ask(&self) {
        self.asked.set(true);
        self.reader.borrow_mut().take().into_iter().for_each(Waker::wake);
    }

    /// Lets reads wait again.
    pub fn lift(&self) {
        self.asked.set(false);
    }

    /// Polls `wait` until it is ready; none if the interrupt comes first. `wait` can be polled again then.
    async fn or<T>(&self, mut wait: Pin<&mut impl Future<Output = T>>) -> Option<T> {
        poll_fn(|cx| {
            if let Poll::Ready(value) = wait.as_mut().poll(cx) {
                return Poll::Ready(Some(value));
            }
            if self.asked.get() {
                return Poll::Ready(None);
            }
            self.reader.borrow_mut().get_or_insert_with(|| cx.waker().clone()).clone_from(cx.waker());
            Poll::Pending
        })
        .await
    }
}

fn interrupted() -> io::Error {
    io::ErrorKind::Interrupted.into()
}

impl Stream {
    /// Reads as [`Stream::read`] does. A read that would have to wait under an interrupt fails with `Interrupted`, and
    /// has read nothing then.
    pub async fn read_unless(&self, parts: impl Into<Parts>, interrupt: &Interrupt) -> (Parts, io::Result<usize>) {
        let mut parts = parts.into();
        match &self.0 {
            Kind::Pipe { reads, .. } => {
                let read = interrupt.or(pin!(reads.read(&mut parts))).await;
                (parts, read.ok_or_else(interrupted))
            }
            Kind::Socket { kernel, fd, eager } => {
                // Under an interrupt, what is there is read without a wait.
                if eager.tries() || interrupt.asked.get() {
                    let received = crate::real::receive_now(fd, &mut parts);
                    let was_there = !is_not_yet(&received);
                    eager.note(was_there);
                    if was_there {
                        return (parts, received);
                    }
                }
                if !kernel.cancels() {
                    return self.read_when_readable(parts, interrupt).await;
                }
                let mut read = pin!(kernel.start(Op::Read { fd: fd.clone(), at: None, parts }));
                let outcome = match interrupt.or(read.as_mut()).await {
                    Some(outcome) => outcome,
                    None => {
                        read.cancel();
                        read.await
                    }
                };
                match outcome {
                    Ok(outcome) => {
                        let cancelled = |e: io::Error| match e.raw_os_error() {
                            Some(libc::ECANCELED | libc::EINTR) => interrupted(),
                            _ => e,
                        };
                        (outcome.op.into_parts(), outcome.result.map(|n| n as usize).map_err(cancelled))
                    }
                    Err(error) => (Parts::new(), Err(error)),
                }
            }
        }
    }

    /// The same where a read that has begun cannot be ended: it begins when it need not wait.
    async fn read_when_readable(&self, mut parts: Parts, interrupt: &Interrupt) -> (Parts, io::Result<usize>) {
        let Kind::Socket { kernel, fd, .. } = &self.0 else { return self.read_into(parts).await };
        let received = when_readable(kernel, fd, || crate::real::receive_now(fd, &mut parts));
        let received = interrupt.or(pin!(received)).await.unwrap_or_else(|| Err(interrupted()));
        (parts, received)
    }
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use esker_base::Nanos;

    use super::*;
    use crate::Rt;
    use crate::mem::Slice;
    use crate::net::{pipe, tests::local_pair};
    use crate::real::{Backend, Reactor, RealConfig};
    use crate::sim::{SimConfig, twice};

    /// A reader that waits is interrupted; what comes later is read by the next reader, all of it.
    async fn scenario(rt: Rt, near: Stream, far: Stream) -> Vec<u8> {
        let interrupt = Rc::new(Interrupt::default());
        let (own, stream) = (interrupt.clone(), near.clone());
        let waits = rt.spawn("reader", async move {
            let (parts, read) = stream.read_unless(vec![Slice::heap(vec![0; 8])], &own).await;
            (parts.len(), read.map_err(|e| e.kind()))
        });
        rt.sleep(Nanos::millis(5)).await;
        interrupt.ask();
        assert_eq!(waits.await, (1, Err(io::ErrorKind::Interrupted)));
        far.write_all(vec![Slice::heap(b"abcd".to_vec())]).await.unwrap();
        rt.sleep(Nanos::millis(5)).await;
        // What is there needs no wait.
        let (parts, read) = near.read_unless(vec![Slice::heap(vec![0; 2])], &interrupt).await;
        assert_eq!((read.unwrap(), parts[0].bytes()), (2, &b"ab"[..]));
        interrupt.lift();
        let (parts, read) = near.read_unless(vec![Slice::heap(vec![0; 8])], &interrupt).await;
        parts[0].bytes()[..read.unwrap()].to_vec()
    }

    #[test]
    fn an_interrupted_read_loses_no_byte() {
        let read = twice(SimConfig::seeded(1), |rt| async move {
            let (near, far) = pipe(64);
            scenario(rt, near, far).await
        });
        assert_eq!(read, b"cd");
        for backend in [Backend::Uring, Backend::Threads] {
            let reactor = Reactor::new(RealConfig { backend, ..RealConfig::seeded(1) }).unwrap();
            let rt = reactor.rt();
            let read = reactor.block_on(async move {
                let (near, far) = local_pair(&rt);
                scenario(rt, near, far).await
            });
            assert_eq!(read, b"cd", "{backend:?}");
        }
    }
}
