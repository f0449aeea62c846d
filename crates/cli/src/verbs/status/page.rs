//! A status in columns, for people.

use esker_base::Nanos;
use esker_base::units::{age_human, count_human, named_human, size_human};
use esker_serve::Status;
use esker_serve::status::{ClientStatus, ExportStatus, Load, MountStatus, OpLoad, PartStatus, UsageStatus};

use crate::terminal::{indented, table};

/// What has no value.
const NONE: &str = "-";

type Rows = Vec<Vec<String>>;

/// All of it: problems first, then a table for each sort of thing that there is.
pub fn page(status: &Status) -> String {
    let mut parts: Vec<String> = status.problems().iter().map(|problem| format!("! {problem}")).collect();
    parts.push(table(&[], &head(status)));
    parts.extend(section(
        "exports",
        &["name", "size", "device", "state", "address"],
        status.exports.iter().map(export),
    ));
    parts.extend(section(
        "mounts",
        &["name", "kind", "device", "cache", "state", "directory"],
        status.mounts.iter().map(mount),
    ));
    parts.extend(section(
        "devices and layers",
        &["name", "kind", "on", "size", "state"],
        status.parts.iter().map(part),
    ));
    parts.extend(section("load", &["of", "operation", "count", "failed", "bytes", "p50", "p99", "max"], loads(status)));
    parts.extend(section("models", &["name", "busy", "energy", "price", "read", "written"], models(status)));
    parts.extend(section("statistics", &["of", "name", "value"], statistics(status)));
    parts.extend(section("clients", CLIENTS, status.clients.iter().map(client)));
    parts.join("\n")
}

/// A table below its title; nothing without a row.
fn section(title: &str, names: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> Option<String> {
    let rows: Rows = rows.into_iter().collect();
    (!rows.is_empty()).then(|| format!("\n{title}\n{}", indented(&table(names, &rows))))
}

fn head(status: &Status) -> Rows {
    let mut rows = vec![
        ["up".to_string(), format!("{}, {}", age_human(status.uptime_s), status.io)],
        ["connections".to_string(), status.connections.to_string()],
        ["in flight".to_string(), status.inflight.to_string()],
        ["live changes".to_string(), status.changes.to_string()],
        ["copied".to_string(), size_human(status.bounced_bytes)],
    ];
    if status.tls_bytes > 0 {
        rows.push(["copied for TLS".to_string(), size_human(status.tls_bytes)]);
    }
    if let Some(frozen) = &status.frozen {
        let text = format!("for {}, {} left", age_human(frozen.for_s), age_human(frozen.left_s));
        rows.push(["frozen".to_string(), text]);
    }
    rows.into_iter().map(Vec::from).collect()
}

fn export(export: &ExportStatus) -> Vec<String> {
    let state = match (&export.unusable, export.read_only) {
        (Some(_), _) => "unusable",
        (None, true) => "read-only",
        (None, false) => "ok",
    };
    vec![export.name.clone(), size_human(export.size), export.device.clone(), state.to_string(), export.uri.clone()]
}

fn mount(mount: &MountStatus) -> Vec<String> {
    let state = match (&mount.unusable, mount.mounted) {
        (Some(_), _) => "unusable",
        (None, true) => "mounted",
        (None, false) => "unmounted",
    };
    let device = mount.device.clone().unwrap_or_else(|| NONE.to_string());
    vec![mount.name.clone(), mount.fs.clone(), device, mount.cache.clone(), state.to_string(), mount.at.clone()]
}

fn part(part: &PartStatus) -> Vec<String> {
    let states = [
        (part.unusable.is_some(), "unusable"),
        (part.latched.is_some(), "latched"),
        (part.degraded.is_some(), "degraded"),
        (part.modelled, "modelled: paced in real time"),
    ];
    let mut states: Vec<String> = states.iter().filter(|(is, _)| *is).map(|(_, word)| (*word).to_string()).collect();
    if part.violations > 0 {
        states.push(format!("broke the contract {} times", part.violations));
    }
    if states.is_empty() {
        states.push("ok".to_string());
    }
    let size = match &part.ends[..] {
        [end] => size_human(end.size),
        ends => format!("{} ports", ends.len()),
    };
    let on = if part.on.is_empty() { NONE.to_string() } else { part.on.join(", ") };
    vec![part.name.clone(), part.kind.clone(), on, size, states.join(", ")]
}

/// A row for each operation of each place that was measured.
fn loads(status: &Status) -> Rows {
    let exports = status.exports.iter().map(|export| (format!("export {}", export.name), &export.load));
    let mounts = status.mounts.iter().filter_map(|mount| Some((format!("mount {}", mount.name), mount.load.as_ref()?)));
    let ends = status.parts.iter().flat_map(|part| &part.ends);
    let ends = ends.filter_map(|end| Some((end.name.clone(), end.load.as_ref()?)));
    let rows = |(name, load): (String, &Load)| load.ops.iter().map(|op| load_row(&name, op)).collect::<Rows>();
    exports.chain(mounts).chain(ends).flat_map(rows).collect()
}

fn load_row(name: &str, op: &OpLoad) -> Vec<String> {
    let [p50, p99, max] = [op.p50_ns, op.p99_ns, op.max_ns].map(|ns| Nanos(ns).to_string());
    let (count, failed) = (op.count.to_string(), op.failed.to_string());
    vec![name.to_string(), op.op.clone(), count, failed, size_human(op.bytes), p50, p99, max]
}

fn models(status: &Status) -> Rows {
    let row = |part: &PartStatus| {
        let UsageStatus { energy_j, busy_s, price_usd, written_bytes, read_bytes } = part.usage?;
        let busy = Nanos::from_secs_f64(busy_s).to_string();
        let energy = format!("{} J", count_human(energy_j));
        let [read, written] = [read_bytes, written_bytes].map(size_human);
        Some(vec![part.name.clone(), busy, energy, format!("${price_usd}"), read, written])
    };
    status.parts.iter().filter_map(row).collect()
}

/// What file systems and layers count, under the names of their pages.
fn statistics(status: &Status) -> Rows {
    let mounts = status.mounts.iter().flat_map(|mount| {
        let of = format!("mount {}", mount.name);
        let requests = mount.requests.iter().map(|(op, count)| (format!("requests {op}"), *count as f64));
        let all = requests.chain(mount.stats.iter().map(|(name, value)| (name.clone(), *value)));
        all.map(move |(name, value)| (of.clone(), name, value)).collect::<Vec<_>>()
    });
    let parts = status.parts.iter().flat_map(|part| {
        part.stats.iter().map(|(name, value)| (part.name.clone(), name.clone(), *value)).collect::<Vec<_>>()
    });
    let row = |(of, name, value): (String, String, f64)| {
        let value = named_human(&name, value);
        vec![of, name, value]
    };
    mounts.chain(parts).map(row).collect()
}

const CLIENTS: &[&str] = &["client", "peer", "export", "TLS", "for", "requests", "in flight", "read", "written"];

fn client(client: &ClientStatus) -> Vec<String> {
    let tls = match (&client.subject, client.tls) {
        (Some(subject), _) => subject.clone(),
        (None, true) => "yes".to_string(),
        (None, false) => "no".to_string(),
    };
    vec![
        client.client.to_string(),
        client.peer.clone(),
        client.export.clone().unwrap_or_else(|| NONE.to_string()),
        tls,
        age_human(client.for_s),
        client.requests.to_string(),
        client.in_flight.to_string(),
        size_human(client.read_bytes),
        size_human(client.written_bytes),
    ]
}

#[cfg(test)]
mod tests {
    use esker_serve::status::EndStatus;

    use super::*;

    #[test]
    fn sizes_and_times_have_units_and_columns_stand_below_each_other() {
        let op = OpLoad { op: "read".into(), count: 7, bytes: 1 << 20, p50_ns: 52_300, ..OpLoad::default() };
        let load = Load { ops: vec![op], ..Load::default() };
        let export =
            ExportStatus { name: "vol".into(), size: 64 << 20, device: "d".into(), load, ..Default::default() };
        let end = EndStatus { name: "d".into(), size: 64 << 20, ..EndStatus::default() };
        let stats = [("used_bytes".to_string(), 1_572_864.0), ("runs".to_string(), 3.0)].into();
        let part = PartStatus { name: "d".into(), kind: "memory".into(), stats, ends: vec![end], ..Default::default() };
        let status = Status {
            uptime_s: 61.0,
            io: "io_uring".into(),
            exports: vec![export],
            parts: vec![part],
            dead: Some("It is latched.".into()),
            ..Status::default()
        };
        let expected = "\
! It is latched.
up            1 min 1 s, io_uring
connections   0
in flight     0
live changes  0
copied        0 B

exports
  name      size  device  state  address
  vol   64.0 MiB  d       ok

devices and layers
  name  kind    on      size  state
  d     memory  -   64.0 MiB  ok

load
  of          operation  count  failed    bytes      p50   p99   max
  export vol  read           7       0  1.0 MiB  52.3 us  0 ns  0 ns

statistics
  of  name          value
  d   runs              3
  d   used_bytes  1.5 MiB";
        assert_eq!(page(&status), expected);
    }
}
