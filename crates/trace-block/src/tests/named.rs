//! Formats whose first line names the columns, DiskSim's measured requests, and bare block numbers.

use super::damage::reason;
use super::{drain, read_all, record};
use crate::{Format, Op, Reason, Record, Source, TraceError, TraceReader, detect};

const CACHELIB: &str = include_str!("../../fixtures/synthetic-cachelib.csv");
const HFPLAYER: &str = include_str!("../../fixtures/synthetic-hfplayer.csv");
const BIOSNOOP: &str = include_str!("../../fixtures/synthetic-biosnoop.txt");
const MIB: u64 = 1 << 20;

/// Reads a trace by its name and bytes alone.
fn open(name: &str, data: impl Into<Vec<u8>>) -> Result<TraceReader, TraceError> {
    TraceReader::open(name, Box::new(std::io::Cursor::new(data.into())), None)
}

fn sample(name: &str, data: impl Into<Vec<u8>>, format: Format) -> (Vec<Record>, TraceReader) {
    let mut reader = open(name, data).unwrap();
    assert_eq!(reader.format(), format);
    let records = drain(&mut reader);
    assert!(reader.report().is_clean(), "{}", reader.report());
    (records, reader)
}

#[test]
fn blocks_of_cachelib_get_places_in_order_of_appearance_and_a_line_is_as_many_requests_as_it_counts() {
    let (records, reader) = sample("block.csv", CACHELIB, Format::Cachelib);
    let twice = record(0, 0, Op::Write, 16 * MIB + 65_536, 4096);
    let expected = [
        record(0, 0, Op::Read, 0, 8 * MIB),
        twice,
        twice,
        record(2_000_000_000, 0, Op::Read, 1024, 512),
        record(3_000_000_000, 0, Op::Read, 32 * MIB + 1024, 512),
    ];
    assert_eq!(records, expected, "another shard is another block");
    assert_eq!((reader.report().skipped, reader.report().records), (1, 5));
}

#[test]
fn columns_of_cachelib_are_found_by_their_names() {
    let text = "op_name,io_offset,op_time,block_id,io_size\nputChunk,512,7,b,1024\ngetChunk,0,8,c,1\n";
    let (records, _) = sample("t", text, Format::Cachelib);
    assert_eq!(records, [record(0, 0, Op::Write, 512, 1024), record(1_000_000_000, 0, Op::Read, 16 * MIB, 1)]);
}

#[test]
fn each_bad_cachelib_line_is_counted() {
    let header = "op_time,block_id,io_size,io_offset,op_name,op_count,rs_shard_id\n";
    let check = |bad: &str| reason(Format::Cachelib, header, "7,b,512,0,getChunkData.Permanent,1,4", bad);
    assert_eq!(check("7,b,512,0,get,1"), Reason::Columns { found: 6, needed: 7 });
    assert_eq!(check("7,b,512,0,deleteChunk,1,4"), Reason::UnknownOp("a name that begins with get or put"));
    assert_eq!(check("7,b,512,0,get,99999,4"), Reason::Beyond { what: "op_count", most: 1000 });
    let beyond = Reason::Beyond { what: "end of the range in its block", most: 16 * MIB };
    assert_eq!(check("7,b,8388608,8388609,get,1,4"), beyond);
    assert_eq!(check("7,b,1,18446744073709551615,get,1,4"), Reason::RangeOverflow);
    assert_eq!(check("7,b,0,0,get,1,4"), Reason::Empty);
    assert_eq!(check("7,,512,0,get,1,4"), Reason::Missing("block_id"));
    assert_eq!(check("soon,b,512,0,get,1,4"), Reason::NotNumber("op_time"));
}

#[test]
fn a_line_that_counts_no_request_gives_none() {
    let (records, reader) = read_all(CACHELIB.replace("Permanent,2,", "Permanent,0,"), Format::Cachelib);
    assert_eq!((records.len(), reader.report().malformed), (3, 0));
}

#[test]
fn arrivals_of_hfplayer_count_and_completions_do_not() {
    let (records, reader) = sample("raw.trace", HFPLAYER, Format::Hfplayer);
    // The first line says 0 us at tick 4,000,000 of a clock with 2,000 ticks in a us: it came at 2,000 us.
    let expected = [
        record(0, 0, Op::Read, 4096, 4096),
        record(500_250, 1, Op::Write, 4096 * 512, 8192),
        record(1_000_000, 0, Op::Read, 8192, 4096),
    ];
    assert_eq!((records, reader.volumes()), (expected.to_vec(), &["0".to_string(), "1".to_string()][..]));
    assert_eq!(reader.report().skipped, 3, "header and completions");
}

#[test]
fn hfplayer_lines_need_no_ticks_and_bad_ones_are_counted() {
    let header = "#DUMP_OFFSET.I,ELAPSED_USECS.D,CMD.S,LUN_SSID.I,LBA.I,NBLKS.I\n";
    let (records, _) = sample("t", format!("{header}1,7.5,RD_IN,3,0,1\n2,9,WR_IN,3,1,1\n"), Format::Hfplayer);
    assert_eq!(records.iter().map(|r| r.at.0).collect::<Vec<_>>(), [0, 1_500]);
    let check = |bad: &str| reason(Format::Hfplayer, header, "1,7.5,RD_IN,3,0,1", bad);
    assert_eq!(check("1,7.5,RD_IN,3,0"), Reason::Columns { found: 5, needed: 6 });
    assert_eq!(check("1,7.5,FLUSH_IN,3,0,1"), Reason::UnknownOp("RD_IN, WR_IN, RD_OUT or WR_OUT"));
    assert_eq!(check("1,x,RD_IN,3,0,1"), Reason::NotNumber("ELAPSED_USECS"));
    assert_eq!(check("1,7.5,RD_IN,3,36028797018963968,1"), Reason::TooLarge("LBA"));
    assert_eq!(check("1,7.5,RD_IN,x,0,1"), Reason::NotNumber("LUN_SSID"));
}

#[test]
fn biosnoop_requests_came_when_they_ended_less_what_they_took() {
    let (records, reader) = sample("bio.txt", BIOSNOOP, Format::Biosnoop);
    let expected = [
        record(0, 0, Op::Write, 13_092_560 * 512, 4096),
        record(240_000, 0, Op::Read, 4096, 8192),
        record(2_990_000, 1, Op::Write, 2048 * 512, 512),
    ];
    assert_eq!(records, expected, "sorted by arrival; a name with a space moves no column");
    assert_eq!(reader.volumes(), ["xvda1", "nvme0n1"]);
    assert_eq!(reader.report().skipped, 3, "two lines of head, and a request without data");
}

#[test]
fn biosnoop_of_libbpf_tells_flushes_and_discards() {
    let text = "TIME(s)     COMM           PID     DISK      T      SECTOR     BYTES   LAT(ms)\n\
                0.000000    fio            1       sda       FF     0          0         1.000\n\
                0.010000    fio            1       sda       FWS    64         512       1.000\n\
                0.020000    fio            1       sda       D      128        4096      1.000\n";
    let (records, _) = sample("t", text, Format::Biosnoop);
    let expected = [
        record(0, 0, Op::Flush, 0, 0),
        record(10_000_000, 0, Op::Flush, 0, 0),
        record(10_000_000, 0, Op::Write, 32_768, 512),
        record(20_000_000, 0, Op::Discard, 65_536, 4096),
    ];
    assert_eq!(records, expected);
    let header = format!("{}\n", text.lines().next().unwrap());
    let check = |bad: &str| reason(Format::Biosnoop, &header, "1.0 dd 1 sda W 8 512 0.1", bad);
    assert_eq!(check("1.0 dd 1 sda W 8 512"), Reason::Columns { found: 7, needed: 8 });
    assert_eq!(check("1.0 dd 1 sda W 8 512 99999999999"), Reason::Beyond { what: "latency in ms", most: 86_400_000 });
    assert_eq!(check("1.0 dd 1 sda W x 512 0.1"), Reason::NotNumber("SECTOR"));
    assert_eq!(check("99999999999 dd 1 sda W 8 512 0.1"), Reason::TooLarge("TIME(s)"));
}

#[test]
fn a_trace_without_the_line_that_names_its_columns_is_refused_with_an_example_of_it() {
    for format in [Format::Cachelib, Format::Hfplayer, Format::Biosnoop] {
        for lines in [1, 500] {
            let text = "1,2,3,4,5,6,7,8\n".repeat(lines);
            let e = TraceReader::from_bytes(text, format).err().expect("refused").to_string();
            assert!(e.contains("no line names the columns, such as `"), "{format}: {e}");
        }
    }
}

#[test]
fn joined_traces_may_name_their_columns_again() {
    for (text, format) in [(CACHELIB, Format::Cachelib), (HFPLAYER, Format::Hfplayer), (BIOSNOOP, Format::Biosnoop)] {
        let once = read_all(text, format).0.len();
        let lines = text.lines().filter(|line| !line.starts_with("Tracing")).collect::<Vec<_>>().join("\n");
        let (twice, reader) = read_all(format!("{lines}\n{lines}\n"), format);
        assert_eq!((twice.len(), reader.report().malformed), (2 * once, 0), "{format}");
    }
}

/// Requests, reads, bytes, first and last time in ns: counted with awk.
fn figures(records: &[Record]) -> (usize, usize, u64, u64, u64) {
    let reads = records.iter().filter(|r| r.op == Op::Read).count();
    let ends = [records.first(), records.last()].map(|r| r.unwrap().at.0);
    (records.len(), reads, records.iter().map(|r| r.len).sum(), ends[0], ends[1])
}

#[test]
fn measured_requests_of_disksim_come_after_the_end_of_the_one_before() {
    let (records, _) = sample("t", "R Hit 8 2 100.5 20\nW Trip 16 4 50.25 1000.0\n", Format::DisksimMeasured);
    assert_eq!(records, [record(20_000, 0, Op::Read, 4096, 1024), record(1_120_500, 0, Op::Write, 8192, 2048)]);
    let atlas = include_bytes!("../../../../data/disksim/atlas10k/atlas10k.trace.zst");
    let (records, _) = sample("t", *atlas, Format::DisksimMeasured);
    assert_eq!(figures(&records), ATLAS);
    let hp = include_bytes!("../../../../data/disksim/hp_c2247a/hp_c2247a.trace.zst");
    let (records, _) = sample("t", *hp, Format::DisksimMeasured);
    assert_eq!(figures(&records), HP);
}

const ATLAS: (usize, usize, u64, u64, u64) = (10_000, 6_569, 32_282_624, 45_422_000, 500_805_428_000);
const HP: (usize, usize, u64, u64, u64) = (9_999, 5_115, 84_466_688, 13_876_270, 294_864_673_390);

#[test]
fn each_bad_measured_line_is_counted() {
    let check = |bad: &str| reason(Format::DisksimMeasured, "", "R Hit 8 2 100.5 20", bad);
    assert_eq!(check("R Hit 8 2 100.5"), Reason::Columns { found: 5, needed: 6 });
    assert_eq!(check("X Hit 8 2 100.5 20"), Reason::UnknownOp("R or W"));
    assert_eq!(check("R Hot 8 2 100.5 20"), Reason::Unknown("class of a request; expected Hit, Miss, Doub or Trip"));
    assert_eq!(check("R Hit 8 2 100.5 18446744073709551"), Reason::TooLarge("sum of the times"));
    assert_eq!(check("R Hit 8 0 100.5 20"), Reason::Empty);
}

fn ids(numbers: impl IntoIterator<Item = u32>) -> Vec<u8> {
    numbers.into_iter().flat_map(u32::to_le_bytes).collect()
}

#[test]
fn block_numbers_are_read_in_pages_and_known_by_a_name_like_those_of_the_samples() {
    let numbers = ids([7, 8, 900_000, 3, 4, 5, 6, 8, 9, 10]);
    let (records, _) = sample("cloudphysics/w106.trace.xz", numbers.clone(), Format::Ids);
    assert_eq!((records.len(), records[2]), (10, record(0, 0, Op::Read, 900_000 * 4096, 4096)));
    assert!(records.iter().all(|r| r.at.0 == 0));
    let e = open("blocks.bin", numbers.clone()).err().expect("no name, no mark").to_string();
    assert!(e.contains("if it holds block numbers of 4 bytes, say --from ids; else name it with --from"), "{e}");
    assert_eq!(read_all(numbers, Format::Ids).0, records);
}

#[test]
fn what_is_called_like_block_numbers_and_is_none_is_not_taken_for_them() {
    assert_eq!(detect("w1.trace", b"some words, not numbers\n"), None);
    assert_eq!(detect("w1.trace", &[0; 4096]), None, "zeros are no numbers of blocks");
    assert_eq!(detect("w1.trace", &ids((0..64).map(|i| i << 26))), None, "numbers far beyond a disk");
    assert_eq!(detect("w1.trace", b"938513000 4 264719034 16 0\n"), Some(Format::Mqsim));
    for name in ["w.trace", "wx.trace", "w1.trace.old", "aw1.trace"] {
        assert_eq!(detect(name, &ids(1..64)), None, "{name}");
    }
}
