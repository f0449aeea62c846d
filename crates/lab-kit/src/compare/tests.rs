use super::*;

/// What fio 3.33 printed of `--rw=randrw --size=1m --name=mixed --filename=x.fio --name=mixed --rw=randread`.
const FIO: &str = include_str!("fio.json");

fn run(experiment: &str, figures: &str) -> Measured {
    let text = format!("{{\"experiment\": \"{experiment}\", \"seed\": 3, \"quick\": true, \"figures\": [{figures}]}}");
    read("run.json", &text).unwrap()
}

fn figure(id: &str, value: &str, unit: &str) -> String {
    format!("{{\"id\": \"{id}\", \"value\": {value}, \"unit\": \"{unit}\", \"paper\": null, \"peer\": null}}")
}

fn check_refusal(text: &str, why: &str) {
    let told = read("a.json", text).unwrap_err().to_string();
    assert!(told.starts_with("a.json: ") && told.contains(why), "{told}");
}

#[test]
fn a_report_of_fio_gives_rates_and_latencies_of_each_job_and_way() {
    let fio = read("fio.json", FIO).unwrap();
    assert_eq!((fio.kind, fio.about.as_str()), (ReportKind::Fio, "fio-3.33"));
    let names: Vec<&str> = fio.values.iter().map(|value| value.id.as_str()).collect();
    let of = |way: &str| {
        ["bw", "iops", "clat_mean", "clat_p50", "clat_p99", "clat_p99.9"].map(|what| format!("{way}/{what}"))
    };
    // The second job writes nothing.
    assert_eq!(names, [of("mixed/read"), of("mixed/write"), of("mixed#2/read")].concat());
    let value = |at: usize| (fio.values[at].value, fio.values[at].unit.as_str());
    assert_eq!([value(0), value(1)], [(25142.0, "KiB/s"), (6285.714286, "per s")]);
    assert_eq!([value(3), value(4), value(5)], [(61.696, "us"), (3948.544, "us"), (4046.848, "us")]);
}

#[test]
fn lines_before_a_report_are_passed_over_and_positions_stay() {
    let noisy = format!("fio: engine said\nsomething\n{FIO}");
    assert_eq!(read("fio.json", &noisy).unwrap().values, read("fio.json", FIO).unwrap().values);
    check_refusal("fio: hello\n{\"experiment\": 1,\n", "line 3 column 0");
}

#[test]
fn values_stand_beside_each_other_and_lonely_ones_apart() {
    let both =
        [figure("one", "2.0", "ms"), figure("zero", "0.0", ""), figure("left", "1", "s"), figure("same", "1", "s")];
    let other = [figure("zero", "5.0", ""), figure("one", "3.0", "ms"), figure("same", "1", "ms")];
    let comparison = compare(run("x", &both.join(",")), run("x", &other.join(","))).unwrap();
    let pairs: Vec<_> = comparison.both.iter().map(|pair| (pair.id.as_str(), pair.a, pair.b, pair.ratio)).collect();
    assert_eq!(pairs, [("one", 2.0, 3.0, Some(1.5)), ("zero", 0.0, 5.0, None)]);
    let ids = |values: &[NamedValue]| values.iter().map(|value| value.id.clone()).collect::<Vec<_>>();
    assert_eq!(
        (ids(&comparison.only_a), ids(&comparison.only_b)),
        (vec!["left".into(), "same".into()], vec!["same".into()])
    );
    assert_eq!(comparison.a.about, "x, seed 3, quick subset");
}

#[test]
fn a_value_that_is_no_number_is_left_out() {
    assert!(run("x", &figure("none", "null", "s")).values.is_empty());
}

#[test]
fn medians_of_repeated_runs_have_their_experiment_before_the_name() {
    let figure = r#"{"id": "y", "unit": "s", "median": 1.5, "mean": 2, "least": 1, "most": 4, "values": [1]}"#;
    let text =
        format!(r#"{{"quick": false, "repeat": 3, "experiments": [{{"experiment": "x", "figures": [{figure}]}}]}}"#);
    let repeat = read("r.json", &text).unwrap();
    assert_eq!(repeat.values, [NamedValue { id: "x/y".into(), unit: "s".into(), value: 1.5 }]);
    assert_eq!((repeat.kind, repeat.about.as_str()), (ReportKind::Repeat, "medians of up to 3 runs"));
}

#[test]
fn different_kinds_and_experiments_are_refused() {
    let fio = read("fio.json", FIO).unwrap();
    let told = compare(fio, run("x", "")).unwrap_err().to_string();
    assert_eq!(
        told,
        "fio.json is a report of fio, and run.json is a report of `esker lab run`; compare two of one kind"
    );
    let told = compare(run("x", ""), run("y", "")).unwrap_err().to_string();
    assert_eq!(told, "run.json is of x, and run.json of y; compare two runs of one experiment");
}

#[test]
fn damaged_and_foreign_files_are_refused_with_a_position() {
    check_refusal("", "line 1 column 0");
    check_refusal("{\"experiment\": \"x\",\n \"figures\": [1,]}", "line 2 column 16");
    check_refusal(
        "{\"experiment\": \"x\", \"seed\": 1, \"quick\": true, \"figures\": [{\"id\": \"y\"}]}",
        "missing field `unit`",
    );
    check_refusal("{\"fio version\": \"fio-3\", \"jobs\": [{}]}", "missing field `jobname` at line 1");
    check_refusal("{\"figures\": 1}", "no report of `esker lab run --json`");
    check_refusal("[]", "no report of");
}
