//! Numbers and ranges of text columns.

use super::Yield;
use crate::fault::Reason;
use crate::record::{Op, Record};
use esker_base::Nanos;

/// Whether a line (without spaces around it) is empty or a comment: of DiskSim, blkreplay and shell (`#`), of C (`//`).
pub(crate) fn is_remark(line: &[u8]) -> bool {
    line.is_empty() || line.starts_with(b"#") || line.starts_with(b"//")
}

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

/// A time in units of 10^`digits` ns with an optional fraction, in ns; what is finer than 1 ns is cut off.
pub(crate) fn time(field: &[u8], digits: u32, what: &'static str) -> Result<Nanos, Reason> {
    let text = field.trim_ascii();
    let dot = text.iter().position(|b| *b == b'.').unwrap_or(text.len());
    let whole = scaled(self::digits(&text[..dot], what)?, 10u64.pow(digits), what)?;
    let fraction = text.get(dot + 1..).unwrap_or_default();
    let kept = &fraction[..fraction.len().min(digits as usize)];
    if !fraction.iter().all(u8::is_ascii_digit) {
        return Err(Reason::NotNumber(what));
    }
    let nanos = match kept {
        [] => 0,
        _ => {
            let zeros = digits - u32::try_from(kept.len()).expect("at most as many as asked for");
            self::digits(kept, what)? * 10u64.pow(zeros)
        }
    };
    whole.checked_add(nanos).map(Nanos).ok_or(Reason::TooLarge(what))
}

/// A time in seconds.
pub(crate) fn seconds(field: &[u8], what: &'static str) -> Result<Nanos, Reason> {
    time(field, 9, what)
}

/// A whole hexadecimal number, with spaces around it and `0x` before it allowed.
pub(crate) fn hexadecimal(field: &[u8], what: &'static str) -> Result<u64, Reason> {
    let text = field.trim_ascii();
    let text = text.strip_prefix(b"0x").unwrap_or(text);
    if text.is_empty() {
        return Err(Reason::Missing(what));
    }
    let text = std::str::from_utf8(text).ok().filter(|t| t.bytes().all(|b| b.is_ascii_hexdigit()));
    let text = text.ok_or(Reason::NotNumber(what))?;
    u64::from_str_radix(text, 16).map_err(|_| Reason::TooLarge(what))
}

/// `value` × `unit`.
pub(crate) fn scaled(value: u64, unit: u64, what: &'static str) -> Result<u64, Reason> {
    value.checked_mul(unit).ok_or(Reason::TooLarge(what))
}

/// A record that keeps the promises of [`Record`].
pub(crate) fn request(at: Nanos, volume: u32, op: Op, offset: u64, len: u64) -> Result<Record, Reason> {
    if op == Op::Flush {
        return Ok(Record { at, volume, op, offset: 0, len: 0, who: 0 });
    }
    if len == 0 {
        return Err(Reason::Empty);
    }
    offset.checked_add(len).ok_or(Reason::RangeOverflow)?;
    Ok(Record { at, volume, op, offset, len, who: 0 })
}

/// A transfer that may ask for earlier writes to be made durable first, as two requests.
pub(crate) fn flushed(is_flush: bool, at: Nanos, volume: u32, op: Op, offset: u64, len: u64) -> Result<Yield, Reason> {
    let flush = Record { at, volume, op: Op::Flush, offset: 0, len: 0, who: 0 };
    match (is_flush, len) {
        (true, 0) => Ok(Yield::One(flush)),
        (true, _) => Ok(Yield::Many(vec![flush, request(at, volume, op, offset, len)?])),
        (false, _) => request(at, volume, op, offset, len).map(Yield::One),
    }
}

/// Fills `out` with columns from `columns`; fewer than `out` holds is a fault, more are ignored.
pub(crate) fn fill<'a, const N: usize>(mut columns: impl Iterator<Item = &'a [u8]>) -> Result<[&'a [u8]; N], Reason> {
    let mut out: [&[u8]; N] = [&[]; N];
    for (found, slot) in out.iter_mut().enumerate() {
        *slot = columns.next().ok_or(Reason::Columns { found, needed: N })?;
    }
    Ok(out)
}
