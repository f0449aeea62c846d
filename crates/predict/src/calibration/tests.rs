use super::times::{GROUPS, group_of};
use super::*;
use esker_base::{Nanos, Stream};

/// A device whose read of any length takes `alone` ns and `crowded` ns among 4 of its kind; longer ones by length.
fn device(kind: &str, on_cpu: bool, alone: f64, crowded: f64) -> DeviceTimes {
    let times = |len: u64, depth: u32, ns: f64| Times {
        op: OpName::Read,
        len,
        depth,
        mixed: false,
        requests: 1,
        client_ns: 0.0,
        mean_ns: ns,
        groups_ns: vec![ns; GROUPS.len()],
    };
    let far = |ns: f64| ns * 16.0;
    let times = vec![
        times(4096, 1, alone),
        times(65_536, 1, far(alone)),
        times(4096, 4, crowded),
        times(65_536, 4, far(crowded)),
    ];
    DeviceTimes { kind: kind.to_string(), path: None, size: 1 << 20, block: 512, on_cpu, times }
}

fn calibration(devices: Vec<DeviceTimes>) -> Calibration {
    Calibration {
        written_by: WRITTEN_BY.to_string(),
        version: VERSION,
        machine: "test".to_string(),
        seed: 1,
        rounds: 1,
        wakes: Vec::new(),
        calls: Vec::new(),
        kinds: vec![KindCost { name: "pass".to_string(), ns: 10.0, ns_per_kib: 0.5, spread_ns: 0.0 }],
        skipped: vec![Skipped { name: "tap".to_string(), why: "a file".to_string() }],
        devices,
    }
}

#[test]
fn the_file_reads_back_and_damage_is_told_with_its_line() {
    let written = calibration(vec![device("memory", true, 100.0, 100.0)]);
    assert_eq!(Calibration::parse("c.toml", &written.to_toml()).unwrap(), written);
    let refused = |text: &str| Calibration::parse("c.toml", text).unwrap_err().to_string();
    assert!(refused("version = ").contains("line 1"), "{}", refused("version = "));
    let newer = written.to_toml().replace("version = 2", "version = 9");
    assert!(refused(&newer).contains("version 9 is not the version 2"));
    let negative = written.to_toml().replace("ns = 10.0", "ns = -10.0");
    assert!(refused(&negative).contains("kind \"pass\""));
    let wake = |span_ns| Wake { span_ns, late_ns: vec![1.0; GROUPS.len()] };
    let falling = Calibration { wakes: vec![wake(2), wake(1)], ..written.clone() };
    assert!(refused(&falling.to_toml()).contains("[[wake]] need rising spans"));
    let short = calibration(vec![DeviceTimes { times: Vec::new(), ..device("memory", true, 1.0, 1.0) }]);
    assert!(refused(&short.to_toml()).contains("device \"memory\": has no times"));
}

#[test]
fn groups_cover_every_share_once() {
    assert_eq!([0.0, 0.024, 0.025, 0.5, 0.99, 0.9999].map(group_of), [0, 0, 1, 10, 25, 29]);
}

#[test]
fn times_between_measured_ones_are_linear_and_go_on_beyond() {
    let device = device("file", false, 100.0, 400.0);
    let at = |len, depth| device.at(OpName::Read, false, len, depth, 0).round();
    assert_eq!((at(512, 1.0), at(4096, 1.0), at(65_536, 1.0)), (100.0, 100.0, 1600.0));
    assert_eq!((at(4096, 2.5), at(4096, 7.0)), (250.0, 700.0));
    assert_eq!(at(126_976, 1.0), 3100.0);
    assert_eq!(device.at(OpName::Flush, true, 0, 1.0, 0), 100.0, "what was not measured takes as long as a short read");
}

#[test]
fn among_equals_the_measured_time_holds_and_longer_neighbours_add_more() {
    let device = device("file", false, 100.0, 400.0);
    let (short, long) = ((OpName::Read, 4096), (OpName::Read, 65_536));
    let among = |own, others: &[(OpName, u64, u32)]| device.service(own, false, others, 0).round();
    assert_eq!(among(short, &[]), 100.0);
    assert_eq!(among(short, &[(OpName::Read, 4096, 3)]), 400.0);
    assert_eq!(among(long, &[(OpName::Read, 65_536, 3)]), 6400.0);
    assert_eq!(among(short, &[(OpName::Read, 65_536, 3)]), 100.0 + 4800.0);
}

#[test]
fn who_waits_longer_comes_later_up_to_the_longest_measured_wait() {
    let wake = |span_ns, late| Wake { span_ns, late_ns: vec![late; GROUPS.len()] };
    let client = |is_paced| ClientCost::measured(None, &[wake(1000, 10.0), wake(3000, 30.0)], is_paced);
    let mut random = Stream::named(1, "test");
    let mut late = |span| client(true).late(Nanos(span), &mut random).0;
    assert_eq!([0, 1, 1000, 2000, 9000].map(&mut late), [0, 10, 10, 20, 30]);
    let mut seen = |is_paced| client(is_paced).sees_late(Nanos(2000), &mut random).0;
    assert_eq!((seen(true), seen(false)), (20, 0), "times that were measured contain it");
}

proptest::proptest! {
    #[test]
    fn any_text_is_read_or_refused(text in "\\PC{0,200}") {
        let told = Calibration::parse("c.toml", &text).unwrap_err().to_string();
        assert!(told.starts_with("c.toml: ") && told.contains("esker calibrate"));
    }
}
