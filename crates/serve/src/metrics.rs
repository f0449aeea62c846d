//! The page that Prometheus reads, made from a [`Status`].
//!
//! `docs/reference/metrics.md` lists its families.

use std::fmt;

use esker_metrics::monitor::{Alert, FamilyRow, When};
use esker_metrics::{Families, Histogram, Labels, Unit, flag, one};

use crate::status::{Load, MountStatus, OpLoad, PartStatus, Status, UsageStatus};

/// Bounds of the histograms in nanoseconds; the last bucket has none.
const BOUNDS: [u64; 19] = [
    10_000,
    25_000,
    50_000,
    100_000,
    250_000,
    500_000,
    1_000_000,
    2_500_000,
    5_000_000,
    10_000_000,
    25_000_000,
    50_000_000,
    100_000_000,
    250_000_000,
    500_000_000,
    1_000_000_000,
    2_500_000_000,
    5_000_000_000,
    10_000_000_000,
];

/// The whole page.
pub fn page(status: Status) -> String {
    esker_metrics::page("esker", status, |out, status| {
        server(out, status)?;
        exports(out, status)?;
        mounts(out, status)?;
        parts(out, status)?;
        models(out, status)
    })
}

/// All families, in the order of the page.
pub fn families() -> Vec<FamilyRow> {
    FamilyRow::all(&page(Status::default()))
}

const fn alert(family: &'static str, when: When, held: u32, severity: &'static str, advice: &'static str) -> Alert {
    Alert { family, when, held, severity, advice }
}

/// What an operator is told of at once (`critical`), or during the day (`warning`).
pub const ALERTS: &[Alert] = &[
    alert(
        "esker_dead",
        When::Yes,
        0,
        "critical",
        "Read the log, repair the device that it names, and restart the server.",
    ),
    alert("esker_export_up", When::No, 1, "critical", "`esker status` says why the export cannot be used."),
    alert("esker_export_errors", When::Grows, 0, "critical", "Clients saw failed requests; the log names the device."),
    alert("esker_mount_failed", When::Yes, 0, "critical", "`esker status` says why it could not be mounted or closed."),
    alert("esker_device_unusable", When::Yes, 1, "critical", "`esker status` says why the device could not be opened."),
    alert("esker_device_latched", When::Yes, 0, "critical", "Repair the device, and restart the server."),
    alert(
        "esker_device_degraded",
        When::Yes,
        5,
        "warning",
        "Replace the part below that is missing; `esker status` names it.",
    ),
    alert(
        "esker_device_violations",
        When::Grows,
        0,
        "warning",
        "A layer broke the contract of requests; report it with the log.",
    ),
    alert("esker_frozen", When::Yes, 10, "warning", "`esker thaw` lets requests go on."),
];

fn histogram(op: &OpLoad) -> Histogram {
    Histogram { sum: op.time_ns as f64 / 1e9, count: op.count, buckets: buckets(op) }
}

/// Requests by bounds: a request counts in the first bucket that holds all of its fine bucket.
fn buckets(op: &OpLoad) -> Vec<(f64, u64)> {
    // A status may come from a server that counts wrongly: the sum of all is still a number.
    let (mut counts, mut room) = ([0; BOUNDS.len() + 1], u64::MAX);
    for (latency, count) in &op.latency_ns {
        let count = room.min(*count);
        room -= count;
        counts[BOUNDS.partition_point(|bound| bound < latency)] += count;
    }
    let bounds = BOUNDS.iter().map(|bound| *bound as f64 / 1e9).chain([f64::INFINITY]);
    bounds.zip(counts).collect()
}

fn server(out: &mut Families<'_>, status: &Status) -> fmt::Result {
    let build = (vec![("version", status.version.clone()), ("io", status.io.clone())], 1.0);
    out.gauges(("build_info", "The program that serves.", None), [build])?;
    out.gauges(("uptime", "Time since the start.", Some(Unit::Seconds)), one(status.uptime_s))?;
    out.gauges(("dead", "Whether the stack refuses everything.", None), flag(status.dead.is_some()))?;
    out.gauges(("frozen", "Whether requests are held by a freeze.", None), flag(status.frozen.is_some()))?;
    out.gauges(("in_flight", "Requests inside the stack.", None), one(status.inflight as f64))?;
    out.gauges(("connections", "Clients that are connected.", None), one(status.connections as f64))?;
    out.counters(("changes", "Live changes of the stack.", None), one(status.changes as f64))?;
    let bytes = Some(Unit::Bytes);
    out.counters(("copied", "Payload copied on its way.", bytes.clone()), one(status.bounced_bytes as f64))?;
    out.counters(("tls_copied", "Bytes copied by TLS.", bytes), one(status.tls_bytes as f64))
}

fn exports(out: &mut Families<'_>, status: &Status) -> fmt::Result {
    // An export may be there on several ways; its load is that of all.
    let mut exports: Vec<_> = status.exports.iter().collect();
    exports.sort_by_key(|export| &export.name);
    exports.dedup_by_key(|export| &export.name);
    let label = |name: &str| vec![("export", name.to_string())];
    let size = exports.iter().map(|e| (label(&e.name), e.size as f64));
    out.gauges(("export_size", "Size of an export.", Some(Unit::Bytes)), size)?;
    let up = exports.iter().map(|e| (label(&e.name), f64::from(u8::from(e.unusable.is_none()))));
    out.gauges(("export_up", "Whether an export can be used.", None), up)?;
    let clients = |name: &str| status.clients.iter().filter(|c| c.export.as_deref() == Some(name)).count();
    let users = exports.iter().map(|e| (label(&e.name), clients(&e.name) as f64));
    out.gauges(("export_connections", "NBD clients of an export.", None), users)?;
    let loads: Vec<_> = exports.iter().map(|e| (label(&e.name), &e.load)).collect();
    place(out, "export", "an export", &loads)
}

fn mounts(out: &mut Families<'_>, status: &Status) -> fmt::Result {
    let label = |mount: &MountStatus| vec![("mount", mount.name.clone()), ("fs", mount.fs.clone())];
    let each = |value: fn(&MountStatus) -> bool| {
        status.mounts.iter().map(move |mount| (label(mount), f64::from(u8::from(value(mount)))))
    };
    out.gauges(("mount_up", "Whether a file system is mounted.", None), each(|mount| mount.mounted))?;
    out.gauges(
        ("mount_failed", "Whether a file system could not be mounted or closed.", None),
        each(|m| m.unusable.is_some()),
    )?;
    let requests = status.mounts.iter().flat_map(|mount| {
        let with = move |op: &String| [label(mount), vec![("op", op.clone())]].concat();
        mount.requests.iter().map(move |(op, count)| (with(op), *count as f64))
    });
    out.counters(("mount_requests", "Requests of the kernel to a mount.", None), requests)?;
    let stats = status.mounts.iter().flat_map(|mount| {
        let with = move |stat: &String| [label(mount), vec![("stat", stat.clone())]].concat();
        mount.stats.iter().map(move |(stat, value)| (with(stat), *value))
    });
    out.gauges(("mount_stat", "What a file system counts itself; the unit ends its name.", None), stats)?;
    let loads = status.mounts.iter().filter_map(|mount| Some((label(mount), mount.load.as_ref()?)));
    place(out, "mount_device", "the device of a mount", &loads.collect::<Vec<_>>())
}

fn parts(out: &mut Families<'_>, status: &Status) -> fmt::Result {
    let label = |part: &PartStatus| vec![("device", part.name.clone()), ("kind", part.kind.clone())];
    let ends = status.parts.iter().flat_map(|part| part.ends.iter().map(move |end| (part, end)));
    let loads = ends.filter_map(|(part, end)| {
        let labels = vec![("device", end.name.clone()), ("kind", part.kind.clone())];
        Some((labels, end.load.as_ref()?))
    });
    place(out, "device", "a device or layer", &loads.collect::<Vec<_>>())?;
    let each = |value: fn(&PartStatus) -> f64| status.parts.iter().map(move |part| (label(part), value(part)));
    out.counters(
        ("device_violations", "How often a device or layer broke the contract.", None),
        each(|p| p.violations as f64),
    )?;
    out.counters(
        ("device_generated_requests", "Requests that a device or layer made by itself.", None),
        each(|p| p.generated as f64),
    )?;
    let unusable = each(|part| f64::from(u8::from(part.unusable.is_some())));
    out.gauges(("device_unusable", "Whether a device or layer could not be opened.", None), unusable)?;
    let latched = each(|part| f64::from(u8::from(part.latched.is_some())));
    out.gauges(("device_latched", "Whether a device or layer refuses changes since one failed.", None), latched)?;
    let degraded = each(|part| f64::from(u8::from(part.degraded.is_some())));
    out.gauges(("device_degraded", "Whether a device or layer does without something below.", None), degraded)?;
    let stats = status.parts.iter().flat_map(|part| {
        let with = move |stat: &String| [label(part), vec![("stat", stat.clone())]].concat();
        part.stats.iter().map(move |(stat, value)| (with(stat), *value))
    });
    out.gauges(("device_stat", "What a device or layer counts itself; the unit ends its name.", None), stats)
}

/// What is told of every place that is measured.
fn place(out: &mut Families<'_>, prefix: &str, what: &str, loads: &[(Labels, &Load)]) -> fmt::Result {
    let name = |end: &str| format!("{prefix}_{end}");
    let in_flight = loads.iter().map(|(labels, load)| (labels.clone(), load.in_flight as f64));
    out.gauges((&name("in_flight"), &format!("Requests inside {what}."), None), in_flight)?;
    let with = |labels: &Labels, op: &OpLoad| [labels.clone(), vec![("op", op.op.clone())]].concat();
    let ops: Vec<(Labels, &OpLoad)> =
        loads.iter().flat_map(|(labels, load)| load.ops.iter().map(move |op| (with(labels, op), op))).collect();
    let each = |value: fn(&OpLoad) -> u64| ops.iter().map(move |(labels, op)| (labels.clone(), value(op) as f64));
    out.counters((&name("requests"), &format!("Requests answered by {what}."), None), each(|op| op.count))?;
    out.counters((&name("errors"), &format!("Requests that failed at {what}."), None), each(|op| op.failed))?;
    let bytes = Some(Unit::Bytes);
    out.counters((&name("transferred"), &format!("Bytes asked of {what}."), bytes), each(|op| op.bytes))?;
    let latencies = ops.iter().map(|(labels, op)| (labels.clone(), histogram(op)));
    let help = format!("Time until the answer of {what}.");
    out.histograms((&name("latency"), &help, Some(Unit::Seconds)), latencies)
}

fn models(out: &mut Families<'_>, status: &Status) -> fmt::Result {
    let models: Vec<(Labels, UsageStatus)> =
        status.parts.iter().filter_map(|part| Some((vec![("device", part.name.clone())], part.usage?))).collect();
    let each =
        |value: fn(&UsageStatus) -> f64| models.iter().map(move |(labels, usage)| (labels.clone(), value(usage)));
    let bytes = Some(Unit::Bytes);
    out.counters(("model_energy", "Energy that a modelled device used.", Some(Unit::Joules)), each(|u| u.energy_j))?;
    out.counters(("model_busy", "Time in which a modelled device worked.", Some(Unit::Seconds)), each(|u| u.busy_s))?;
    let written = each(|usage| usage.written_bytes as f64);
    out.counters(
        ("model_medium_written", "Bytes written to the medium of a modelled device.", bytes.clone()),
        written,
    )?;
    out.counters(
        ("model_medium_read", "Bytes read from the medium of a modelled device.", bytes),
        each(|usage| usage.read_bytes as f64),
    )
}

#[cfg(test)]
mod tests {
    use esker_metrics::monitor;
    use esker_testkit::{generated, promtool};

    use super::*;
    use crate::status::{EndStatus, ExportStatus, FrozenStatus};

    const RULES: &str = "esker.rules.json";

    fn load() -> Load {
        let latency_ns = vec![(9_000, 2), (10_000, 1), (10_001, 1), (60_000_000_000, 1)];
        let op = OpLoad {
            op: "read".into(),
            count: 5,
            bytes: 4096,
            time_ns: 1_500_000_000,
            latency_ns,
            ..OpLoad::default()
        };
        Load { in_flight: 3, in_flight_max: 4, ops: vec![op] }
    }

    #[test]
    fn counts_that_are_nonsense_still_make_a_page() {
        let latency_ns = vec![(10, u64::MAX), (20, 2), (60_000_000_000, 1)];
        let op = OpLoad { op: "read".into(), latency_ns, ..OpLoad::default() };
        assert_eq!(buckets(&op).into_iter().map(|(_, count)| count).sum::<u64>(), u64::MAX);
        let load = Load { ops: vec![op], ..Load::default() };
        let export = ExportStatus { load, ..ExportStatus::default() };
        assert!(page(Status { exports: vec![export], ..Status::default() }).contains("18446744073709551615"));
    }

    #[test]
    fn the_page_has_families_with_help_types_units_and_whole_histograms() {
        let export = ExportStatus { name: "a \"b\"\\".into(), size: 8192, load: load(), ..ExportStatus::default() };
        let usage = UsageStatus { energy_j: 2.5, ..UsageStatus::default() };
        let ends = vec![EndStatus { name: "d".into(), load: Some(load()), ..EndStatus::default() }];
        let latched = Some("d is latched: x. Restart.".to_string());
        let (name, kind, usage) = ("d".to_string(), "k".to_string(), Some(usage));
        let part = PartStatus { name, kind, usage, ends, latched, ..PartStatus::default() };
        let down =
            ExportStatus { name: "down".into(), unusable: Some("It is not open.".into()), ..ExportStatus::default() };
        let twice = vec![export.clone(), export, down];
        let requests = [("LOOKUP".to_string(), 3)].into();
        let mount =
            MountStatus { name: "m".into(), fs: "ram".into(), mounted: true, requests, ..MountStatus::default() };
        let (parts, mounts) = (vec![part], vec![mount]);
        let page = page(Status { exports: twice, parts, mounts, uptime_s: 1.5, ..Status::default() });
        for line in [
            "# HELP esker_uptime_seconds Time since the start.",
            "# TYPE esker_uptime_seconds gauge",
            "# UNIT esker_uptime_seconds seconds",
            "esker_uptime_seconds 1.5",
            "# TYPE esker_export_latency_seconds histogram",
            r#"esker_export_size_bytes{export="a \"b\"\\"} 8192.0"#,
            r#"esker_device_requests_total{device="d",kind="k",op="read"} 5.0"#,
            r#"esker_export_up{export="a \"b\"\\"} 1.0"#,
            r#"esker_export_up{export="down"} 0.0"#,
            r#"esker_device_latched{device="d",kind="k"} 1.0"#,
            r#"esker_device_degraded{device="d",kind="k"} 0.0"#,
            r#"esker_device_latency_seconds_sum{device="d",kind="k",op="read"} 1.5"#,
            r#"esker_device_latency_seconds_count{device="d",kind="k",op="read"} 5"#,
            r#"esker_device_latency_seconds_bucket{le="0.00001",device="d",kind="k",op="read"} 3"#,
            r#"esker_device_latency_seconds_bucket{le="0.000025",device="d",kind="k",op="read"} 4"#,
            r#"esker_device_latency_seconds_bucket{le="10.0",device="d",kind="k",op="read"} 4"#,
            r#"esker_device_latency_seconds_bucket{le="+Inf",device="d",kind="k",op="read"} 5"#,
            r#"esker_model_energy_joules_total{device="d"} 2.5"#,
            r#"esker_mount_up{mount="m",fs="ram"} 1.0"#,
            r#"esker_mount_failed{mount="m",fs="ram"} 0.0"#,
            r#"esker_mount_requests_total{mount="m",fs="ram",op="LOOKUP"} 3.0"#,
        ] {
            assert_eq!(page.lines().filter(|l| *l == line).count(), 1, "{line}\n{page}");
        }
        assert!(page.ends_with("# EOF\n"));
    }

    #[test]
    fn dashboard_and_alert_rules_are_those_of_the_families_and_promtool_takes_them() {
        let families = families();
        let board = monitor::dashboard("Esker", "esker", &families);
        let rules = monitor::rules("esker", &families, ALERTS);
        generated::check_json("dist/grafana/esker.json", &board);
        generated::check_json(&format!("dist/prometheus/{RULES}"), &rules);
        promtool::check("alerts", &rules.to_string());
        promtool::check("panels", &monitor::recorded(&board).to_string());
    }

    /// A server without trouble, of which two of a kind are there. `hurt` changes the second ones.
    fn status(hurt: fn(&mut ExportStatus, &mut MountStatus, &mut PartStatus)) -> Status {
        let pair = || ["one", "two"].map(str::to_string);
        let op = |op: &str, failed| OpLoad { op: op.into(), count: 9, failed, ..OpLoad::default() };
        let load = || Load { ops: vec![op("read", 0), op("write", 3)], ..Load::default() };
        let exports = pair().map(|name| ExportStatus { name, load: load(), ..ExportStatus::default() });
        let mount = |name| MountStatus { name, fs: "lfs".into(), mounted: true, ..MountStatus::default() };
        let mounts = pair().map(mount);
        let parts = pair().map(|name| PartStatus { name, kind: "k".into(), violations: 1, ..PartStatus::default() });
        let (mut exports, mut mounts, mut parts) = (exports.to_vec(), mounts.to_vec(), parts.to_vec());
        hurt(&mut exports[1], &mut mounts[1], &mut parts[1]);
        Status { exports, mounts, parts, ..Status::default() }
    }

    #[test]
    fn each_alert_is_raised_for_the_series_in_trouble_and_for_no_other() {
        let failing = status(|export, mount, part| {
            let why = || Some("It broke.".to_string());
            (export.unusable, mount.unusable, part.unusable) = (why(), why(), why());
            (part.latched, part.degraded, part.violations) = (why(), why(), 2);
            export.load.ops[1].failed += 1;
            export.load.ops.push(OpLoad { op: "trim".into(), count: 1, failed: 1, ..OpLoad::default() });
        });
        let failing = Status { dead: Some("It broke.".into()), frozen: Some(FrozenStatus::default()), ..failing };
        let (families, [sound, failing]) = (families(), [status(|_, _, _| {}), failing].map(page));
        let trials = monitor::trials(RULES, &families, ALERTS, &sound, &failing);
        generated::check_json("dist/prometheus/esker.rules.test.json", &trials);
        promtool::try_rules(RULES, &monitor::rules("esker", &families, ALERTS).to_string(), &trials.to_string());
    }
}
