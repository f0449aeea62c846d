//! Files that hold no block requests are told what they are and what to use instead.

use super::{record, write_all};
use crate::{Format, Op, TraceError, TraceReader};

/// The refusal of a file that begins like this.
fn refused(bytes: &[u8]) -> Option<(&'static str, &'static str)> {
    match TraceReader::open("mine", Box::new(std::io::Cursor::new(bytes.to_vec())), None) {
        Err(TraceError::Foreign { what, advice, .. }) => Some((what, advice)),
        _ => None,
    }
}

/// Bytes at the beginning of zeros.
fn at(place: usize, bytes: &[u8]) -> Vec<u8> {
    let mut image = vec![0; 4096];
    image[place..][..bytes.len()].copy_from_slice(bytes);
    image
}

#[test]
fn each_kind_of_file_is_known_by_its_beginning_and_gets_its_advice() {
    let fio_result =
        "fio: this platform does not support process shared mutexes\n{\n  \"fio version\" : \"fio-3.33\",\n";
    let strace = "execve(\"/bin/ls\", [\"ls\"], 0x7ffd /* 20 vars */) = 0\nbrk(NULL)                = 0x55\n\
                  mmap(NULL, 8192, PROT_READ|PROT_WRITE, MAP_PRIVATE|MAP_ANONYMOUS, -1, 0) = 0x7f\n";
    let threads = "[pid  7] 12:30:01.25 read(3,  <unfinished ...>\n8 1700000000.5 close(3) = 0\n\
                   [pid  7] <... read resumed>\"x\", 1) = 1\n";
    let cases: [(&[u8], &str, &str); 32] = [
        (b"\x89ETR\r\n\x1a\n\x02\0", "a recording of a program's calls", "`esker trace replay`"),
        (b"\xd4\xc3\xb2\xa1\x02\0\x04\0", "network packets", "the disk of the server with blktrace"),
        (b"\xa1\xb2\xc3\xd4\0\x02\0\x01", "network packets", "the disk of the server with blktrace"),
        (b"\x0a\x0d\x0d\x0a\x1c\0\0\0", "network packets", "the disk of the server with blktrace"),
        (b"PERFILE2\x68\0", "data of perf", "esker blktrace record"),
        (b"\x7fELF\x02\x01\x01\0", "a program", "esker blktrace record"),
        (b"SQLite format 3\0\x10\0", "a database", "esker blktrace record"),
        (b"QFI\xfb\0\0\0\x03", "the image of a disk", "esker blktrace record"),
        (&at(510, b"\x55\xaa"), "the image of a disk", "esker blktrace record"),
        (&at(1080, b"\x53\xef"), "the image of a disk", "esker blktrace record"),
        (&at(257, b"ustar\0"), "a tar archive", ".tar"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:4d\n", "a pointer of Git LFS", "git lfs pull"),
        (b"<!DOCTYPE html>\n<html>\n", "a web page", "fetch the trace again"),
        (fio_result.as_bytes(), "fio's result", "--write_iolog=FILE"),
        (b"j: (g=0): rw=read, bs=(R) 4096B-4096B, ioengine=psync, iodepth=1\n", "fio's result", "--write_iolog=FILE"),
        (b"; a job\n[global]\nbs=4k\n\n[job]\nrw = randread\n", "a job of fio", "blktrace from-fio"),
        (b"[job]\nioengine=libaio\n", "a job of fio", "blktrace from-fio"),
        (b"1, 52345, 0, 4096\n2, 61000, 1, 4096\n", "a log of fio", "--write_iolog=FILE"),
        (b"500, 52345, 1, 4096, 8192, 0x0\n", "a log of fio", "--write_iolog=FILE"),
        (b"{\n  \"written_by\": \"esker try\",\n", "a result of `esker try`", "--against"),
        (include_bytes!("../../../../data/opencas/octf.summary"), "the summary of an OCTF trace", "the folder"),
        (b"op_time,key,key_size,op,op_count,size\n6,8,48,GET,1,87\n", "a key-value cache", "the store's disk"),
        (strace.as_bytes(), "the text of strace", "`esker trace replay`"),
        (threads.as_bytes(), "the text of strace", "`esker trace replay`"),
        (
            b"[\n{\"name\":\"read\",\"ts\":\"1\",\"dur\":\"8\",\"ph\":\"X\"}\n{\"ph\":\"X\",\"ts\":2}\n",
            "spans",
            "`esker trace record`",
        ),
        (b"{\"traceEvents\": [{\"name\": \"a\"}]}", "spans", "`esker trace record`"),
        (
            b" dd 71 [0] 1.5: block:block_rq_issue: 8,0 W 4096 () 8 + 8 [dd]\n",
            "perf or ftrace",
            "esker blktrace record",
        ),
        (
            b"Linux 6.1.0 (host)\n\nDevice             tps    kB_read/s\nsda 1.0 2.0\n",
            "iostat",
            "esker blktrace record",
        ),
        (b"Attaching 3 probes...\nTIME(ms)     DISK    COMM     PID    LAT(ms)\n", "bcc or bpftrace", "biosnoop"),
        (b"Seek distances measured: 138\n1,\t1.24500\n", "the seek curve", "--disk DIR"),
        (b"# a disk\ndisksim_disk A {\n  Model = source a.model,\n", "the description of a disk", "--disk DIR"),
        (b"dm_disk A.model {\n", "the description of a disk", "--disk DIR"),
    ];
    for (bytes, what, advice) in cases {
        let text = String::from_utf8_lossy(&bytes[..bytes.len().min(40)]);
        let (is, does) = refused(bytes).unwrap_or_else(|| panic!("{text} is not recognised"));
        assert!(is.contains(what), "{text}: {is}");
        assert!(does.contains(advice), "{text}: {does}");
    }
}

#[test]
fn the_refusal_names_the_file_and_says_one_sentence_each() {
    let reader = TraceReader::open("dir/db.json", Box::new(&b"{\n\"fio version\" : \"fio-3.33\"\n"[..]), None);
    let expected = "dir/db.json: is fio's result, which holds no requests. \
                    Let fio log its requests, `fio --write_iolog=FILE JOB.fio`, and give FILE.";
    assert_eq!(reader.err().expect("refused").to_string(), expected);
}

#[test]
fn a_named_format_is_tried_all_the_same() {
    let reader = TraceReader::open("x", Box::new(&b"[job]\nrw=read\n"[..]), Some(Format::Load));
    assert!(matches!(reader.err().expect("no trace"), TraceError::WrongFormat(_)));
}

#[test]
fn no_trace_is_taken_for_something_else() {
    let records = [record(0, 0, Op::Read, 0, 4096), record(2_000_000_000, 0, Op::Write, 8192, 512)];
    for format in Format::written() {
        assert_eq!(refused(&write_all(&records, &[], format).0), None, "{format}");
    }
    let fixtures: [&[u8]; 9] = [
        include_bytes!("../../fixtures/synthetic-msr.csv"),
        include_bytes!("../../fixtures/synthetic-alibaba.csv"),
        include_bytes!("../../fixtures/synthetic-tencent.csv"),
        include_bytes!("../../fixtures/synthetic-biosnoop.txt"),
        include_bytes!("../../fixtures/synthetic-cachelib.csv"),
        include_bytes!("../../fixtures/synthetic-hfplayer.csv"),
        include_bytes!("../../fixtures/recorded.blkparse.zst"),
        include_bytes!("../../../../data/linux-mysql.load.gz"),
        include_bytes!("../../../../data/disksim/atlas10k/atlas10k.trace.zst"),
    ];
    for (number, fixture) in fixtures.into_iter().enumerate() {
        assert_eq!(refused(fixture), None, "fixture {number}");
    }
    // Without spaces behind its commas this is Tencent's, not a log of fio.
    assert_eq!(refused(b"1538323200,12910952,1,0,1063\n"), None);
}
