//! Public traces that lie beside the repository, where they do, as a user opens them: figures that other programs
//! counted.

#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "tests run the program on files")]

use std::path::{Path, PathBuf};
use std::process::Command;

use esker_testkit::{Ability, skip};

/// The folder of traces, beside the repository or beside the folder that holds it.
fn folder() -> Option<PathBuf> {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let found = ["../shared/traces", "../../shared/traces"].map(|place| repository.join(place));
    let found = found.into_iter().find(|place| place.is_dir());
    if found.is_none() {
        skip(Ability::Traces, "no folder shared/traces lies beside the repository");
    }
    found
}

/// What `esker blktrace stat --json` says of a trace, or its refusal.
fn described(folder: &Path, name: &str) -> Result<serde_json::Value, String> {
    let esker = Command::new(env!("CARGO_BIN_EXE_esker"))
        .args(["blktrace", "stat", "--json", name])
        .current_dir(folder)
        .output()
        .expect("the program starts");
    match esker.status.success() {
        true => Ok(serde_json::from_slice(&esker.stdout).expect("an object")),
        false => Err(String::from_utf8(esker.stderr).expect("messages are text")),
    }
}

/// A file, its format, its requests, reads and bytes of transfers, and its volumes.
type Known = (&'static str, &'static str, [u64; 3], u64);

const TRACES: [Known; 18] = [
    ("arc/OLTP.lis.zst", "arc", [914_145, 914_145, 468_042_240], 1),
    ("arc/P3.lis.zst", "arc", [238_578, 238_578, 2_003_095_552], 1),
    ("blkreplay/linux-mysql.load.gz", "load", [80_794, 7_187, 1_184_387_072], 1),
    ("blkreplay/linux-webserver-2.load.gz", "load", [269_007, 149_018, 4_692_769_792], 1),
    ("blkreplay/windows-shared-server.load.gz", "load", [1_371, 0, 5_398_016], 1),
    ("cachelib/block_traces_1.csv", "cachelib", [1_023, 623, 3_473_528_272], 1),
    ("cachelib/block_traces_2.csv", "cachelib", [1_016, 596, 4_047_678_868], 1),
    ("cloudphysics/cloudPhysicsIO.oracleGeneral.bin.zst", "oracle-general", [113_872, 113_872, 4_368_040_448], 1),
    ("cloudphysics/cloudPhysicsIO.vscsi.zst", "vscsi1", [113_872, 46_974, 4_205_978_112], 1),
    ("cloudphysics/w106.trace.xz", "ids", [5_292_456, 5_292_456, 5_292_456 * 4096], 1),
    ("disksim/ascii.trace.zst", "disksim", [100_000, 79_634, 520_539_136], 14),
    ("disksim/atlas10k.trace.zst", "disksim-measured", [10_000, 6_569, 32_282_624], 1),
    ("disksim/hp_c2247a.trace.zst", "disksim-measured", [9_999, 5_115, 84_466_688], 1),
    ("hfplayer/sample_raw.trace.zst", "hfplayer", [770, 185, 3_756_032], 1),
    ("hfplayer/small-tpch.csv.zst", "hfplayer", [780, 0, 38_334_464], 1),
    ("mqsim/tpcc-small.trace.zst", "mqsim", [6_999, 4_381, 59_718_656], 16),
    ("opencas/sample_trace.tar.xz", "octf", [64_420, 1, OCTF_BYTES], 1),
    ("opencas/sample_trace.tar.xz:sample_trace/2020-07-02_08:52:51", "octf", [64_420, 1, OCTF_BYTES], 1),
];

/// Bytes of the transfers of the OCTF sample.
const OCTF_BYTES: u64 = 8_365_340_672;

/// Files without block requests, and a part of what is said of them.
const OTHERS: [(&str, &str); 11] = [
    ("cachelib/kv_traces_1.csv", "a key-value cache"),
    ("dftracer/dlio-test-trace.pfw.gz", "spans"),
    ("disksim/atlas10k.diskspecs.zst", "`esker try --disk DIR`"),
    ("disksim/atlas10k.model.zst", "`esker try --disk DIR`"),
    ("disksim/atlas10k.seek.zst", "`esker try --disk DIR`"),
    ("nfs/eth-ipv4-tcp-nfsv3.pcap.bz2", "the disk of the server"),
    ("nfs/eth-ipv4-tcp-nfsv4.pcap.bz2", "the disk of the server"),
    ("nfs/eth-ipv4-tcp-nfsv41.pcap.bz2", "the disk of the server"),
    ("nfs/eth-ipv4-udp-nfsv3-dup-retransm.pcap.bz2", "the disk of the server"),
    ("nfs/eth-ipv4-udp-nfsv3.pcap.bz2", "the disk of the server"),
    ("nfs/eth-ipv6-tcp-nfsv3.pcap.bz2", "the disk of the server"),
];

#[test]
fn traces_give_what_other_programs_counted() {
    let Some(folder) = folder() else { return };
    for (name, format, expected, volumes) in TRACES {
        let trace = described(&folder, name).unwrap_or_else(|e| panic!("{name}: {e}"));
        let summary = &trace["summary"];
        let found =
            [&summary["requests"], &summary["reads"]["requests"], &summary["bytes"]].map(serde_json::Value::as_u64);
        assert_eq!((trace["format"].as_str(), found), (Some(format), expected.map(Some)), "{name}");
        assert_eq!((&trace["report"]["clean"], summary["volumes"].as_u64()), (&true.into(), Some(volumes)), "{name}");
    }
}

#[test]
fn files_without_block_requests_get_what_to_do() {
    let Some(folder) = folder() else { return };
    for (name, part) in OTHERS {
        let e = described(&folder, name).expect_err(name);
        assert!(e.contains(&format!("{name}: is ")) && e.contains(part) && !e.contains("--from"), "{e}");
    }
}

/// Formats whose public files may not be handed on. The files are looked for in folders of these names beside the
/// others: a file is read as it came, packed or not.
fn check_own(format: &str) {
    let Some(folder) = folder().map(|folder| folder.join(format)).filter(|folder| folder.is_dir()) else {
        return skip(Ability::Traces, format_args!("no folder shared/traces/{format} lies beside the repository"));
    };
    let mut files: Vec<PathBuf> = std::fs::read_dir(&folder)
        .expect("it can be read")
        .map(|entry| entry.expect("it can be read").path())
        .collect();
    files.sort();
    assert!(!files.is_empty(), "{} is empty", folder.display());
    for file in files {
        let name = file.file_name().expect("it has a name").to_str().expect("a plain name");
        let trace = described(&folder, name).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!((&trace["format"], &trace["report"]["clean"]), (&format.into(), &true.into()), "{name}");
        assert!(trace["summary"]["requests"].as_u64() > Some(0), "{name}: {}", trace["summary"]);
    }
}

#[test]
fn files_of_msr_are_read_as_they_came() {
    check_own("msr");
}

#[test]
fn files_of_alibaba_are_read_as_they_came() {
    check_own("alibaba");
}

#[test]
fn files_of_tencent_are_read_as_they_came() {
    check_own("tencent");
}

#[test]
fn files_of_fiu_are_read_as_they_came() {
    check_own("fiu");
}
