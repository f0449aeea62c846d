//! The contract between a request and the volume that it is addressed to. Part of the loop, so no layer repeats it and
//! none can be built without it.

use std::cell::Cell;

use esker_base::ByteRange;
use esker_block::{Bio, BioError, Limits, Op, OpKind, RangeOp, Support};

/// The part of some limits that reads and writes are checked against at every hop, in half a cache line.
pub(crate) struct LimitsCheck {
    size: Cell<u64>,
    block_mask: u64,
    transfer_max: u64,
    /// By [`number`]: which operations pass without [`check`].
    able: [bool; 7],
    described: bool,
}

impl LimitsCheck {
    /// Admits nothing.
    pub(crate) fn closed() -> LimitsCheck {
        LimitsCheck { size: Cell::new(0), block_mask: 0, transfer_max: 0, able: [false; 7], described: false }
    }

    pub(crate) fn new(limits: &Limits) -> LimitsCheck {
        LimitsCheck {
            size: Cell::new(limits.size),
            block_mask: u64::from(limits.block) - 1,
            transfer_max: u64::from(limits.transfer_max),
            able: able(limits),
            described: limits.described,
        }
    }

    /// The volume has another size now.
    pub(crate) fn set_size(&self, bytes: u64) {
        self.size.set(bytes);
    }

    /// Whether `bio` certainly keeps to the contract. If not, [`check`] decides and gives the reason.
    #[inline]
    pub(crate) fn admits(&self, bio: &Bio) -> bool {
        let able = self.able[bio.op.number()];
        let (start, len) = (bio.range.start(), bio.range.len());
        able & (len != 0)
            & (len <= self.transfer_max)
            & ((start | len) & self.block_mask == 0)
            & (bio.range.end() <= self.size.get())
            & (bio.buf.len() as u64 == len)
            && (self.described || bio.buf.is_carried())
    }
}

/// Reads and writes, if they are supported; all else is for [`check`] alone.
fn able(limits: &Limits) -> [bool; 7] {
    let mut able = [false; 7];
    for (op, kind) in [(Op::Read, OpKind::Read), (Op::Write, OpKind::Write)] {
        able[op.number()] = limits.support(kind) != Support::No;
    }
    able
}

/// Checks `bio` against what its destination promises.
#[cold]
pub(crate) fn check(limits: &Limits, bio: &Bio) -> Result<(), BioError> {
    match &bio.op {
        Op::Read => check_payload(limits, bio, OpKind::Read),
        Op::Write => check_payload(limits, bio, OpKind::Write),
        Op::Flush => supported(limits, OpKind::Flush),
        Op::Zero => check_span(limits, bio, OpKind::Zero),
        Op::Discard => check_span(limits, bio, OpKind::Discard),
        Op::Extents => check_span(limits, bio, OpKind::Extents),
        Op::Ranges(ops) => check_ranges(limits, ops),
    }
}

fn check_payload(limits: &Limits, bio: &Bio, kind: OpKind) -> Result<(), BioError> {
    let len = bio.len();
    if bio.buf.len() as u64 != len {
        return Err(BioError::invalid(format!("a buffer of {} bytes for {len} bytes", bio.buf.len())));
    }
    if len > u64::from(limits.transfer_max) {
        let max = limits.transfer_max;
        return Err(BioError::invalid(format!("{len} bytes in one request; at most {max} are allowed")));
    }
    if !limits.described && bio.buf.is_described() {
        return Err(BioError::invalid("bytes are described, but this device needs real ones"));
    }
    supported(limits, kind)?;
    within(limits, limits.block, bio.range)
}

fn check_span(limits: &Limits, bio: &Bio, kind: OpKind) -> Result<(), BioError> {
    supported(limits, kind)?;
    within(limits, limits.block, bio.range)
}

fn supported(limits: &Limits, kind: OpKind) -> Result<(), BioError> {
    match limits.support(kind) {
        Support::No => Err(BioError::Unsupported(kind)),
        Support::Emulated | Support::Native => Ok(()),
    }
}

fn within(limits: &Limits, unit: u32, range: ByteRange) -> Result<(), BioError> {
    // `unit` is a power of two.
    let misfit = (range.start() | range.len()) & (u64::from(unit) - 1) != 0;
    if misfit || range.end() > limits.size || range.is_empty() {
        return Err(misplaced(limits, unit, range));
    }
    Ok(())
}

fn misplaced(limits: &Limits, unit: u32, range: ByteRange) -> BioError {
    if range.is_empty() {
        return BioError::invalid("an empty range");
    }
    if range.end() > limits.size {
        return BioError::invalid(format!("bytes {range} of a device of {} bytes", limits.size));
    }
    BioError::invalid(format!("bytes {range} are not whole blocks of {unit} bytes"))
}

fn check_ranges(limits: &Limits, ops: &[RangeOp]) -> Result<(), BioError> {
    if ops.is_empty() {
        return Err(BioError::invalid("an empty range vector"));
    }
    for op in ops {
        supported(limits, op.kind())?;
        let (src, dst) = op.ranges().ok_or_else(|| BioError::invalid("a destination beyond 64 bits"))?;
        within(limits, limits.remap, dst)?;
        if let Some(src) = src {
            within(limits, limits.remap, src)?;
            if src.overlaps(dst) {
                return Err(BioError::invalid(format!("source {src} and destination {dst} overlap")));
            }
        }
    }
    if ops.len() > limits.ranges_max as usize {
        let max = limits.ranges_max;
        return Err(BioError::invalid(format!("{} elements in a range vector; at most {max} are allowed", ops.len())));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use esker_block::Buf;

    fn limits() -> Limits {
        let mut limits = Limits::plain(1 << 20, 4096).with(OpKind::Clone, Support::Native);
        limits.ranges_max = 2;
        limits.remap = 8192;
        limits.transfer_max = 65536;
        limits
    }

    fn clone_op(src: u64, dst: u64, len: u64) -> RangeOp {
        RangeOp::Clone { src: ByteRange::new(src, len).unwrap(), dst }
    }

    fn refused(bio: Bio, why: &str) {
        let error = check(&limits(), &bio).unwrap_err().to_string();
        assert!(error.contains(why), "{error:?} should say {why:?}");
        assert!(!LimitsCheck::new(&limits()).admits(&bio), "the fence admits what the contract refuses: {error}");
    }

    #[test]
    fn what_breaks_the_contract_is_refused_with_the_reason() {
        let zeroes = |n| Buf::from_bytes(&esker_rt::mem::Pool::default(), &vec![0; n]);
        refused(Bio::read(0, zeroes(512)), "whole blocks of 4096");
        refused(Bio::read(1 << 20, zeroes(4096)), "of a device of 1048576");
        refused(Bio::read(0, zeroes(0)), "empty");
        refused(Bio::write(0, zeroes(128 << 10)), "at most 65536");
        refused(Bio::write(0, Buf::described(4096, 1)), "described");
        refused(Bio { buf: zeroes(4096), ..Bio::read(0, zeroes(8192)) }, "a buffer of 4096 bytes for 8192");
        refused(Bio::zero(100, 4096), "whole blocks");
        refused(Bio::ranges([RangeOp::Delete { at: ByteRange::new(0, 4096).unwrap() }]), "delete is not supported");
        refused(Bio::ranges([clone_op(0, 8192, 16384)]), "overlap");
        refused(Bio::ranges([clone_op(0, u64::MAX - 1, 4096)]), "64 bits");
        refused(Bio::ranges([clone_op(0, 8192, 8192); 3]), "at most 2");
        refused(Bio::ranges([clone_op(4096, 16384, 8192)]), "whole blocks of 8192");
        refused(Bio::ranges([clone_op(0, 12288, 8192)]), "whole blocks of 8192");
        refused(Bio::ranges([clone_op(0, 16384, 4096)]), "whole blocks of 8192");
        refused(Bio::ranges([]), "empty range vector");
    }

    #[test]
    fn what_keeps_it_passes() {
        let whole = Buf::from_bytes(&esker_rt::mem::Pool::default(), &[0; 65536]);
        assert!(
            LimitsCheck::new(&limits()).admits(&Bio::read(4096, Buf::zeroed(&esker_rt::mem::Pool::default(), 4096)))
        );
        let bios = [
            Bio::write((1 << 20) - 65536, whole),
            Bio::flush(),
            Bio::discard(0, 1 << 20),
            Bio::ranges([clone_op(0, 8192, 8192)]),
        ];
        assert!(bios.iter().all(|bio| check(&limits(), bio).is_ok()));
    }
}
