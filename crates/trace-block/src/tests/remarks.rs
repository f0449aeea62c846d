//! Comments, headers and empty lines are no requests and no faults.

use super::{read_all, record};
use crate::{Format, Op, detect};

/// A header where there may be one, and a line of each text format without a header of its own.
const LINES: [(Format, &str, &str); 9] = [
    (Format::Load, "start ; sector; length ; op", "0.5 ; 8 ; 8 ; R"),
    (
        Format::Msr,
        "Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime",
        "128166372003061629,usr,0,Read,0,512,9",
    ),
    (Format::Alibaba, "device_id,opcode,offset,length,timestamp", "1,R,0,512,7"),
    (Format::Tencent, "Timestamp,Offset,Size,IOType,VolumeID", "7,0,8,0,1"),
    (Format::Fiu, "", "7 1 p 0 8 R 6 0"),
    (Format::Mqsim, "", "7 0 0 8 1"),
    (Format::Disksim, "", "7.5 0 0 8 1"),
    (Format::DisksimMeasured, "", "R Hit 0 8 1.0 2.0"),
    (Format::Blkparse, "", "8,0 3 1 0.5 697 Q R 0 + 8 [p]"),
];

#[test]
fn comments_headers_and_empty_lines_are_passed_over_wherever_they_stand() {
    for (format, header, line) in LINES {
        let text = format!("# a comment\n\n// another\n{header}\n{line}\n#again\n//\n{line}\n");
        assert_eq!(detect("t", text.as_bytes()), Some(format), "{format}");
        let (records, reader) = read_all(text, format);
        let report = reader.report();
        assert_eq!((records.len(), report.malformed), (2, 0), "{format}: {report}");
        assert!(report.skipped >= 4, "{format}: {report}");
    }
}

#[test]
fn headers_are_known_in_any_case() {
    let text = "TIMESTAMP,HOSTNAME,DiskNumber,Type,Offset,Size,ResponseTime\n1,usr,0,Read,0,512,9\n";
    assert_eq!(detect("t", text.as_bytes()), Some(Format::Msr));
    assert_eq!(read_all(text, Format::Msr).0, [record(0, 0, Op::Read, 0, 512)]);
}
