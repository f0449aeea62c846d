//! What scripts are written with: requests of clients against a shadow of what they must find, moves, and waits that
//! end in virtual time.

use std::cell::RefCell;
use std::rc::Rc;

use esker_base::{Nanos, Stream};
use esker_block::{Bio, BioError, Buf, Device, Done};
use esker_layer_kit::mover::{Grain, Outcome};
use esker_rt::mem::Pool;
use esker_rt::sync::{Either, race};
use esker_rt::{JoinHandle, Rt};

use super::Mobile;
use super::valve::Valve;

/// A subject on its lower devices.
pub struct Stage {
    rt: Rt,
    pool: Pool,
    /// The script's hands on the lower devices.
    pub lowers: [Rc<Valve>; 2],
    /// The subject.
    pub mobile: Rc<dyn Mobile>,
    vol: Rc<dyn Device>,
    grain: Grain,
    shadow: RefCell<Vec<u8>>,
    free: usize,
}

/// A request under way.
pub type Pending = JoinHandle<Done>;

/// Extents that lie on both lower devices.
pub(super) fn split_extents(mobile: &dyn Mobile) -> usize {
    let (extent, unit) = (mobile.extent(), mobile.unit());
    let lower = |at: u64| mobile.place(at).lower;
    let starts = (0..mobile.device().limits().size).step_by(extent as usize);
    starts.filter(|at| lower(*at) != lower(at + extent - unit)).count()
}

impl Stage {
    pub(super) fn new(
        rt: Rt,
        lowers: [Rc<Valve>; 2],
        mobile: Rc<dyn Mobile>,
        vol: Rc<dyn Device>,
        grain: Grain,
    ) -> Stage {
        let (shadow, free) = (RefCell::new(vec![0; vol.limits().size as usize]), mobile.free());
        Stage { rt, pool: Pool::default(), lowers, mobile, vol, grain, shadow, free }
    }

    /// Bytes of the subject.
    pub fn size(&self) -> u64 {
        self.vol.limits().size
    }

    /// Bytes of a unit.
    pub fn unit(&self) -> u64 {
        self.mobile.unit()
    }

    /// Bytes of an extent.
    pub fn extent(&self) -> u64 {
        self.mobile.extent()
    }

    /// Room that was free at first.
    pub fn free_at_first(&self) -> usize {
        self.free
    }

    /// Whether a record switches one unit.
    pub fn switches_units(&self) -> bool {
        self.grain == Grain::Unit
    }

    /// The world.
    pub fn rt(&self) -> &Rt {
        &self.rt
    }

    /// A random stream.
    pub fn rng(&self, name: &str) -> Stream {
        self.rt.rng(name)
    }

    /// Writes all extents, each block another byte, and flushes.
    pub(super) async fn fill(&self) {
        for at in (0..self.size()).step_by(512) {
            assert_eq!(self.write(at, 512, 1 + (at / 512) as u8).await.result.err(), None);
        }
        self.flush().await;
    }

    fn shade(&self, at: u64, len: u64, byte: u8) {
        self.shadow.borrow_mut()[at as usize..(at + len) as usize].fill(byte);
    }

    fn submit(&self, bio: Bio) -> Pending {
        let step = self.vol.submit(bio);
        self.rt.spawn("client", step.into_future())
    }

    /// Writes bytes.
    pub fn write(&self, at: u64, len: u64, byte: u8) -> Pending {
        self.shade(at, len, byte);
        self.submit(Bio::write(at, Buf::from_bytes(&self.pool, &vec![byte; len as usize])))
    }

    /// The same with force unit access.
    pub fn write_durably(&self, at: u64, len: u64, byte: u8) -> Pending {
        self.shade(at, len, byte);
        self.submit(Bio::write(at, Buf::from_bytes(&self.pool, &vec![byte; len as usize])).fua())
    }

    /// The same, of a subject that may refuse it.
    pub async fn write_if_taken(&self, at: u64, len: u64, byte: u8) -> Result<(), BioError> {
        let before = self.expected(at, len);
        let done = self.ended("a write", self.write_durably(at, len, byte)).await;
        if done.result.is_err() {
            self.shadow.borrow_mut()[at as usize..(at + len) as usize].copy_from_slice(&before);
        }
        done.result.map(drop)
    }

    /// Zeroes bytes.
    pub fn zero(&self, at: u64, len: u64) -> Pending {
        self.shade(at, len, 0);
        self.submit(Bio::zero(at, len))
    }

    /// Discards bytes. Write or zero them afterwards: no content is expected of them.
    pub fn discard(&self, at: u64, len: u64) -> Pending {
        self.submit(Bio::discard(at, len))
    }

    /// Reads bytes.
    pub fn read(&self, at: u64, len: u64) -> Pending {
        self.submit(Bio::read(at, Buf::unique(&self.pool, len as usize)))
    }

    /// Makes durable what was written.
    pub async fn flush(&self) {
        self.done("a flush", self.submit(Bio::flush())).await;
    }

    /// Starts to move an extent.
    pub fn start(&self, extent: u64) -> JoinHandle<Outcome> {
        self.rt.spawn("move", self.mobile.start(extent))
    }

    /// Ends all moves.
    pub fn settle(&self) -> JoinHandle<Result<(), BioError>> {
        self.rt.spawn("settle", self.mobile.settle())
    }

    /// Lets so much time go by that everything has happened that need not wait for the script.
    pub async fn pause(&self) {
        self.rt.sleep(Nanos::millis(1)).await;
    }

    /// Waits for what must end within a second.
    ///
    /// # Panics
    /// If it does not.
    pub async fn ended<T>(&self, what: &str, work: impl Future<Output = T>) -> T {
        match race(work, self.rt.sleep(Nanos::secs(1))).await {
            Either::Left(value) => value,
            Either::Right(()) => panic!("{what} does not end"),
        }
    }

    /// Waits for an answer of success.
    ///
    /// # Panics
    /// If there is none.
    pub async fn done(&self, what: &str, answer: Pending) -> Vec<u8> {
        let done = self.ended(what, answer).await;
        assert_eq!(done.result.err(), None, "{what}");
        done.buf.to_vec()
    }

    /// The same for an answer that must come although the script keeps a move waiting.
    ///
    /// # Panics
    /// If it does not come.
    pub async fn done_meanwhile(&self, what: &str, answer: Pending) -> Vec<u8> {
        self.pause().await;
        assert!(answer.is_done(), "{what} waits for the move");
        self.done(what, answer).await
    }

    /// Reads what must be as the shadow has it, although the script keeps a move waiting.
    ///
    /// # Panics
    /// If it is not.
    pub async fn reads_meanwhile(&self, at: u64, len: u64) {
        let bytes = self.done_meanwhile("a read", self.read(at, len)).await;
        assert!(bytes == self.expected(at, len), "stale bytes at {at}");
    }

    /// What a read must find.
    pub fn expected(&self, at: u64, len: u64) -> Vec<u8> {
        self.shadow.borrow()[at as usize..(at + len) as usize].to_vec()
    }

    /// Waits for a move that must bring an extent to lower device `to`, and finds its source free.
    ///
    /// # Panics
    /// If it does not.
    pub async fn moved(&self, extent: u64, to: usize, moving: JoinHandle<Outcome>) {
        let outcome = self.ended("a move", moving).await;
        assert!(matches!(outcome, Outcome::Moved { .. }), "{outcome:?}");
        let at = extent * self.extent();
        let ends = [at, at + self.extent() - 512].map(|at| self.mobile.place(at).lower);
        assert_eq!(ends, [to, to], "extent {extent} has moved");
        assert_eq!(self.mobile.free() + split_extents(&*self.mobile), self.free, "its source is free");
    }

    /// The lower device on which an extent begins.
    pub fn lower(&self, extent: u64) -> usize {
        self.mobile.place(extent * self.extent()).lower
    }

    /// Units of an extent, from its begin, that lie on the second lower device.
    pub fn switched(&self, extent: u64) -> usize {
        let units = self.extent() / self.unit();
        let is_there = |unit: &u64| self.mobile.place(extent * self.extent() + unit * self.unit()).lower == 1;
        (0..units).take_while(is_there).count()
    }

    /// Waits until so many are there.
    ///
    /// # Panics
    /// If they are not within a second.
    pub async fn until_switched(&self, extent: u64, units: usize) {
        for _ in 0..100_000 {
            if self.switched(extent) >= units {
                return;
            }
            self.rt.sleep(Nanos::micros(10)).await;
        }
        panic!("{} of {units} units are switched", self.switched(extent));
    }

    /// Reads everything.
    ///
    /// # Panics
    /// If a byte is not what the shadow has.
    pub async fn check_content(&self) {
        let found = self.done("a read of all", self.read(0, self.size())).await;
        let wrong = found.iter().zip(self.shadow.borrow().iter()).position(|(found, expected)| found != expected);
        if let Some(at) = wrong {
            panic!("byte {at} is {:#x} instead of {:#x}", found[at], self.shadow.borrow()[at]);
        }
    }
}
