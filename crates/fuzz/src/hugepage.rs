//! What the manager of huge pages reads: its configuration, and what the kernel tells of mappings and of free memory.

use esker_hugepage::contiguity::fragmentation_of;
use esker_hugepage::{REGION_BYTES, Region};
use esker_hugepage_linux::Config;
use esker_hugepage_linux::linux::maps::{self, Mapping};

const SMALL: &str = "[[process]]\nname = \"redis-server\"\nshares = 7\n";
const LARGE: &str = "faults = \"base\"\npromote_percent = 70\ndemote_percent = 60\ncooldown = \"1s\"\ntau = 0.5\nbudget = \"1GiB\"\n\
                     quantum = \"32MiB\"\ngreedy_below = 0.4\nsharing = \"coordinated\"\nksm_pages_to_scan = 1000\n\
                     [access]\nmethod = \"damon\"\ninterval = \"1s\"\nbits = 16\nalpha = 0.3\nclear_hot = 0.5\nscan_max = \"20MiB\"\n\
                     [[process]]\ncgroup = \"/a\"\n[[process]]\npid = 7\n";

const SMAPS: &str = "00400000-00600000 r-xp 00000000 fd:00 1234      /usr/bin/cat\nSize:     2048 kB\nVmFlags: rd ex mr\n\
                     7f0000000000-7f0000800000 rw-p 00000000 00:00 0\nVmFlags: rd wr mr mg\n\
                     7f0000800000-7f0000a00000 rw-p 00000000 00:00 0 [anon: heap]\nVmFlags: rd wr nh\n\
                     7f0000b00000-7f0000e00000 rw-s 00000000 00:01 77 /memfd:x (deleted)\nVmFlags: rd wr\n\
                     ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0 [vsyscall]\n";

const FREE: &str = "Node 0, zone      DMA      0      0      1      0      0      0      0      0      1      1      2 \n\
                    Node 0, zone   Normal   1024    512      0      0      0      0      0      0      0      2      3 \n\
                    \x0c\n  pagesets\n    cpu: 0\n              count: 7\n\
                    \x0c\nMemTotal:  16384000 kB\nMemFree:    123456 kB\n";
/// Between the three files that [`FREE`] stands for.
const NEXT_FILE: char = '\x0c';

pub(crate) fn config_corpus() -> Vec<Vec<u8>> {
    [SMALL, LARGE, include_str!("../../../dist/hugepage.toml")].map(|text| text.as_bytes().to_vec()).to_vec()
}

/// What is taken fits together, and what is not is said in words.
pub(crate) fn try_config(input: &[u8]) -> Result<bool, String> {
    let Ok(text) = std::str::from_utf8(input) else { return Ok(false) };
    let config = match Config::parse(text) {
        Err(error) if error.to_string().is_empty() => return Err("refused without a reason".to_string()),
        Err(_) => return Ok(false),
        Ok(config) => config,
    };
    let is_share = config.cpu_max > 0.0 && config.cpu_max <= 1.0;
    let promote = config.policy.promote.pages();
    let is_ordered = config.policy.demote.pages() <= promote && (1..=512).contains(&promote);
    match is_share && is_ordered && !config.settings.rules.is_empty() && config.policy.fault().is_none() {
        true => Ok(true),
        false => Err(format!("a configuration that cannot be run is taken: {config:?}")),
    }
}

pub(crate) fn maps_corpus() -> Vec<Vec<u8>> {
    vec![SMAPS.as_bytes().to_vec()]
}

/// Only a region that one mapping without an objection covers can be huge.
pub(crate) fn try_maps(input: &[u8]) -> Result<bool, String> {
    let mappings = maps::parse(&String::from_utf8_lossy(input));
    for at in mappings.iter().flat_map(|mapping| [mapping.start, mapping.end - 1]) {
        let region = Region(at / REGION_BYTES);
        let (start, end) = maps::bytes_of(region);
        let covers = |mapping: &Mapping| mapping.skip.is_none() && mapping.start <= start && end <= mapping.end;
        if maps::skip_of(&mappings, region) == Some(None) && !mappings.iter().any(covers) {
            return Err(format!("{region:?} is taken for one that can be huge"));
        }
    }
    Ok(!mappings.is_empty())
}

pub(crate) fn free_corpus() -> Vec<Vec<u8>> {
    vec![FREE.as_bytes().to_vec()]
}

/// A share is a share.
pub(crate) fn try_free(input: &[u8]) -> Result<bool, String> {
    let text = String::from_utf8_lossy(input);
    let mut files = text.splitn(3, NEXT_FILE);
    let mut next = || files.next().unwrap_or_default();
    let index = fragmentation_of(next(), next(), next());
    match (0.0..=1.0).contains(&index) {
        true => Ok(index < 1.0),
        false => Err(format!("{index} of free memory is fragmented")),
    }
}
