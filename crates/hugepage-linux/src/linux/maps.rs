//! The mappings of a process, and which of them can have huge pages.

use esker_hugepage::REGION_BYTES;
use esker_hugepage::view::{Region, Skip};

/// A mapping.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// Address of the first byte.
    pub start: u64,
    /// Address after the last one.
    pub end: u64,
    /// Why its regions cannot be huge, if so.
    pub skip: Option<Skip>,
    /// Whether its pages may be shared with equal ones, as far as is told.
    pub mergeable: bool,
}

/// No mapping ends above it: the last region of all addresses is never a process' own, and its end is no number.
const ADDRESS_MAX: u64 = u64::MAX - REGION_BYTES;

/// The mappings of `/proc/PID/maps`, or of `/proc/PID/smaps`, which also tells which refuse huge pages.
/// Lines that do not look so are passed over.
pub fn parse(text: &str) -> Vec<Mapping> {
    let mut mappings: Vec<Mapping> = Vec::new();
    for line in text.lines() {
        if let Some(mapping) = parse_head(line) {
            mappings.push(mapping);
        } else if let (Some(flags), Some(last)) = (line.strip_prefix("VmFlags:"), mappings.last_mut()) {
            last.skip = last.skip.or(skip_of_flags(flags));
            last.mergeable = flags.split_whitespace().any(|word| word == "mg");
        }
    }
    mappings
}

/// `start-end perms offset device inode path`.
fn parse_head(line: &str) -> Option<Mapping> {
    let mut words = line.split_whitespace();
    let (start, end) = words.next()?.split_once('-')?;
    let (start, end) = (u64::from_str_radix(start, 16).ok()?, u64::from_str_radix(end, 16).ok()?);
    if start >= end || end > ADDRESS_MAX {
        return None;
    }
    let permissions = words.next()?;
    let inode = words.nth(2)?;
    let path = words.next().unwrap_or_default();
    let skip = match path {
        "[vdso]" | "[vvar]" | "[vvar_vclock]" | "[vsyscall]" | "[uprobes]" => Some(Skip::Special),
        _ if inode != "0" || permissions.ends_with('s') => Some(Skip::File),
        _ => None,
    };
    Some(Mapping { start, end, skip, mergeable: false })
}

/// `nh`: advised not to have huge pages; `io`, `pf`: of a device.
fn skip_of_flags(flags: &str) -> Option<Skip> {
    let has = |flag| flags.split_whitespace().any(|word| word == flag);
    match (has("io") || has("pf"), has("nh")) {
        (true, _) => Some(Skip::Special),
        (_, true) => Some(Skip::Advised),
        _ => None,
    }
}

/// Why a region cannot be huge, by the mappings in the order of their addresses. `None` in the outer place: nothing is
/// mapped there.
pub fn skip_of(mappings: &[Mapping], region: Region) -> Option<Option<Skip>> {
    let (start, end) = bytes_of(region);
    let first = mappings.partition_point(|mapping| mapping.end <= start);
    let mapping = mappings.get(first).filter(|mapping| mapping.start < end)?;
    let is_covered = mapping.start <= start && end <= mapping.end;
    Some(mapping.skip.or((!is_covered).then_some(Skip::Partial)))
}

/// The addresses of a region.
pub fn bytes_of(region: Region) -> (u64, u64) {
    (region.0 * REGION_BYTES, (region.0 + 1) * REGION_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMAPS: &str = "\
00400000-00600000 r-xp 00000000 fd:00 1234                               /usr/bin/cat
Size:               2048 kB
VmFlags: rd ex mr mw me
7f0000000000-7f0000800000 rw-p 00000000 00:00 0
VmFlags: rd wr mr mw me ac sd
7f0000800000-7f0000a00000 rw-p 00000000 00:00 0                          [anon: heap]
VmFlags: rd wr mr mw me nh ac
7f0000b00000-7f0000e00000 rw-s 00000000 00:01 77                         /memfd:x (deleted)
7ffc00000000-7ffc00021000 rw-p 00000000 00:00 0                          [stack]
ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0                  [vsyscall]
";

    #[test]
    fn mappings_say_why_they_cannot_be_huge() {
        let skips: Vec<Option<Skip>> = parse(SMAPS).iter().map(|mapping| mapping.skip).collect();
        let expected = [Some(Skip::File), None, Some(Skip::Advised), Some(Skip::File), None, Some(Skip::Special)];
        assert_eq!(skips, expected);
    }

    #[test]
    fn a_region_needs_one_mapping_that_covers_it() {
        let mappings = parse(SMAPS);
        let at = |address: u64| skip_of(&mappings, Region(address / REGION_BYTES));
        assert_eq!(at(0x7f00_0000_0000), Some(None));
        assert_eq!(at(0x7f00_0080_0000), Some(Some(Skip::Advised)));
        assert_eq!(at(0x7f00_00a0_0000), Some(Some(Skip::File)), "the first mapping in it tells");
        assert_eq!(at(0x7ffc_0000_0000), Some(Some(Skip::Partial)));
        assert_eq!((at(0), at(0x6000_0000_0000)), (None, None));
    }

    #[test]
    fn lines_of_impossible_mappings_are_passed_over() {
        let one = |range: &str| parse(&format!("{range} rw-p 00000000 00:00 0\n"));
        assert_eq!(one("200000-400000").len(), 1);
        for range in ["0-0", "400000-200000", "200000-ffffffffffffffff", "-", "x-y", "1"] {
            assert_eq!(one(range), [], "{range}");
        }
    }
}
