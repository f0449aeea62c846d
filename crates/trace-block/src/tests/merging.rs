//! Merging, selecting a volume and changing the speed.

use super::{drain, read_all, record, write_all};
use crate::{Format, Merged, Op, Rescaled, Source, Speed, TraceError, TraceReader, VolumeFilter};
use esker_base::Nanos;
use proptest::collection::vec;
use proptest::prelude::*;

fn source(name: &str, times: &[u64]) -> TraceReader {
    let records: Vec<_> = times.iter().map(|t| record(*t, 0, Op::Write, t * 512, 512)).collect();
    let (bytes, _) = write_all(&records, &[], Format::Load);
    TraceReader::open(name, Box::new(std::io::Cursor::new(bytes)), None).unwrap()
}

proptest! {
    #[test]
    fn a_merge_is_the_stable_sort_of_its_traces(traces in vec(vec(0u64..50, 0..30), 1..5)) {
        let sorted = |t: &Vec<u64>| { let mut t = t.clone(); t.sort(); t };
        let traces: Vec<Vec<u64>> = traces.iter().map(sorted).collect();
        let sources = traces.iter().enumerate().map(|(i, t)| source(&format!("t{i}"), t)).collect();
        let mut merged = Merged::new(sources).unwrap();
        let got: Vec<(u64, u32)> = drain(&mut merged).iter().map(|r| (r.at.0, r.volume)).collect();
        let mut expected: Vec<(u64, u32)> =
            traces.iter().enumerate().flat_map(|(i, t)| t.iter().map(move |t| (*t, i as u32))).collect();
        expected.sort();
        prop_assert_eq!(got, expected);
        prop_assert_eq!(merged.volumes().len(), traces.len());
    }
}

#[test]
fn a_merge_names_its_volumes_after_the_traces() {
    let mut merged = Merged::new(vec![source("web", &[1, 3]), source("db", &[2])]).unwrap();
    assert_eq!((merged.volumes(), merged.name()), (&["web".to_string(), "db".to_string()][..], "web + db"));
    assert_eq!(drain(&mut merged).iter().map(|r| r.volume).collect::<Vec<_>>(), [0, 1, 0]);
    assert_eq!(merged.sources()[0].report().records, 2);
}

fn two_disks() -> TraceReader {
    let records =
        [record(0, 0, Op::Read, 0, 512), record(100, 1, Op::Read, 4096, 512), record(200, 1, Op::Read, 0, 512)];
    let (bytes, _) = write_all(&records, &["usr.0", "usr.1"], Format::Msr);
    TraceReader::open("usr.csv", Box::new(std::io::Cursor::new(bytes)), None).unwrap()
}

#[test]
fn a_trace_of_two_disks_needs_one_to_be_selected() {
    let mut merged = Merged::new(vec![two_disks()]).unwrap();
    let e = std::iter::from_fn(|| merged.next_record().transpose()).find_map(Result::err).unwrap();
    assert_eq!(
        e.to_string(),
        "usr.csv: holds several volumes (usr.0, usr.1, ...), one is needed; select one of them by name"
    );
    let mut one = VolumeFilter::new(two_disks(), "usr.1");
    let selected = drain(&mut one);
    assert_eq!((one.volumes(), one.inner().volumes().len()), (&["usr.1".to_string()][..], 2));
    assert_eq!(selected, [record(100, 0, Op::Read, 4096, 512), record(200, 0, Op::Read, 0, 512)]);
    let mut missing = VolumeFilter::new(two_disks(), "usr.2");
    let e = missing.next_record().unwrap_err();
    assert!(matches!(e, TraceError::NoSuchVolume { .. }));
    assert_eq!(e.to_string(), "usr.csv: has no volume \"usr.2\"; it has: usr.0, usr.1");
}

#[test]
fn speed_divides_times_exactly() {
    let mut sped = Rescaled::new(source("t", &[0, 10, 15]), Speed::new(2.5).unwrap());
    assert_eq!(drain(&mut sped).iter().map(|r| r.at.0).collect::<Vec<_>>(), [0, 4, 6]);
    assert_eq!(sped.inner().report().records, 3);
    assert_eq!(Speed::new(0.5).unwrap().apply(Nanos(u64::MAX / 2)), Nanos(u64::MAX - 1));
    assert_eq!(Speed::new(1e-6).unwrap().apply(Nanos(u64::MAX)), Nanos(u64::MAX));
    assert_eq!(Speed::RECORDED.apply(Nanos(u64::MAX)), Nanos(u64::MAX));
    for bad in [0.0, -1.0, 1e-7, 1e7, f64::NAN, f64::INFINITY] {
        assert_eq!(Speed::new(bad), None, "{bad}");
    }
}

#[test]
fn merging_nothing_and_empty_traces_ends_at_once() {
    assert_eq!(Merged::<TraceReader>::new(Vec::new()).unwrap().next_record().unwrap(), None);
    let header_only = write_all(&[], &[], Format::Load).0;
    assert!(read_all(header_only, Format::Load).0.is_empty());
}
