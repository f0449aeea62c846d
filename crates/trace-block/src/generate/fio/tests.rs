use super::*;
use crate::record::Op;
use std::collections::BTreeSet;

fn trace(text: &str) -> FioTrace {
    FioTrace::new("job", FioPlan::parse(text).expect("it is a job file"), 7)
}

fn records(text: &str) -> Vec<Record> {
    let mut source = trace(text);
    let mut records = Vec::new();
    while let Some(record) = source.next_record().expect("it is generated") {
        assert!(records.last().is_none_or(|last: &Record| last.at <= record.at), "times run backwards");
        records.push(record);
    }
    records
}

fn refused(text: &str) -> String {
    FioPlan::parse(text).expect_err("no trace").to_string()
}

/// Operation, offset and length in KiB.
fn shown(text: &str) -> String {
    let one = |r: &Record| format!("{:?} {}+{}", r.op, r.offset >> 10, r.len >> 10);
    records(text).iter().map(one).collect::<Vec<_>>().join(" ")
}

fn millis(records: &[Record]) -> Vec<u64> {
    records.iter().map(|r| r.at.0 / 1_000_000).collect()
}

#[test]
fn sequential_jobs_access_their_region_in_order_as_fio_does() {
    assert_eq!(shown("[a]\nrw=read\nsize=10k\noffset=16k\n"), "Read 16+4 Read 20+4", "the end is less than a block");
    assert_eq!(shown("[a]\nrw=write\nsize=8k\nio_size=10k\n"), "Write 0+4 Write 4+4 Write 0+4");
    assert_eq!(shown("[a]\nrw=trim\nbs=8k\nsize=16k\nnumber_ios=1\n"), "Discard 0+8");
    assert_eq!(shown("[a]\nrw=write\nsize=4k\nloops=2\nend_fsync=1\n"), "Write 0+4 Write 0+4 Flush 0+0");
    assert_eq!(shown("[a]\nrw=write\nsize=16k\nfsync=2\n"), "Write 0+4 Write 4+4 Flush 0+0 Write 8+4 Write 12+4");
}

#[test]
fn random_jobs_access_each_block_once_unless_they_need_not() {
    let once = records("[a]\nrw=randwrite\nsize=4m\nio_size=8m\n");
    let offsets = |part: &[Record]| part.iter().map(|r| r.offset).collect::<BTreeSet<_>>().len();
    assert_eq!((once.len(), offsets(&once[..1024]), offsets(&once[1024..])), (2048, 1024, 1024));
    assert_ne!(once[0].offset, once[1024].offset, "the second pass has another order");
    let anywhere = records("[a]\nrw=randwrite\nsize=4m\nnorandommap\n");
    assert!((550..750).contains(&offsets(&anywhere)), "1 - 1/e of 1024: {}", offsets(&anywhere));
}

#[test]
fn blocks_of_several_sizes_fill_the_region_without_overlap() {
    let all = records("[a]\nrw=randwrite\nsize=1m\nbssplit=4k/50:16k/30:64k/20\n");
    let mut ranges: Vec<(u64, u64)> = all.iter().map(|r| (r.offset, r.len)).collect();
    ranges.sort_unstable();
    let end = ranges.iter().fold(0, |end, (offset, len)| {
        assert_eq!(*offset, end, "a gap or an overlap");
        end + len
    });
    assert_eq!(end, 1 << 20);
    let sizes: BTreeSet<u64> =
        records("[a]\nrw=write\nsize=4m\nbsrange=4k-16k\n").iter().map(|r| r.len >> 10).collect();
    assert_eq!(sizes, BTreeSet::from([4, 8, 12, 16]));
}

#[test]
fn shares_and_laws_are_those_of_the_job() {
    let mixed = records("[a]\nrw=randrw\nrwmixread=80\nsize=16m\n");
    let reads = mixed.iter().filter(|r| r.op == Op::Read).count();
    assert!((3_150..3_400).contains(&reads), "{reads} of 4096");
    let top = |law: &str| {
        let all = records(&format!("[a]\nrw=randread\nsize=4m\nio_size=40m\nrandom_distribution={law}\n"));
        let mut counts = std::collections::BTreeMap::new();
        all.iter().for_each(|r| *counts.entry(r.offset).or_insert(0u32) += 1);
        let mut counts: Vec<u32> = counts.into_values().collect();
        counts.sort_unstable_by(|a, b| b.cmp(a));
        (f64::from(counts[..205].iter().sum::<u32>()) / all.len() as f64 * 100.0) as u32
    };
    // A fifth of the blocks; of pareto:0.2 it has 80 % by definition.
    assert!((85..92).contains(&top("zipf:1.2")), "{}", top("zipf:1.2"));
    assert!((77..83).contains(&top("pareto:0.2")), "{}", top("pareto:0.2"));
}

#[test]
fn times_come_from_rates_and_thinking() {
    let rated = records("[a]\nrw=read\nsize=20k\nrate_iops=100\n");
    assert_eq!(millis(&rated), [0, 10, 20, 30, 40]);
    let bytes = records("[a]\nrw=read\nbs=8k\nsize=32k\nrate=80k\n");
    assert_eq!(millis(&bytes), [0, 100, 200, 300]);
    let thought = records("[a]\nrw=read\nsize=24k\nthinktime=5ms\nthinktime_blocks=2\n");
    assert_eq!(millis(&thought), [0, 0, 5, 5, 10, 10]);
    let for_long = records("[a]\nrw=write\nsize=8k\nrate_iops=10\ntime_based\nruntime=1\nstartdelay=2\n");
    assert_eq!((for_long.len(), millis(&for_long)[9]), (10, 2_900));
    let mixed = records("[a]\nrw=randrw\nsize=8m\nrate_iops=100,50\nrwmixread=10\ntime_based\nruntime=10\n");
    let reads = mixed.iter().filter(|r| r.op == Op::Read).count();
    assert_eq!((reads, mixed.len() - reads), (1_000, 500), "each direction has its own rate, as in fio");
    let poisson = records("[a]\nrw=read\nsize=40m\nrate_iops=1000\nrate_process=poisson\n");
    let mean = poisson.last().expect("there are many").at.as_secs_f64() / poisson.len() as f64;
    assert!((0.00097..0.00103).contains(&mean), "{mean}");
}

#[test]
fn jobs_clones_and_walls_follow_each_other_as_in_fio() {
    let text = "[global]\nrw=write\nsize=8k\nrate_iops=100\n[a]\nnumjobs=2\n[b]\nstonewall\nfilename=f\ndirectory=/d\n";
    let mut source = trace(text);
    let mut seen = Vec::new();
    while let Some(r) = source.next_record().expect("it is generated") {
        seen.push((r.at.0 / 1_000_000, r.volume, r.who, r.offset));
    }
    assert_eq!(source.volumes(), ["a.0.0", "a.1.0", "/d/f"]);
    assert_eq!(seen, [(0, 0, 1, 0), (0, 1, 2, 0), (10, 0, 1, 4096), (10, 1, 2, 4096), (10, 2, 3, 0), (20, 2, 3, 4096)]);
    let shared = records("[a]\nrw=read\nfilename=/dev/x\nsize=8k\nnumjobs=2\noffset_increment=1m\n");
    assert_eq!(
        shared.iter().map(|r| (r.volume, r.offset >> 10)).collect::<Vec<_>>(),
        [(0, 0), (0, 1024), (0, 4), (0, 1028)]
    );
}

#[test]
fn one_seed_gives_one_trace_and_a_job_keeps_its_own_beside_others() {
    let text = "[a]\nrw=randrw\nsize=1m\nrate_iops=100\n";
    assert_eq!(records(text), records(text));
    let other = FioTrace::new("job", FioPlan::parse(text).expect("a job file"), 8).next_record();
    assert_ne!(other.expect("it is generated"), Some(records(text)[0]));
    let beside = records(&format!("{text}[b]\nrw=randread\nsize=1m\nrate_iops=70\n"));
    let of_first: Vec<Record> = beside.into_iter().filter(|r| r.who == 1).collect();
    assert_eq!(of_first, records(text));
}

#[test]
fn files_that_make_no_trace_are_refused_by_line_with_what_to_do() {
    let cases = [
        ("[a]\nrw=read\n", "line 1: job a has no size; add size=BYTES, which is also how many bytes it moves"),
        ("[a]\nsize=1k\n", "line 1: job a: size=1024 is smaller than a block of 4096 bytes; raise size or lower bs"),
        (
            "[a]\nioengine=net\nsize=1m\n",
            "line 2: `ioengine=net`: this engine moves no blocks; name one that does, such as io_uring",
        ),
        ("[a]\nsize=50%\n", "line 2: `size=50%`: a number of bytes is needed, such as 4096, 4k or 1g"),
        ("[a]\nsize=1m\ntime_based\n", "line 1: job a has time_based without runtime; add runtime=SECONDS"),
        (
            "[a]\nrw=randrw\nsize=1m\ntime_based\nruntime=9\nrate_iops=5,0\n",
            "line 1: job a is time_based, and nothing says when its requests come; add rate_iops=N for each direction, \
             or thinktime=MICROSECONDS",
        ),
        (
            "[a]\nread_iolog=x\n",
            "line 2: `read_iolog` is not supported: the log is a trace already: give it to `esker try` or `esker \
             blktrace convert`",
        ),
        ("[a]\nsize=1m\nbssplit=4k/50:8k/40\n", "line 3: `bssplit=4k/50:8k/40`: sizes and percentages are needed"),
        ("[a]\nsize=1m\nrandom_distribution=zoned:1/2\n", "line 3: `random_distribution=zoned:1/2`: random, zipf"),
        ("[a]\nsize=1m\noffset=4096p\n", "line 1: job a: offset and size end beyond 2^62 bytes; lower them"),
        ("[a]\nsize=2048g\nrw=randread\nbsrange=4k-8k\n", "line 1: job a: blocks of several sizes are drawn without"),
    ];
    for (text, expected) in cases {
        assert!(refused(text).starts_with(expected), "{text}: {}", refused(text));
    }
}

#[test]
fn what_a_trace_lacks_is_remarked_once_by_line() {
    let text = "[global]\nverify=crc32c\nsize=1m\nrate_iops=5\niodepth=32\n[a]\nfancy=1\n[b]\nrw=read\n";
    let plan = FioPlan::parse(text).expect("it is a job file");
    let remarks: Vec<(u32, &str)> = plan.remarks().iter().map(|r| (r.line, r.text.as_str())).collect();
    assert_eq!(
        remarks,
        [(2, "`verify`: reads that verify are not in the trace"), (7, "`fancy` is not known and ignored")]
    );
    let untimed = FioPlan::parse("[a]\nsize=1m\n").expect("it is a job file");
    assert_eq!(untimed.remarks()[0].text, "job a: nothing says when its requests come: all come when it begins");
}
