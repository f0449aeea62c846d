//! Wrong requests, and the error that each must bring.

use esker_base::ByteRange;
use esker_rt::mem::Pool;

use crate::bio::{Bio, BioError, Done, OpKind, RangeOp};
use crate::buf::Buf;
use crate::limits::{Limits, Support};

/// The error that is due.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Want {
    /// [`BioError::Invalid`].
    Invalid,
    /// [`BioError::Unsupported`] of this kind.
    Unsupported(OpKind),
}

/// One wrong request.
pub(super) struct Wrong {
    pub what: &'static str,
    pub bio: Bio,
    pub want: Want,
}

/// All wrong requests that a device with these limits can be asked.
pub(super) fn all(limits: &Limits, pool: &Pool) -> Vec<Wrong> {
    let mut out = out_of_range(limits, pool);
    out.extend(unaligned(limits, pool));
    out.extend(wrong_payloads(limits, pool));
    out.extend(wrong_vectors(limits));
    out.extend(unsupported(limits, pool));
    out
}

/// What is wrong with the answer to a wrong request.
pub(super) fn judge(done: &Done, want: &Want) -> Result<(), String> {
    match (&done.result, want) {
        (Err(BioError::Invalid(text)), Want::Invalid) if !text.is_empty() => Ok(()),
        (Err(BioError::Unsupported(kind)), Want::Unsupported(due)) if kind == due => Ok(()),
        (got, _) => Err(format!("answered {got:?}, due is {want:?}")),
    }
}

fn invalid(what: &'static str, bio: Bio) -> Wrong {
    Wrong { what, bio, want: Want::Invalid }
}

fn supports(limits: &Limits, kind: OpKind) -> bool {
    limits.support(kind) != Support::No
}

fn out_of_range(limits: &Limits, pool: &Pool) -> Vec<Wrong> {
    let block = limits.block as usize;
    let mut out = vec![
        invalid("read behind the end", Bio::read(limits.size, Buf::unique(pool, block))),
        invalid("read across the end", Bio::read(limits.size - block as u64, Buf::unique(pool, 2 * block))),
    ];
    let far = u64::MAX - 2 * block as u64 + 1;
    if supports(limits, OpKind::Write) {
        out.push(invalid("write behind the end", Bio::write(limits.size, Buf::zeroed(pool, block))));
        out.push(invalid("write at the end of 64 bits", Bio::write(far, Buf::zeroed(pool, block))));
    }
    for kind in [OpKind::Zero, OpKind::Discard, OpKind::Extents].into_iter().filter(|kind| supports(limits, *kind)) {
        out.push(invalid("range across the end", plain(kind, limits.size - block as u64, 2 * block as u64)));
    }
    out
}

#[allow(clippy::wildcard_enum_match_arm, reason = "the callers ask for three kinds")]
fn plain(kind: OpKind, at: u64, len: u64) -> Bio {
    match kind {
        OpKind::Zero => Bio::zero(at, len),
        OpKind::Discard => Bio::discard(at, len),
        _ => Bio::extents(at, len),
    }
}

fn unaligned(limits: &Limits, pool: &Pool) -> Vec<Wrong> {
    let block = limits.block as usize;
    if block == 1 || limits.size < 2 * block as u64 {
        return Vec::new();
    }
    let mut out = vec![
        invalid("read at half a block", Bio::read(block as u64 / 2, Buf::unique(pool, block))),
        invalid("read of half a block", Bio::read(0, Buf::unique(pool, block / 2))),
    ];
    if supports(limits, OpKind::Write) {
        out.push(invalid("write at half a block", Bio::write(block as u64 / 2, Buf::zeroed(pool, block))));
        out.push(invalid("write of half a block", Bio::write(0, Buf::zeroed(pool, block / 2))));
    }
    if supports(limits, OpKind::Zero) {
        out.push(invalid("zero of half a block", Bio::zero(0, block as u64 / 2)));
    }
    out
}

fn wrong_payloads(limits: &Limits, pool: &Pool) -> Vec<Wrong> {
    let block = limits.block as usize;
    let mut out = Vec::new();
    let mut short = Bio::read(0, Buf::unique(pool, block));
    short.buf = Buf::empty();
    out.push(invalid("read without a buffer", short));
    if supports(limits, OpKind::Write) && limits.size >= 2 * block as u64 {
        let mut long = Bio::write(0, Buf::zeroed(pool, block));
        long.range = ByteRange::new(0, 2 * block as u64).expect("two blocks");
        out.push(invalid("write of more than its payload", long));
    }
    // Described, so that a limit of gigabytes costs no memory; the length is checked before what the bytes are.
    let over = u64::from(limits.transfer_max) + block as u64;
    if over <= limits.size && limits.described {
        out.push(invalid("read over the largest transfer", Bio::read(0, Buf::described(over as usize, 0))));
    } else if over <= limits.size && over <= 64 << 20 {
        out.push(invalid("read over the largest transfer", Bio::read(0, Buf::unique(pool, over as usize))));
    }
    out
}

fn wrong_vectors(limits: &Limits) -> Vec<Wrong> {
    let block = u64::from(limits.remap);
    let delete = |at| RangeOp::Delete { at: ByteRange::new(at, block).expect("one block") };
    let mut out = Vec::new();
    if supports(limits, OpKind::Delete) {
        out.push(invalid("delete behind the end", Bio::ranges([delete(limits.size)])));
        let many = vec![delete(0); limits.ranges_max as usize + 1];
        out.push(invalid("more elements than the limit", Bio::ranges(many)));
    }
    if supports(limits, OpKind::Delete) && limits.remap > limits.block {
        let small = ByteRange::new(0, u64::from(limits.block)).expect("one block");
        out.push(invalid("delete of a part of what is remapped", Bio::ranges([RangeOp::Delete { at: small }])));
    }
    if supports(limits, OpKind::Clone) && limits.size >= 2 * block {
        let src = ByteRange::new(0, 2 * block).expect("two blocks");
        out.push(invalid("clone onto itself", Bio::ranges([RangeOp::Clone { src, dst: block }])));
        out.push(invalid("clone to behind the end", Bio::ranges([RangeOp::Clone { src, dst: limits.size - block }])));
    }
    out
}

fn unsupported(limits: &Limits, pool: &Pool) -> Vec<Wrong> {
    let block = u64::from(limits.remap);
    let one = ByteRange::new(0, block).expect("one block");
    let missing = OpKind::ALL.into_iter().filter(|kind| !supports(limits, *kind));
    let wrong = missing.map(|kind| {
        let bio = match kind {
            OpKind::Read => Bio::read(0, Buf::unique(pool, block as usize)),
            OpKind::Write => Bio::write(0, Buf::zeroed(pool, block as usize)),
            OpKind::Flush => Bio::flush(),
            OpKind::Zero | OpKind::Discard | OpKind::Extents => plain(kind, 0, block),
            OpKind::Clone => Bio::ranges([RangeOp::Clone { src: one, dst: block }]),
            OpKind::Move => Bio::ranges([RangeOp::Move { src: one, dst: block }]),
            OpKind::Delete => Bio::ranges([RangeOp::Delete { at: one }]),
        };
        Wrong { what: kind.word(), bio, want: Want::Unsupported(kind) }
    });
    wrong.collect()
}
