//! Integers of 7 bits to a byte, least significant first (LEB128, as protocol buffers use them).

/// The most bytes that a 64-bit integer takes.
pub(crate) const LEN_MAX: usize = 10;

/// Appends `value`.
pub(crate) fn put(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    out.push((value & 0x7f) as u8);
}

/// Appends `value` such that small ones are short whatever their sign.
pub(crate) fn put_signed(value: i64, out: &mut Vec<u8>) {
    put(((value << 1) ^ (value >> 63)) as u64, out);
}

/// Takes an integer off the front of `bytes`; `None` if it is cut off or beyond 64 bits.
pub(crate) fn take(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0u64;
    for (i, byte) in bytes.iter().take(LEN_MAX).enumerate() {
        let part = u64::from(byte & 0x7f);
        if i == LEN_MAX - 1 && part > 1 {
            return None;
        }
        value |= part << (7 * i);
        if byte & 0x80 == 0 {
            *bytes = &bytes[i + 1..];
            return Some(value);
        }
    }
    None
}

/// What [`put_signed`] appended.
pub(crate) fn take_signed(bytes: &mut &[u8]) -> Option<i64> {
    take(bytes).map(|raw| (raw >> 1) as i64 ^ -((raw & 1) as i64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_of_every_length_and_sign_read_back_and_cut_ones_do_not() {
        for shift in 0..64 {
            for value in [1u64 << shift, (1 << shift) - 1, u64::MAX >> shift] {
                let mut bytes = Vec::new();
                put(value, &mut bytes);
                put_signed(value as i64, &mut bytes);
                let mut rest = bytes.as_slice();
                assert_eq!((take(&mut rest), take_signed(&mut rest)), (Some(value), Some(value as i64)));
                assert!(rest.is_empty());
                let mut alone = Vec::new();
                put(value, &mut alone);
                assert_eq!(take(&mut &alone[..alone.len() - 1]), None, "{value}");
            }
        }
        assert_eq!(take(&mut &[0xff; 10][..]), None, "beyond 64 bits");
    }
}
