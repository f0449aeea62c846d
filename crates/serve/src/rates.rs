//! What went on between two statuses: rates, latencies and queues, as `esker top` shows them.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::status::{ClientStatus, Load, MountStatus, OpLoad, PartStatus, Status, quantile};

/// What went on in a server for a while.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct View {
    /// Seconds since the server's start.
    pub uptime_s: f64,
    /// Seconds that the rates are about.
    pub interval_s: f64,
    /// How the kernel is reached.
    pub io: String,
    /// Which parts are measured.
    pub measured: String,
    /// Why the stack refuses everything, if it does.
    pub dead: Option<String>,
    /// What an operator must know, in whole sentences; `dead` is among it.
    pub problems: Vec<String>,
    /// Seconds until the freeze in force ends by itself.
    pub frozen_left_s: Option<f64>,
    /// Whether the server is stopping.
    pub stopping: bool,
    /// Clients that are connected.
    pub connections: u64,
    /// Requests inside the stack.
    pub inflight: u64,
    /// Exports, then mounts, then devices and layers in the order of the text.
    pub rows: Vec<Row>,
    /// Clients, oldest first.
    pub clients: Vec<ClientRow>,
}

/// What a row is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum What {
    /// An export.
    Export,
    /// A mount.
    Mount,
    /// A device at the bottom.
    Device,
    /// A layer.
    Layer,
}

/// One export, mount, device or upper port of a layer.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Row {
    /// What it is.
    pub what: What,
    /// Its name.
    pub name: String,
    /// Its kind, of a mount that of its file system; empty for exports.
    pub kind: String,
    /// What came by, unless it is not measured. Of a mount: requests of the kernel; all else is of its device.
    pub flow: Option<Rates>,
    /// Power in watts, if it is a model.
    pub power_w: Option<f64>,
    /// Energy in joules since the start, if it is a model.
    pub energy_j: Option<f64>,
    /// Share of the time in which it worked, if it is a model.
    pub busy: Option<f64>,
    /// Bytes that it writes below for each byte of data, if it tells that.
    pub amplification: Option<f64>,
    /// Times that it broke the contract.
    pub violations: u64,
    /// Why it cannot be used.
    pub unusable: Option<String>,
    /// What the file system of a mount tells of itself.
    pub stats: BTreeMap<String, f64>,
}

/// What came by one place in the interval.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Rates {
    /// Requests answered a second.
    pub ops_s: f64,
    /// Reads of them.
    pub reads_s: f64,
    /// Writes of them.
    pub writes_s: f64,
    /// Bytes read a second.
    pub read_bytes_s: f64,
    /// Bytes written a second.
    pub written_bytes_s: f64,
    /// Requests a second that failed.
    pub failed_s: f64,
    /// Of reads and writes, in nanoseconds.
    pub p50_ns: u64,
    /// Of reads and writes, in nanoseconds.
    pub p99_ns: u64,
    /// Of reads and writes, in nanoseconds.
    pub max_ns: u64,
    /// Requests without an answer at the end of the interval.
    pub queue: u64,
    /// The same on average over the interval (Little's law: latencies of what was answered, over its length).
    pub queue_mean: f64,
}

/// One client.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ClientRow {
    /// Its number, as in the log.
    pub client: u64,
    /// The peer.
    pub peer: String,
    /// Its export.
    pub export: String,
    /// Whether it is inside TLS.
    pub tls: bool,
    /// Seconds since it came.
    pub for_s: f64,
    /// Requests that it made a second.
    pub ops_s: f64,
    /// Bytes that it asked to read a second.
    pub read_bytes_s: f64,
    /// Bytes that it asked to write a second.
    pub written_bytes_s: f64,
    /// Its requests without an answer.
    pub queue: u64,
}

impl View {
    /// What went on from `before` to `now`, both of one server; since its start if there is no `before`, or if that was
    /// another server.
    pub fn between(before: Option<&Status>, now: &Status) -> View {
        let before = before.filter(|before| before.uptime_s <= now.uptime_s);
        let span = now.uptime_s - before.map_or(0.0, |before| before.uptime_s);
        View {
            uptime_s: now.uptime_s,
            interval_s: span,
            io: now.io.clone(),
            measured: now.measured.clone(),
            dead: now.dead.clone(),
            problems: now.problems(),
            frozen_left_s: now.frozen.as_ref().map(|frozen| frozen.left_s),
            stopping: now.stopping,
            connections: now.connections,
            inflight: now.inflight,
            rows: [exports(before, now, span), mounts(before, now, span), parts(before, now, span)].concat(),
            clients: now.clients.iter().map(|client| client_row(before, client, span)).collect(),
        }
    }
}

fn exports(before: Option<&Status>, now: &Status, span: f64) -> Vec<Row> {
    let mut rows: Vec<Row> = Vec::new();
    for export in &now.exports {
        if rows.iter().any(|row| row.name == export.name) {
            continue;
        }
        let old = before.and_then(|b| b.exports.iter().find(|e| e.name == export.name));
        rows.push(Row {
            flow: Some(rates(old.map(|old| &old.load), &export.load, span)),
            ..row(What::Export, &export.name, "")
        });
    }
    rows
}

fn row(what: What, name: &str, kind: &str) -> Row {
    let (name, kind) = (name.to_string(), kind.to_string());
    Row {
        what,
        name,
        kind,
        flow: None,
        power_w: None,
        energy_j: None,
        busy: None,
        amplification: None,
        violations: 0,
        unusable: None,
        stats: BTreeMap::new(),
    }
}

fn mounts(before: Option<&Status>, now: &Status, span: f64) -> Vec<Row> {
    let of = |mount: &MountStatus| {
        let old = before.and_then(|b| b.mounts.iter().find(|m| m.name == mount.name));
        let count = |mount: &MountStatus| mount.requests.values().sum::<u64>();
        let requests = count(mount).saturating_sub(old.map_or(0, count));
        let below = mount.load.as_ref().map(|load| rates(old.and_then(|old| old.load.as_ref()), load, span));
        Row {
            flow: Some(Rates { ops_s: rate(requests as f64, span), ..below.unwrap_or_default() }),
            unusable: mount.unusable.clone(),
            stats: mount.stats.clone(),
            ..row(What::Mount, &mount.name, &mount.fs)
        }
    };
    now.mounts.iter().map(of).collect()
}

fn parts(before: Option<&Status>, now: &Status, span: f64) -> Vec<Row> {
    let mut rows = Vec::new();
    for part in &now.parts {
        let old = before.and_then(|b| b.parts.iter().find(|p| p.name == part.name));
        let first = rows.len();
        for end in &part.ends {
            let old = old.and_then(|old| old.ends.iter().find(|e| e.name == end.name)?.load.as_ref());
            // Without an earlier reading of a meter that was put in since, its rates are not known yet.
            let flow = end.load.as_ref().map(|load| rates(old, load, span));
            let what = if part.on.is_empty() { What::Device } else { What::Layer };
            rows.push(Row { flow, ..row(what, &end.name, &part.kind) });
        }
        if let Some(row) = rows.get_mut(first) {
            describe(row, old, part, span);
        }
    }
    rows
}

/// What a part tells as a whole stands in the row of its first end.
fn describe(row: &mut Row, old: Option<&PartStatus>, part: &PartStatus, span: f64) {
    row.violations = part.violations;
    row.unusable = part.unusable.clone();
    row.amplification = part.stats.get("write_amplification").copied().filter(|ratio| *ratio > 0.0);
    let Some(usage) = part.usage else { return };
    let old = old.and_then(|old| old.usage).unwrap_or_default();
    row.energy_j = Some(usage.energy_j);
    row.power_w = Some(rate(usage.energy_j - old.energy_j, span));
    row.busy = Some(rate(usage.busy_s - old.busy_s, span).min(1.0));
}

fn rate(amount: f64, span: f64) -> f64 {
    if span > 0.0 { amount.max(0.0) / span } else { 0.0 }
}

fn rates(old: Option<&Load>, now: &Load, span: f64) -> Rates {
    let changes = now.ops.iter().map(|op| change(old.and_then(|old| old.op(&op.op)), op));
    let mut flow = Rates { queue: now.in_flight, ..Rates::default() };
    let mut latency: Vec<(u64, u64)> = Vec::new();
    for op in changes {
        let per_s = |amount: u64| rate(amount as f64, span);
        flow.ops_s += per_s(op.count);
        flow.failed_s += per_s(op.failed);
        flow.queue_mean += rate(op.time_ns as f64 / 1e9, span);
        match op.op.as_str() {
            "read" => (flow.reads_s, flow.read_bytes_s) = (per_s(op.count), per_s(op.bytes)),
            "write" => (flow.writes_s, flow.written_bytes_s) = (per_s(op.count), per_s(op.bytes)),
            _ => continue,
        }
        latency.extend(op.latency_ns);
    }
    latency.sort_unstable();
    [flow.p50_ns, flow.p99_ns, flow.max_ns] = [0.5, 0.99, 1.0].map(|share| quantile(&latency, share));
    flow
}

/// What came by since `old`.
fn change(old: Option<&OpLoad>, now: &OpLoad) -> OpLoad {
    let Some(old) = old else { return now.clone() };
    let mut before = old.latency_ns.iter().peekable();
    let mut since = |bound: u64, count: u64| {
        while before.next_if(|(other, _)| *other < bound).is_some() {}
        count - before.next_if(|(other, _)| *other == bound).map_or(0, |(_, seen)| *seen).min(count)
    };
    let latency = now.latency_ns.iter().map(|(bound, count)| (*bound, since(*bound, *count)));
    OpLoad {
        op: now.op.clone(),
        count: now.count.saturating_sub(old.count),
        failed: now.failed.saturating_sub(old.failed),
        bytes: now.bytes.saturating_sub(old.bytes),
        time_ns: now.time_ns.saturating_sub(old.time_ns),
        latency_ns: latency.filter(|(_, count)| *count > 0).collect(),
        ..OpLoad::default()
    }
}

fn client_row(before: Option<&Status>, client: &ClientStatus, span: f64) -> ClientRow {
    let old = before.and_then(|b| b.clients.iter().find(|c| c.client == client.client && c.export == client.export));
    let since = |value: fn(&ClientStatus) -> u64| rate(value(client).saturating_sub(old.map_or(0, value)) as f64, span);
    ClientRow {
        client: client.client,
        peer: client.peer.clone(),
        export: client.export.clone().unwrap_or_default(),
        tls: client.tls,
        for_s: client.for_s,
        ops_s: since(|c| c.requests),
        read_bytes_s: since(|c| c.read_bytes),
        written_bytes_s: since(|c| c.written_bytes),
        queue: client.in_flight,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::{EndStatus, ExportStatus, UsageStatus};

    fn op(op: &str, count: u64, latency_ns: Vec<(u64, u64)>) -> OpLoad {
        OpLoad {
            op: op.into(),
            count,
            bytes: count * 4096,
            time_ns: count * 1_000_000,
            latency_ns,
            ..OpLoad::default()
        }
    }

    fn status(uptime_s: f64, ops: Vec<OpLoad>, energy_j: f64) -> Status {
        let load = Load { in_flight: 2, in_flight_max: 9, ops };
        let export = ExportStatus { name: "vol".into(), load: load.clone(), ..ExportStatus::default() };
        let ends = vec![EndStatus { name: "d".into(), load: Some(load), ..EndStatus::default() }];
        let usage = Some(UsageStatus { energy_j, busy_s: uptime_s / 2.0, ..UsageStatus::default() });
        let part = PartStatus { name: "d".into(), kind: "disk-model".into(), ends, usage, ..PartStatus::default() };
        let client = ClientStatus {
            client: 1,
            export: Some("vol".into()),
            requests: uptime_s as u64 * 10,
            ..Default::default()
        };
        Status { uptime_s, exports: vec![export], parts: vec![part], clients: vec![client], ..Status::default() }
    }

    #[test]
    fn rates_and_latencies_are_those_of_the_interval_alone() {
        let before = status(10.0, vec![op("read", 100, vec![(5, 100)])], 50.0);
        let reads = op("read", 300, vec![(5, 110), (7, 180), (9_000, 10)]);
        let now = status(12.0, vec![reads, op("flush", 2, vec![(1_000_000_000, 2)])], 60.0);
        let view = View::between(Some(&before), &now);
        assert_eq!((view.interval_s, view.rows.len()), (2.0, 2));
        let flow = view.rows[0].flow.unwrap();
        assert_eq!((flow.ops_s, flow.reads_s, flow.read_bytes_s), (101.0, 100.0, 409_600.0));
        assert_eq!((flow.p50_ns, flow.p99_ns, flow.max_ns), (7, 9_000, 9_000), "flushes do not count");
        assert_eq!(flow.queue, 2);
        assert!((flow.queue_mean - 0.101).abs() < 1e-9);
        let device = &view.rows[1];
        assert_eq!(
            (device.what, device.power_w, device.energy_j, device.busy),
            (What::Device, Some(5.0), Some(60.0), Some(0.5))
        );
        assert_eq!(view.clients[0].ops_s, 10.0);
    }

    #[test]
    fn a_mount_has_the_requests_of_the_kernel_and_the_bytes_of_its_device() {
        let mount = |lookups: u64, writes: u64| MountStatus {
            name: "m".into(),
            fs: "lfs".into(),
            requests: [("LOOKUP".to_string(), lookups), ("WRITE".to_string(), writes)].into(),
            stats: [("clean_segments".to_string(), 7.0)].into(),
            load: Some(Load { in_flight: 1, in_flight_max: 1, ops: vec![op("write", writes / 10, vec![])] }),
            ..MountStatus::default()
        };
        let before = Status { mounts: vec![mount(10, 100)], ..status(10.0, vec![], 0.0) };
        let now = Status { mounts: vec![mount(30, 300)], ..status(12.0, vec![], 0.0) };
        let view = View::between(Some(&before), &now);
        let row = view.rows.iter().find(|row| row.what == What::Mount).unwrap();
        let flow = row.flow.unwrap();
        assert_eq!((flow.ops_s, flow.writes_s, flow.queue), (110.0, 10.0, 1));
        assert_eq!((row.kind.as_str(), row.stats["clean_segments"]), ("lfs", 7.0));
    }

    #[test]
    fn without_an_earlier_status_of_this_server_rates_are_since_its_start() {
        let now = status(4.0, vec![op("write", 8, vec![(5, 8)])], 0.0);
        let other = status(99.0, vec![op("write", 8, vec![(5, 8)])], 0.0);
        for before in [None, Some(&other)] {
            let flow = View::between(before, &now).rows[0].flow.unwrap();
            assert_eq!((flow.writes_s, flow.written_bytes_s, flow.p50_ns), (2.0, 8192.0, 5));
        }
    }

    #[test]
    fn what_is_not_measured_has_a_row_without_numbers() {
        let mut now = status(4.0, Vec::new(), 0.0);
        now.parts[0].ends[0].load = None;
        assert_eq!(View::between(None, &now).rows[1].flow, None);
    }
}
