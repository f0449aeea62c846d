//! The suite passes an honest device and names what is wrong with each flawed one.

use std::cell::RefCell;
use std::rc::Rc;

use esker_base::ByteRange;

use super::*;
use crate::bio::{Bio, BioError, Done, Extent, ExtentState, Op, RangeOp, Reply};
use crate::buf::Buf;
use crate::limits::{Limits, Support};
use crate::step::Step;

/// What an array device does wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Flaw {
    None,
    LosesSomeWrites,
    WritesOneBlockLow,
    LeavesTailOfReads,
    LeavesTailOfZeroes,
    CallsDataHoles,
    AnswersNoExtents,
    KeepsTheBuffer,
    DescribesTheBuffer,
    FailsFlushes,
    ClonesTheFirstBlockOnly,
    KeepsMovedSources,
    DiscardsNeighbours,
    RefusesNothing,
    RefusesWithTheWrongError,
}

struct Array {
    bytes: RefCell<Vec<u8>>,
    writes: std::cell::Cell<u64>,
    limits: Limits,
    flaw: Flaw,
}

const BLOCK: usize = 512;

impl Array {
    fn device(flaw: Flaw) -> Rc<dyn Device> {
        let mut limits = Limits::plain(64 * BLOCK as u64, BLOCK as u32);
        for kind in [OpKind::Clone, OpKind::Move, OpKind::Delete] {
            limits = limits.with(kind, Support::Native);
        }
        limits.ranges_max = 4;
        limits.transfer_max = 32 * BLOCK as u32;
        let bytes = RefCell::new(vec![0x77; 64 * BLOCK]);
        Rc::new(Array { bytes, writes: Default::default(), limits, flaw })
    }

    fn has(&self, flaw: Flaw) -> bool {
        self.flaw == flaw
    }

    fn refusal(&self, bio: &Bio) -> Option<BioError> {
        let fits = |range: ByteRange| range.is_aligned(BLOCK as u64) && range.end() <= self.limits.size;
        let good_vector = |ops: &[RangeOp]| {
            let good = |op: &RangeOp| match op.ranges() {
                Some((src, dst)) => fits(dst) && src.is_none_or(|src| fits(src) && !src.overlaps(dst)),
                None => false,
            };
            ops.len() <= self.limits.ranges_max as usize && ops.iter().all(good)
        };
        let good = match &bio.op {
            Op::Read | Op::Write => {
                let payload = bio.buf.len() as u64 == bio.len() && bio.len() <= u64::from(self.limits.transfer_max);
                payload && fits(bio.range)
            }
            Op::Ranges(ops) => good_vector(ops),
            _ => fits(bio.range),
        };
        let wrong = if self.has(Flaw::RefusesWithTheWrongError) { BioError::io("no") } else { BioError::invalid("no") };
        (!good).then_some(wrong)
    }

    fn remap(&self, op: &RangeOp) {
        let bytes = &mut *self.bytes.borrow_mut();
        match *op {
            RangeOp::Clone { src, dst } => {
                let len = if self.has(Flaw::ClonesTheFirstBlockOnly) { BLOCK } else { src.len() as usize };
                bytes.copy_within(src.start() as usize..src.start() as usize + len, dst as usize);
            }
            RangeOp::Move { src, dst } => {
                bytes.copy_within(span(src), dst as usize);
                if !self.has(Flaw::KeepsMovedSources) {
                    bytes[span(src)].fill(0);
                }
            }
            RangeOp::Delete { at } => bytes[span(at)].fill(0),
        }
    }

    fn write(&self, bio: &Bio) {
        self.writes.set(self.writes.get() + 1);
        if self.has(Flaw::LosesSomeWrites) && self.writes.get().is_multiple_of(31) {
            return;
        }
        let low = if self.has(Flaw::WritesOneBlockLow) && bio.offset() >= BLOCK as u64 { BLOCK } else { 0 };
        let at = bio.offset() as usize - low;
        bio.buf.copy_to(&mut self.bytes.borrow_mut()[at..at + bio.buf.len()]);
    }

    fn read(&self, bio: &mut Bio) {
        let tail = self.has(Flaw::LeavesTailOfReads) && bio.len() > BLOCK as u64;
        let len = bio.buf.len() - if tail { 1 } else { 0 };
        bio.buf.fill(0, &self.bytes.borrow()[span(bio.range)][..len]);
    }

    fn clear(&self, range: ByteRange) {
        let tail = if self.has(Flaw::LeavesTailOfZeroes) && range.len() > BLOCK as u64 { BLOCK } else { 0 };
        self.bytes.borrow_mut()[span(range)][..range.len() as usize - tail].fill(0);
    }

    fn extents(&self, range: ByteRange) -> Box<[Extent]> {
        let state = |block: ByteRange| match self.bytes.borrow()[span(block)].iter().all(|b| *b == 0) {
            true => ExtentState::Zero,
            false if self.has(Flaw::CallsDataHoles) => ExtentState::Hole,
            false => ExtentState::Data,
        };
        // Only a part at a time, so that callers must ask on.
        let blocks = range.split_at_multiples(BLOCK as u64).take(3);
        match self.has(Flaw::AnswersNoExtents) {
            true => [].into(),
            false => blocks.map(|block| Extent { len: block.len(), state: state(block) }).collect(),
        }
    }

    fn perform(&self, mut bio: Bio) -> Done {
        match bio.op.clone() {
            Op::Read => self.read(&mut bio),
            Op::Write => self.write(&bio),
            Op::Flush if self.has(Flaw::FailsFlushes) => return bio.fail(BioError::io("no flush")),
            Op::Flush => {}
            Op::Zero => self.clear(bio.range),
            Op::Discard if self.has(Flaw::DiscardsNeighbours) => {
                let wide = ByteRange::new(bio.range.start() & !4095, 4096).unwrap();
                self.clear(wide);
            }
            Op::Discard => {}
            Op::Ranges(ops) => ops.iter().for_each(|op| self.remap(op)),
            Op::Extents => return Done { result: Ok(Reply::Extents(self.extents(bio.range))), buf: bio.buf },
        }
        let mut done = bio.ok();
        match self.flaw {
            Flaw::KeepsTheBuffer => done.buf = Buf::empty(),
            Flaw::DescribesTheBuffer => done.buf = Buf::described(done.buf.len(), 1),
            _ => {}
        }
        done
    }
}

fn span(range: ByteRange) -> std::ops::Range<usize> {
    range.start() as usize..range.end() as usize
}

impl Device for Array {
    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn submit(&self, bio: Bio) -> Step<Done> {
        let refusal = if self.has(Flaw::RefusesNothing) { None } else { self.refusal(&bio) };
        Step::Now(match refusal {
            Some(error) => bio.fail(error),
            // Nothing refused, nothing done: what breaks the limits cannot be performed.
            None if self.refusal(&bio).is_some() => bio.ok(),
            None => self.perform(bio),
        })
    }
}

fn outcome(flaw: Flaw) -> Result<Report, Violation> {
    in_virtual_time(|_| Array::device(flaw), Options::facade(7))
}

#[test]
fn an_honest_device_passes_and_every_operation_was_asked() {
    let report = outcome(Flaw::None).unwrap();
    assert!(OpKind::ALL.iter().all(|kind| report.answered(*kind) > 10), "{report:?}");
    assert!(report.refused > 10, "{report:?}");
    let real = on_reactor(Backend::Auto, |_| Array::device(Flaw::None), Options::facade(7));
    assert_eq!(real, Ok(report), "one seed asks the same in both worlds");
}

#[test]
fn each_flaw_is_found_and_named() {
    let cases = [
        (Flaw::LosesSomeWrites, "reads as"),
        (Flaw::WritesOneBlockLow, "reads as"),
        (Flaw::LeavesTailOfReads, "never written"),
        (Flaw::LeavesTailOfZeroes, "reads as"),
        (Flaw::CallsDataHoles, "holds data"),
        (Flaw::AnswersNoExtents, "extents cover 0"),
        (Flaw::KeepsTheBuffer, "0 bytes) came back"),
        (Flaw::DescribesTheBuffer, "described"),
        (Flaw::FailsFlushes, "flush: failed: I/O error: no flush"),
        (Flaw::ClonesTheFirstBlockOnly, "reads as"),
        (Flaw::KeepsMovedSources, "reads as"),
        (Flaw::DiscardsNeighbours, "holds data"),
        (Flaw::RefusesNothing, "due is Invalid"),
        (Flaw::RefusesWithTheWrongError, "due is Invalid"),
    ];
    for (flaw, text) in cases {
        let violation = outcome(flaw).expect_err(&format!("{flaw:?} must be found")).to_string();
        assert!(violation.contains(text), "{flaw:?}: {violation}");
    }
}

#[test]
fn a_device_without_data_is_judged_by_its_answers_only() {
    let forgetful = Options { keeps_data: false, ..Options::facade(3) };
    assert!(in_virtual_time(|_| Array::device(Flaw::LosesSomeWrites), forgetful).is_ok());
    assert!(in_virtual_time(|_| Array::device(Flaw::KeepsTheBuffer), forgetful).is_err());
}
