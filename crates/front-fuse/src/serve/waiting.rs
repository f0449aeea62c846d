//! Requests that wait for their answer, callers that are interrupted meanwhile, and entries of the ring.

use std::rc::Rc;

use esker_base::Errno;
use esker_block::Step;
use esker_rt::mem::Parts;
use esker_rt::real::FuseEntry;
use esker_rt::sync::{Either, Notify, race};
use esker_vfs::Answer;

use super::{Asked, CacheMode, Session, can_be_given_up, done, finish};
use crate::proto::Request;
use crate::wire::Message;
use crate::wire::ring::{self, RingShape};

/// Interrupts that are kept for requests that are still to come.
const EARLY_MAX: usize = 32;

/// Something that the end of the session waits for.
pub(super) struct UnderWay(Rc<Session>);

impl Drop for UnderWay {
    fn drop(&mut self) {
        let session = &self.0;
        session.waiting.set(session.waiting.get() - 1);
        if session.waiting.get() == 0 {
            session.idle.notify_all();
        }
    }
}

impl Session {
    fn begin(self: &Rc<Self>) -> UnderWay {
        self.waiting.set(self.waiting.get() + 1);
        UnderWay(self.clone())
    }

    /// The answer to a request that waits. An interrupt counts from now on.
    pub(super) fn settle(self: &Rc<Self>, asked: Asked) -> impl Future<Output = Parts> + use<> {
        let Asked { unique, opcode, step } = asked;
        let under_way = self.begin();
        let can_be_given_up = self.config.cache != CacheMode::Devices && can_be_given_up(opcode);
        let given_up = can_be_given_up.then(|| self.listen(unique));
        async move {
            match given_up {
                None => finish(unique, step.await),
                Some(given_up) => under_way.unless_given_up(unique, step, &given_up).await,
            }
        }
    }

    /// What is notified when the caller of a request is interrupted.
    fn listen(&self, unique: u64) -> Rc<Notify> {
        let given_up = Rc::new(Notify::default());
        let mut early = self.early.borrow_mut();
        match early.iter().position(|known| *known == unique) {
            Some(at) => {
                early.remove(at);
                given_up.notify_one();
            }
            None => drop(self.callers.borrow_mut().insert(unique, given_up.clone())),
        }
        given_up
    }

    /// The caller of a request was interrupted. What only reads is answered at once; its work goes on unseen, because
    /// what is below has begun it. A change is not given up: a call that fails has changed nothing.
    pub(super) fn interrupt(&self, unique: u64) {
        if let Some(given_up) = self.callers.borrow_mut().remove(&unique) {
            return given_up.notify_one();
        }
        // Interrupts come by the device, and may be seen before their requests, which come by the ring.
        let mut early = self.early.borrow_mut();
        if early.len() == EARLY_MAX {
            early.pop_front();
        }
        early.push_back(unique);
    }

    /// Hands the entries of a ring to the kernel, each served by a task of its own.
    pub(super) fn start_ring(self: &Rc<Self>, shape: RingShape) {
        for entry in ring::entries(&self.channel, &self.pool, shape) {
            let (session, under_way) = (self.clone(), self.begin());
            self.rt.spawn_detached("fuse-entry", async move {
                session.serve_entry(entry).await;
                drop(under_way);
            });
        }
    }

    async fn serve_entry(self: Rc<Self>, mut entry: FuseEntry) {
        let mut message = Message::default();
        while let Some(mut arrived) = self.channel.fetch(entry).await {
            self.by_ring.set(self.by_ring.get() + 1);
            ring::read(&arrived, &self.pool, &mut message);
            let answer = match self.ask(&mut message) {
                Some(Asked { unique, step: Step::Now(answer), .. }) => finish(unique, answer),
                Some(asked) => self.settle(asked).await,
                // The entry goes back all the same.
                None => done(Request::unique_of(&message.bytes).unwrap_or_default()),
            };
            ring::answer(&mut arrived, &answer, &self.pool);
            entry = arrived;
        }
    }
}

impl UnderWay {
    /// Waits for the answer, or for the end of its caller's patience. Then the work goes on unseen.
    async fn unless_given_up(self, unique: u64, step: Answer<Parts>, given_up: &Notify) -> Parts {
        let (session, mut work) = (self.0.clone(), step.into_future());
        match race(&mut work, given_up.wait()).await {
            Either::Left(answer) => {
                session.callers.borrow_mut().remove(&unique);
                finish(unique, answer)
            }
            Either::Right(()) => {
                session.rt.spawn_detached("fuse-unseen", async move {
                    drop(work.await);
                    drop(self);
                });
                finish(unique, Err(Errno::EINTR))
            }
        }
    }
}
