//! Files that hold no block requests, known by their beginning, and what to use or record instead.

use memchr::memmem;

/// A kind of file.
pub(crate) struct Foreign {
    is: fn(&FileHead<'_>) -> bool,
    /// What it is: completes "FILE is ...".
    pub what: &'static str,
    /// What to do: a sentence without its full stop.
    pub advice: &'static str,
}

const FIO_LOG: &str = "Let fio log its requests, `fio --write_iolog=FILE JOB.fio`, and give FILE";
const FIO_JOB: &str = "Make a trace of it, `esker blktrace from-fio JOB.fio -o FILE`, or let fio log its requests, \
                       `fio --write_iolog=FILE JOB.fio`, and give FILE";
const RECORD: &str = "Record the requests to a disk, `esker blktrace record DEVICE -o FILE`, and give FILE";
const SERVER: &str = "Record the disk of the server with blktrace while its clients work";
const REPLAY: &str = "Replay its calls with `esker trace replay`, or record the disk below the program with blktrace";
const SPANS: &str = "Record the calls of the program with `esker trace record`, or the disk below it with blktrace";
const DISK: &str = "Give the folder with all files of the disk as a candidate: `esker try --disk DIR`";

/// All kinds. The first that fits counts.
static KINDS: [Foreign; 25] = [
    Foreign {
        is: |head| head.starts(b"\x89ETR\r\n\x1a\n"),
        what: "a recording of a program's calls by Esker, which holds no block requests",
        advice: REPLAY,
    },
    Foreign {
        is: |head| [b"\xa1\xb2\xc3\xd4", b"\xd4\xc3\xb2\xa1"].iter().any(|mark| head.starts(*mark)),
        what: "a capture of network packets (pcap), which holds no block requests",
        advice: SERVER,
    },
    Foreign {
        is: |head| {
            [b"\xa1\xb2\x3c\x4d", b"\x4d\x3c\xb2\xa1", b"\x0a\x0d\x0d\x0a"].iter().any(|mark| head.starts(*mark))
        },
        what: "a capture of network packets (pcapng, or pcap in ns), which holds no block requests",
        advice: SERVER,
    },
    Foreign {
        is: |head| head.starts(b"PERFILE2") || head.starts(b"2ELIFREP"),
        what: "data of perf, which Esker does not read",
        advice: RECORD,
    },
    Foreign { is: |head| head.starts(b"\x7fELF"), what: "a program (ELF), not a trace", advice: RECORD },
    Foreign {
        is: |head| head.starts(b"SQLite format 3\0") || head.starts(b"%PDF-"),
        what: "a database or a document, not a trace",
        advice: RECORD,
    },
    Foreign {
        is: |head| IMAGES.iter().any(|mark| head.starts(mark)) || head.is_raw_image(),
        what: "the image of a disk, which holds blocks and no requests",
        advice: RECORD,
    },
    Foreign {
        is: |head| head.bytes.get(257..262) == Some(b"ustar"),
        what: "a tar archive whose name does not say so",
        advice: "Let its name end in .tar, .tar.gz or alike, or unpack it and give the trace in it",
    },
    Foreign {
        is: |head| head.starts(b"version https://git-lfs.github.com/"),
        what: "a pointer of Git LFS in place of the file",
        advice: "Fetch the file: `git lfs pull`",
    },
    Foreign {
        is: |head| ["<!doctype html", "<html"].iter().any(|tag| head.first().to_ascii_lowercase().starts_with(tag)),
        what: "a web page, perhaps saved in place of a trace",
        advice: "Look at it with a browser to see what the server wants, and fetch the trace again",
    },
    Foreign {
        is: |head| head.has("\"fio version\"") || head.lines.iter().any(|line| is_fio_report(line)),
        what: "fio's result, which holds no requests",
        advice: FIO_LOG,
    },
    Foreign {
        is: |head| {
            head.significant(&['#', ';']).is_some_and(is_section) && head.lines.iter().any(|line| is_fio_option(line))
        },
        what: "a job of fio, which holds no requests",
        advice: FIO_JOB,
    },
    Foreign {
        is: |head| head.mostly(is_fio_log),
        what: "a log of fio's latencies, bandwidths or rates, not of its requests",
        advice: FIO_LOG,
    },
    Foreign {
        is: |head| head.has("\"written_by\": \"esker try\""),
        what: "a result of `esker try`, not a trace",
        advice: "Compare a new result with it: `esker try TRACE --against FILE`",
    },
    Foreign {
        is: |head| head.has("\"queueCount\"") && head.has("\"tracePath\""),
        what: "the summary of an OCTF trace, which holds no requests",
        advice: "Give the folder that it lies in",
    },
    Foreign {
        is: |head| ["key", "key_size"].iter().all(|name| head.first().split(',').any(|column| column == *name)),
        what: "a trace of a key-value cache, which names keys and no blocks",
        advice: "Replay it against the store, and record the store's disk with blktrace",
    },
    Foreign {
        is: |head| head.mostly(is_system_call),
        what: "the text of strace: system calls, not block requests",
        advice: REPLAY,
    },
    Foreign {
        is: |head| head.has("\"traceEvents\"") || head.mostly(is_span),
        what: "a trace of a program's spans (dftracer, Chrome, Perfetto), which holds no block requests",
        advice: SPANS,
    },
    Foreign {
        is: |head| head.mostly(|line| line.contains("block_rq_")),
        what: "the block layer's events as perf or ftrace print them, which Esker does not read",
        advice: RECORD,
    },
    Foreign {
        is: |head| head.lines.iter().any(|line| is_iostat(line)),
        what: "the output of iostat: averages, not requests",
        advice: RECORD,
    },
    Foreign {
        is: |head| head.lines.iter().any(|line| is_latency_table(line)),
        what: "the output of a tool of bcc or bpftrace that does not say which blocks were asked for",
        advice: "Record with the biosnoop of bcc, or with blktrace",
    },
    Foreign {
        is: |head| head.first().starts_with("Seek distances measured:"),
        what: "the seek curve of a disk in DiskSim's format, not a trace",
        advice: DISK,
    },
    Foreign {
        is: |head| head.significant(&['#']).is_some_and(|line| line.starts_with("disksim_") || line.starts_with("dm_")),
        what: "the description of a disk in DiskSim's format, not a trace",
        advice: DISK,
    },
    Foreign {
        is: |head| head.first().starts_with("[[device]]") || head.lines.iter().any(|line| line.starts_with("[export.")),
        what: "the text of a stack, not a trace",
        advice: "Give it as a candidate: `esker try TRACE --stack FILE`",
    },
    Foreign { is: |head| head.first().starts_with("#!"), what: "a script, not a trace", advice: RECORD },
];

/// Marks at the beginning of images: qcow2, two of VMDK, VHDX, VHD, VDI, LUKS, XFS, and the description of a VMDK.
const IMAGES: [&[u8]; 9] = [
    b"QFI\xfb",
    b"KDMV",
    b"COWD",
    b"vhdxfile",
    b"conectix",
    b"<<< Oracle VM VirtualBox",
    b"LUKS\xba\xbe",
    b"XFSB",
    b"# Disk DescriptorFile",
];

/// What the file that begins with `bytes` is, if it is known to hold no block requests.
pub(crate) fn recognise(bytes: &[u8]) -> Option<&'static Foreign> {
    let head = FileHead::of(bytes);
    KINDS.iter().find(|kind| (kind.is)(&head))
}

/// The beginning of a file.
struct FileHead<'a> {
    bytes: &'a [u8],
    /// Its first lines that are not empty, without spaces around them; none if the bytes are no text.
    lines: Vec<&'a str>,
}

/// Lines that are looked at.
const LINES_MAX: usize = 60;

/// Lines by which a format without a header is judged.
const JUDGED: usize = 10;

impl<'a> FileHead<'a> {
    fn of(bytes: &'a [u8]) -> FileHead<'a> {
        let text = if bytes.contains(&0) { &[] } else { bytes };
        let lines = text.split(|b| *b == b'\n').map(|line| std::str::from_utf8(line).unwrap_or_default().trim());
        FileHead { bytes, lines: lines.filter(|line| !line.is_empty()).take(LINES_MAX).collect() }
    }

    fn starts(&self, mark: &[u8]) -> bool {
        self.bytes.starts_with(mark)
    }

    /// Whether text holds these words.
    fn has(&self, words: &str) -> bool {
        !self.lines.is_empty() && memmem::find(self.bytes, words.as_bytes()).is_some()
    }

    fn first(&self) -> &'a str {
        self.lines.first().unwrap_or(&"")
    }

    /// The first line that is no comment.
    fn significant(&self, comments: &[char]) -> Option<&'a str> {
        self.lines.iter().find(|line| !line.starts_with(comments)).copied()
    }

    /// Whether more than half of the first lines are such.
    fn mostly(&self, is: fn(&str) -> bool) -> bool {
        let judged = &self.lines[..self.lines.len().min(JUDGED)];
        2 * judged.iter().filter(|line| is(line)).count() > judged.len()
    }

    /// Whether this is a disk with a boot sector and partitions, or a file system of the ext family.
    fn is_raw_image(&self) -> bool {
        let byte = |at: usize| self.bytes.get(at).copied().unwrap_or(0xff);
        let is_partition = |at: usize| byte(at) & 0x7f == 0;
        let has_partitions =
            [446, 462, 478, 494].into_iter().all(is_partition) && [byte(510), byte(511)] == [0x55, 0xaa];
        let is_ext = [byte(1080), byte(1081)] == [0x53, 0xef] && byte(1048) <= 6 && self.bytes[1049..1052] == [0; 3];
        has_partitions || is_ext
    }
}

/// `name: (g=0): rw=read, bs=..., ioengine=psync, iodepth=1`.
fn is_fio_report(line: &str) -> bool {
    ["(g=", "rw=", "ioengine="].iter().all(|part| line.contains(part))
}

fn is_section(line: &str) -> bool {
    line.starts_with('[') && line.ends_with(']')
}

fn is_fio_option(line: &str) -> bool {
    let name = line.split('=').next().unwrap_or_default().trim();
    line.contains('=') && ["rw", "readwrite", "ioengine"].contains(&name)
}

/// `time, value, direction, block size` and, depending on fio's version, offset, priority and issue time.
fn is_fio_log(line: &str) -> bool {
    let columns: Vec<&str> = line.split(", ").collect();
    let is_number = |text: &&str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let is_any = |text: &&str| is_number(&text.strip_prefix("0x").map_or(*text, |_| "0"));
    (4..=7).contains(&columns.len())
        && columns[..4].iter().all(is_number)
        && columns[4..].iter().all(is_any)
        && ["0", "1", "2"].contains(&columns[2])
}

/// `[pid 7] 12:30:01.25 openat(AT_FDCWD, "f", O_RDONLY) = 3`, with or without process and time.
fn is_system_call(line: &str) -> bool {
    let Some((before, rest)) = line.split_once('(') else {
        return line.contains("<... ") && line.contains(" resumed>");
    };
    let name = before.rsplit(' ').next().unwrap_or_default();
    let is_name = !name.is_empty() && name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_');
    is_name && (rest.contains(") = ") || rest.contains(")  ") || rest.ends_with("<unfinished ...>"))
}

/// `{"name": ..., "ph": "X", "ts": ...}`.
fn is_span(line: &str) -> bool {
    line.starts_with(['{', '[']) && line.contains("\"ph\"") && line.contains("\"ts\"")
}

fn is_iostat(line: &str) -> bool {
    line.starts_with("Device") && ["r/s", "tps", "rrqm/s"].iter().any(|column| line.contains(column))
}

fn is_latency_table(line: &str) -> bool {
    let mut columns = line.split_ascii_whitespace();
    let is_table = columns.next().is_some_and(|first| ["TIME(s)", "TIME(ms)"].contains(&first));
    is_table && columns.clone().any(|column| column == "LAT(ms)") && columns.all(|column| column != "SECTOR")
}
