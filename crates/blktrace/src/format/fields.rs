//! Numbers and ranges of text columns.

use crate::fault::Reason;
use crate::record::{Op, Record};
use esker_base::Nanos;

/// A whole decimal number, with spaces around it allowed.
pub(crate) fn whole(field: &[u8], what: &'static str) -> Result<u64, Reason> {
    digits(field.trim_ascii(), what)
}

fn digits(text: &[u8], what: &'static str) -> Result<u64, Reason> {
    match text {
        [] => return Err(Reason::Missing(what)),
        [b'-', ..] => return Err(Reason::Negative(what)),
        _ => {}
    }
    let mut value = 0u64;
    for byte in text {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return Err(Reason::NotNumber(what));
        }
        let next = value.checked_mul(10).and_then(|v| v.checked_add(u64::from(digit)));
        value = next.ok_or(Reason::TooLarge(what))?;
    }
    Ok(value)
}

/// Seconds with an optional fraction, in ns; digits beyond the ninth are cut off.
pub(crate) fn seconds(field: &[u8], what: &'static str) -> Result<Nanos, Reason> {
    let text = field.trim_ascii();
    let dot = text.iter().position(|b| *b == b'.').unwrap_or(text.len());
    let whole = digits(&text[..dot], what)?;
    let fraction = text.get(dot + 1..).unwrap_or_default();
    let mut nanos = 0;
    if !fraction.is_empty() {
        let kept = &fraction[..fraction.len().min(9)];
        if !fraction.iter().all(u8::is_ascii_digit) {
            return Err(Reason::NotNumber(what));
        }
        nanos = digits(kept, what)? * 10u64.pow(9 - kept.len() as u32);
    }
    scaled(whole, 1_000_000_000, what)?.checked_add(nanos).map(Nanos).ok_or(Reason::TooLarge(what))
}

/// `value` × `unit`.
pub(crate) fn scaled(value: u64, unit: u64, what: &'static str) -> Result<u64, Reason> {
    value.checked_mul(unit).ok_or(Reason::TooLarge(what))
}

/// A record that keeps the promises of [`Record`].
pub(crate) fn request(at: Nanos, volume: u32, op: Op, offset: u64, len: u64) -> Result<Record, Reason> {
    if op == Op::Flush {
        return Ok(Record { at, volume, op, offset: 0, len: 0 });
    }
    if len == 0 {
        return Err(Reason::Empty);
    }
    offset.checked_add(len).ok_or(Reason::RangeOverflow)?;
    Ok(Record { at, volume, op, offset, len })
}

/// Fills `out` with columns from `columns`; fewer than `out` holds is a fault, more are ignored.
pub(crate) fn fill<'a, const N: usize>(mut columns: impl Iterator<Item = &'a [u8]>) -> Result<[&'a [u8]; N], Reason> {
    let mut out: [&[u8]; N] = [&[]; N];
    for (found, slot) in out.iter_mut().enumerate() {
        *slot = columns.next().ok_or(Reason::Columns { found, needed: N })?;
    }
    Ok(out)
}
