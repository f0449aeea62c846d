//! Public traces that lie beside the repository, where they do: figures that other programs counted.

use super::drain;
use crate::{Format, Op, TraceReader};
use std::fs::File;
use std::path::{Path, PathBuf};

/// The folder of traces, beside the repository or beside the folder that holds it.
fn folder() -> Option<PathBuf> {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let found = ["../shared/traces", "../../shared/traces"].map(|place| repository.join(place));
    let found = found.into_iter().find(|place| place.is_dir());
    if found.is_none() {
        println!("SKIPPED: no folder shared/traces lies beside the repository");
    }
    found
}

/// File, format, requests, reads, bytes, volumes.
const TRACES: [(&str, Format, u64, u64, u64, usize); 10] = [
    ("arc/OLTP.lis.zst", Format::Arc, 914_145, 914_145, 468_042_240, 1),
    ("arc/P3.lis.zst", Format::Arc, 238_578, 238_578, 2_003_095_552, 1),
    ("cachelib/block_traces_1.csv", Format::Cachelib, 1_023, 623, 3_473_528_272, 1),
    ("cachelib/block_traces_2.csv", Format::Cachelib, 1_016, 596, 4_047_678_868, 1),
    ("cloudphysics/w106.trace.xz", Format::Ids, 5_292_456, 5_292_456, 5_292_456 * 4096, 1),
    ("disksim/ascii.trace.zst", Format::Disksim, 100_000, 79_634, 520_539_136, 14),
    ("disksim/atlas10k.trace.zst", Format::DisksimMeasured, 10_000, 6_569, 32_282_624, 1),
    ("disksim/hp_c2247a.trace.zst", Format::DisksimMeasured, 9_999, 5_115, 84_466_688, 1),
    ("hfplayer/sample_raw.trace.zst", Format::Hfplayer, 770, 185, 3_756_032, 1),
    ("hfplayer/small-tpch.csv.zst", Format::Hfplayer, 780, 0, 38_334_464, 1),
];

#[test]
fn shared_traces_give_what_other_programs_counted() {
    let Some(folder) = folder() else { return };
    for (name, format, requests, reads, bytes, volumes) in TRACES {
        let mut reader = TraceReader::open(name, Box::new(File::open(folder.join(name)).unwrap()), None).unwrap();
        let records = drain(&mut reader);
        let read = records.iter().filter(|r| r.op == Op::Read).count() as u64;
        let found = (reader.format(), records.len() as u64, read, records.iter().map(|r| r.len).sum());
        assert_eq!(found, (format, requests, reads, bytes), "{name}");
        assert_eq!(crate::Source::volumes(&reader).len(), volumes, "{name}");
        assert!(reader.report().is_clean(), "{name}: {}", reader.report());
    }
}

#[test]
fn shared_files_without_block_requests_are_told_so() {
    let Some(folder) = folder() else { return };
    let captures =
        ["tcp-nfsv3", "tcp-nfsv4", "tcp-nfsv41", "udp-nfsv3"].map(|kind| format!("nfs/eth-ipv4-{kind}.pcap.bz2"));
    let others = ["cachelib/kv_traces_1.csv", "dftracer/dlio-test-trace.pfw.gz", "disksim/atlas10k.seek.zst"];
    let disks = ["disksim/atlas10k.diskspecs.zst", "disksim/atlas10k.model.zst"];
    let names = captures.into_iter().chain(others.into_iter().chain(disks).map(str::to_string));
    for name in names {
        let input = Box::new(File::open(folder.join(&name)).unwrap());
        let e = TraceReader::open(&name, input, None).err().expect("no trace");
        assert!(matches!(e, crate::TraceError::Foreign { .. }), "{e}");
    }
}
