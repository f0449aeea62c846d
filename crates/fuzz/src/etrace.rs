//! Recordings whose damage comes past their checksums: blocks are kept unpacked, and sealed again after every change.

use esker_trace_calls::etrace::{BLOCK_HEAD, HEADER, MARK};

/// Where a block's head says whether its payload is packed, and how long it is: as stored, and unpacked.
const PACKED: usize = 9;
const STORED: std::ops::Range<usize> = 16..20;
const UNPACKED: std::ops::Range<usize> = 20..24;
const SUM: std::ops::Range<usize> = 24..28;
/// Checksums of headers and heads are their last bytes.
const SEAL: usize = 4;

/// A sound recording with all payloads unpacked.
pub(crate) fn unpacked(recording: &[u8]) -> Vec<u8> {
    let mut out = recording[..HEADER].to_vec();
    let mut rest = &recording[HEADER..];
    while let Some((head, behind)) = rest.split_at_checked(BLOCK_HEAD) {
        let number = |at: std::ops::Range<usize>| u32::from_le_bytes(head[at].try_into().expect("four bytes")) as usize;
        let (payload, behind) = behind.split_at(number(STORED));
        let mut head = head.to_vec();
        let payload = match head[PACKED] {
            0 => payload.to_vec(),
            _ => zstd::bulk::decompress(payload, number(UNPACKED)).expect("it was written just now"),
        };
        head[PACKED] = 0;
        out.extend(head);
        out.extend(payload);
        rest = behind;
    }
    sealed(&out)
}

/// The input with lengths and checksums that fit, where it has blocks with unpacked payloads.
pub(crate) fn sealed(input: &[u8]) -> Vec<u8> {
    let mut bytes = input.to_vec();
    if bytes.len() < HEADER {
        return bytes;
    }
    seal(&mut bytes[..HEADER]);
    let marks: Vec<usize> = (HEADER..bytes.len()).filter(|at| bytes[*at..].starts_with(&MARK)).collect();
    let ends = marks.iter().copied().skip(1).chain([bytes.len()]).collect::<Vec<_>>();
    for (at, end) in marks.into_iter().zip(ends) {
        let Some((head, payload)) = bytes[at..end].split_at_mut_checked(BLOCK_HEAD) else { continue };
        if head[PACKED] == 0 {
            let len = (payload.len() as u32).to_le_bytes();
            head[STORED].copy_from_slice(&len);
            head[UNPACKED].copy_from_slice(&len);
            head[SUM].copy_from_slice(&crc32fast::hash(payload).to_le_bytes());
            seal(head);
        }
    }
    bytes
}

fn seal(bytes: &mut [u8]) {
    let (body, sum) = bytes.split_at_mut(bytes.len() - SEAL);
    sum.copy_from_slice(&crc32fast::hash(body).to_le_bytes());
}

#[cfg(test)]
mod tests {
    use esker_trace_calls::etrace::{self, Limits};
    use esker_trace_calls::generate::{Shape, apple_desktop};

    use super::*;

    #[test]
    fn damage_comes_past_the_checksums() {
        let trace = apple_desktop(Shape { seed: 1, threads: 2, scripts: 3 });
        let plain = unpacked(&etrace::write(&trace, Vec::new()).expect("memory takes all"));
        assert_eq!(etrace::read(&plain[..], Limits::GENEROUS).expect("it is sound"), trace);
        let name = |bytes: &[u8]| bytes.windows(9).position(|window| window == b"Documents").expect("a name is there");
        let mut other = plain.clone();
        other[name(&plain)] = b'M';
        let noticed = etrace::read(&other[..], Limits::GENEROUS).expect("what is sound is read");
        assert!(!noticed.warnings.is_empty(), "the checksum differs");
        let other = etrace::read(&sealed(&other)[..], Limits::GENEROUS).expect("it is sound");
        assert!(other.warnings.is_empty() && other != trace);
    }
}
