//! What a server tells about itself. Numbers are since the start, sizes in bytes. Readers must pass over keys that they
//! do not know: new ones may come without a new version of the protocol.

use std::collections::BTreeMap;

use esker_base::Nanos;
use esker_block::{Limits, Reading, Stat, Trouble, Usage};
use esker_front_nbd::ClientInfo;
use esker_stack::{EndStats, Measure, MountSpec, PartStats, Spec, Stack};
use serde::{Deserialize, Serialize};

use crate::command::PROTOCOL;
use crate::mounted_fs::MountedFs;
use crate::mounts::HeldMount;
use crate::server::Shared;

/// All of it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Status {
    /// Version of the control protocol.
    pub protocol: u32,
    /// Version of the program.
    pub version: String,
    /// Seconds since the start.
    pub uptime_s: f64,
    /// How the kernel is reached.
    pub io: String,
    /// Why the stack refuses everything, if it does, in whole sentences.
    pub dead: Option<String>,
    /// Whether it was asked to stop.
    pub stopping: bool,
    /// The freeze in force.
    pub frozen: Option<FrozenStatus>,
    /// Which parts are measured: `nothing`, `devices` or `all`.
    pub measured: String,
    /// Requests that the stack has let in and not answered.
    pub inflight: u64,
    /// Clients that are connected.
    pub connections: u64,
    /// Payload bytes copied on their way.
    pub bounced_bytes: u64,
    /// Bytes that TLS copied.
    pub tls_bytes: u64,
    /// Live changes made.
    pub changes: u64,
    /// What clients can reach.
    pub exports: Vec<ExportStatus>,
    /// Mounts, in the order of the text.
    pub mounts: Vec<MountStatus>,
    /// Devices and layers, in the order of the text.
    pub parts: Vec<PartStatus>,
    /// Clients, oldest first.
    pub clients: Vec<ClientStatus>,
}

/// A freeze.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct FrozenStatus {
    /// Its number.
    pub freeze: u64,
    /// Seconds since it began.
    pub for_s: f64,
    /// Seconds until it ends by itself.
    pub left_s: f64,
}

/// One export on one way.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ExportStatus {
    /// Its name.
    pub name: String,
    /// Where clients find it.
    pub uri: String,
    /// The device or layer that it leads to now.
    pub device: String,
    /// Bytes.
    pub size: u64,
    /// Whether changes are refused.
    pub read_only: bool,
    /// Why it cannot be used, in whole sentences, if it cannot.
    pub unusable: Option<String>,
    /// Smallest unit of a request in bytes.
    pub block: Option<u32>,
    /// What clients asked of it, on all ways together.
    pub load: Load,
}

/// One mount.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct MountStatus {
    /// Its name.
    pub name: String,
    /// The kind of file system.
    pub fs: String,
    /// The directory.
    pub at: String,
    /// The device or layer on which it lies now.
    pub device: Option<String>,
    /// What the kernel keeps: `through`, `writeback` or `none`.
    pub cache: String,
    /// Whether it is mounted, or still in use. It is not if it was unmounted since the start.
    pub mounted: bool,
    /// Why it is not mounted or could not be closed, in whole sentences, if that went wrong.
    pub unusable: Option<String>,
    /// Requests of the kernel, by operation.
    pub requests: BTreeMap<String, u64>,
    /// Counters of the file system, by name with the unit last.
    pub stats: BTreeMap<String, f64>,
    /// What the file system asked of its device, if it lies on one.
    pub load: Option<Load>,
}

/// One device or layer.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PartStatus {
    /// Its name.
    pub name: String,
    /// Its kind.
    pub kind: String,
    /// What it stands on.
    pub on: Vec<String>,
    /// Whether its speed is a model's.
    pub modelled: bool,
    /// How often it broke the contract.
    pub violations: u64,
    /// Requests that it made by itself.
    pub generated: u64,
    /// Why it cannot be used, if it could not be opened. This text and the next two are whole sentences.
    pub unusable: Option<String>,
    /// Why it takes no changes any more, if a change of it failed.
    pub latched: Option<String>,
    /// What it does without, if it lacks something below.
    pub degraded: Option<String>,
    /// Its own numbers, by name with the unit last.
    pub stats: BTreeMap<String, f64>,
    /// What it has used, if it is a model.
    pub usage: Option<UsageStatus>,
    /// Its upper ports.
    pub ends: Vec<EndStatus>,
}

/// What a model has used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct UsageStatus {
    /// Joules.
    pub energy_j: f64,
    /// Seconds in which it worked on at least one request.
    pub busy_s: f64,
    /// What it costs to buy.
    pub price_usd: f64,
    /// Bytes written to the medium.
    pub written_bytes: u64,
    /// Bytes read from the medium.
    pub read_bytes: u64,
}

/// One upper port of a device or layer.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct EndStatus {
    /// Its name: the part's, with the port if there is one.
    pub name: String,
    /// Bytes.
    pub size: u64,
    /// Smallest unit of a request in bytes.
    pub block: u32,
    /// Longest transfer in bytes.
    pub transfer_max: u32,
    /// What came by, if it is measured.
    pub load: Option<Load>,
}

/// What came by one place.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Load {
    /// Requests without an answer.
    pub in_flight: u64,
    /// The most that there were at once.
    pub in_flight_max: u64,
    /// Operations that were answered at least once.
    pub ops: Vec<OpLoad>,
}

/// What came by of one operation.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct OpLoad {
    /// `read`, `write`, `flush`, `zero`, `discard`, `ranges` or `extents`.
    pub op: String,
    /// Requests answered.
    pub count: u64,
    /// Those of them with an error.
    pub failed: u64,
    /// Bytes.
    pub bytes: u64,
    /// Latencies added up, in nanoseconds.
    pub time_ns: u64,
    /// The latency that half of them did not exceed, in nanoseconds, a sixteenth too high at most.
    pub p50_ns: u64,
    /// Of 95 %.
    pub p95_ns: u64,
    /// Of 99 %.
    pub p99_ns: u64,
    /// Of 99.9 %.
    pub p999_ns: u64,
    /// Of all.
    pub max_ns: u64,
    /// Pairs of an upper bound in nanoseconds and the answers between the bound before and this one.
    pub latency_ns: Vec<(u64, u64)>,
}

/// One client.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ClientStatus {
    /// Its number, as in the log.
    pub client: u64,
    /// The peer, as far as the kernel knows it.
    pub peer: String,
    /// The subject of the certificate that it showed inside TLS.
    pub subject: Option<String>,
    /// The export that it uses.
    pub export: Option<String>,
    /// Whether it is inside TLS.
    pub tls: bool,
    /// Seconds since it came.
    pub for_s: f64,
    /// Requests that it made.
    pub requests: u64,
    /// Those of them without an answer.
    pub in_flight: u64,
    /// Bytes that it asked to read.
    pub read_bytes: u64,
    /// Bytes that it asked to write.
    pub written_bytes: u64,
}

/// The latency that `share` of the answers did not exceed: the upper bound of its bucket. 0 if there are none.
pub fn quantile(latency_ns: &[(u64, u64)], share: f64) -> u64 {
    let total: u64 = latency_ns.iter().map(|(_, count)| count).sum();
    let wanted = ((total as f64 * share).ceil() as u64).max(1);
    let mut seen = 0;
    let at = latency_ns.iter().find(|(_, count)| {
        seen += count;
        seen >= wanted
    });
    at.map_or(0, |(bound, _)| *bound)
}

impl Load {
    pub(crate) fn of(reading: &Reading) -> Load {
        let ops = reading.ops.iter().map(|op| {
            let at = |share| quantile(&op.latency, share);
            OpLoad {
                op: op.op.to_string(),
                count: op.count,
                failed: op.failed,
                bytes: op.bytes,
                time_ns: op.time.0,
                p50_ns: at(0.5),
                p95_ns: at(0.95),
                p99_ns: at(0.99),
                p999_ns: at(0.999),
                max_ns: at(1.0),
                latency_ns: op.latency.clone(),
            }
        });
        Load { in_flight: reading.in_flight, in_flight_max: reading.in_flight_max, ops: ops.collect() }
    }

    /// What came by of an operation; nothing if it never did.
    pub fn op(&self, name: &str) -> Option<&OpLoad> {
        self.ops.iter().find(|op| op.op == name)
    }
}

impl Status {
    /// What an operator must know, in whole sentences: that the stack is latched, which parts cannot be used, are
    /// latched or degraded, and which mounts cannot be used.
    pub fn problems(&self) -> Vec<String> {
        let parts = self.parts.iter().flat_map(|part| [&part.unusable, &part.latched, &part.degraded]);
        let mounts = self.mounts.iter().map(|mount| &mount.unusable);
        [&self.dead].into_iter().chain(parts).chain(mounts).flatten().cloned().collect()
    }
}

fn seconds(span: Nanos) -> f64 {
    span.0 as f64 / 1e9
}

impl Status {
    /// Of one mount in a process of its own, and the stack below it.
    pub(crate) fn of_mount(mount: MountStatus, stack: Option<&Stack>, uptime: Nanos, io: &str) -> Status {
        Status {
            protocol: PROTOCOL,
            version: env!("CARGO_PKG_VERSION").to_string(),
            uptime_s: seconds(uptime),
            io: io.to_string(),
            dead: stack.and_then(Stack::dead),
            measured: stack.map_or(Measure::Off, Stack::measured).word().to_string(),
            inflight: stack.map_or(0, Stack::inflight),
            bounced_bytes: stack.map_or(0, |stack| stack.pool().bounced()),
            mounts: vec![mount],
            parts: stack.map(|stack| parts(stack.stats(), &stack.spec())).unwrap_or_default(),
            ..Status::default()
        }
    }

    pub(crate) fn of(shared: &Shared) -> Status {
        let (stack, now, spec) = (&shared.stack, shared.rt.now(), shared.stack.spec());
        let nbd = shared.doors.iter().flat_map(|door| door.server.clients());
        let clients: Vec<_> = nbd.map(|info| client(info, |since| seconds(now.since(since)))).collect();
        let others: usize = shared.fronts().iter().map(|front| front.clients()).sum();
        Status {
            protocol: PROTOCOL,
            version: env!("CARGO_PKG_VERSION").to_string(),
            uptime_s: seconds(now.since(shared.started)),
            io: shared.io.clone(),
            dead: stack.dead(),
            stopping: shared.is_stopping(),
            frozen: shared.freezer.cold().map(|cold| FrozenStatus {
                freeze: cold.number,
                for_s: seconds(now.since(cold.since)),
                left_s: seconds(cold.until.since(now)),
            }),
            measured: stack.measured().word().to_string(),
            inflight: stack.inflight(),
            connections: (clients.len() + others) as u64,
            bounced_bytes: stack.pool().bounced(),
            tls_bytes: shared.doors.iter().map(|door| door.server.secured_bytes()).sum(),
            changes: shared.changes.get(),
            exports: exports(shared, &spec),
            mounts: shared.mounts().iter().map(|held| mount(shared, held, &spec)).collect(),
            parts: parts(stack.stats(), &spec),
            clients,
        }
    }
}

fn exports(shared: &Shared, spec: &Spec) -> Vec<ExportStatus> {
    let devices: BTreeMap<&str, &String> = spec.exports.iter().map(|e| (e.name.as_str(), &e.device)).collect();
    let device = |name: &str| devices.get(name).map(|device| device.to_string());
    let block = |name: &str| {
        let export = shared.stack.export(name)?;
        Some(esker_block::Device::limits(&export).block)
    };
    let load = |name: &str| Some(Load::of(&shared.stack.export(name)?.reading()?));
    let export = |offer: crate::Offer| ExportStatus {
        uri: offer.at,
        device: device(&offer.export).unwrap_or_default(),
        size: offer.size,
        read_only: offer.read_only,
        unusable: shared.stack.unusable(&offer.export).map(|unusable| unusable.why),
        block: block(&offer.export),
        load: load(&offer.export).unwrap_or_default(),
        name: offer.export,
    };
    shared.offers().into_iter().map(export).collect()
}

fn mount(shared: &Shared, held: &HeldMount, spec: &Spec) -> MountStatus {
    let MountSpec { name, fs, dir, cache, .. } = &held.spec;
    // Live changes lead it elsewhere.
    let now = spec.mounts.iter().find(|mount| mount.name == *name);
    let unusable = held.unusable().map(|why| format!("mount \"{name}\" cannot be used: {why}"));
    MountStatus {
        at: dir.clone(),
        device: now.and_then(|mount| mount.device.clone()),
        cache: cache.word().to_string(),
        unusable,
        load: shared.stack.mount_device(name).and_then(|device| Some(Load::of(&device.reading()?))),
        ..MountStatus::of(name, fs, held.fs.as_ref().ok().map(|fs| &**fs))
    }
}

impl MountStatus {
    /// What a mounted file system tells of itself.
    pub(crate) fn of(name: &str, fs: &str, mounted: Option<&MountedFs>) -> MountStatus {
        let requests = mounted.map(MountedFs::requests).unwrap_or_default();
        MountStatus {
            name: name.to_string(),
            fs: fs.to_string(),
            mounted: mounted.is_some_and(|fs| fs.closed().is_none()),
            requests: requests.into_iter().map(|(op, count)| (op.to_string(), count)).collect(),
            stats: stats(mounted.map(MountedFs::stats).unwrap_or_default()),
            ..MountStatus::default()
        }
    }
}

fn stats(stats: Vec<Stat>) -> BTreeMap<String, f64> {
    stats.into_iter().map(|Stat { name, value }| (name.to_string(), value)).collect()
}

fn parts(parts: Vec<PartStats>, spec: &Spec) -> Vec<PartStatus> {
    let on: BTreeMap<&str, &Vec<String>> = spec.devices.iter().map(|d| (d.name.as_str(), &d.on)).collect();
    let part = |stats: PartStats| {
        let on = on.get(stats.name.as_str()).map(|on| on.to_vec());
        part(stats, on.unwrap_or_default())
    };
    parts.into_iter().map(part).collect()
}

fn part(part: PartStats, on: Vec<String>) -> PartStatus {
    let (latched, degraded) = match part.trouble {
        Some(Trouble::Latched(why)) => (Some(why), None),
        Some(Trouble::Degraded(why)) => (None, Some(why)),
        None => (None, None),
    };
    PartStatus {
        kind: part.kind.to_string(),
        on,
        // Only models know what they use.
        modelled: part.usage.is_some(),
        violations: part.violations,
        generated: part.work.generated,
        unusable: part.unusable,
        latched,
        degraded,
        stats: stats(part.stats),
        usage: part.usage.map(usage),
        ends: part.ends.into_iter().map(end).collect(),
        name: part.name,
    }
}

fn end(end: EndStats) -> EndStatus {
    let Limits { size, block, transfer_max, .. } = end.limits;
    EndStatus { name: end.name, size, block, transfer_max, load: end.reading.as_ref().map(Load::of) }
}

fn usage(usage: Usage) -> UsageStatus {
    UsageStatus {
        energy_j: usage.energy_j,
        busy_s: seconds(usage.busy),
        price_usd: usage.price_usd,
        written_bytes: usage.written,
        read_bytes: usage.read,
    }
}

fn client(info: ClientInfo, age: impl Fn(esker_base::Time) -> f64) -> ClientStatus {
    ClientStatus {
        client: info.number,
        peer: info.peer,
        subject: info.subject,
        export: info.export,
        tls: info.tls,
        for_s: age(info.since),
        requests: info.requests,
        in_flight: info.in_flight,
        read_bytes: info.read_bytes,
        written_bytes: info.written_bytes,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_bounds_of_buckets() {
        let buckets = [(10, 50), (20, 49), (1000, 1)];
        let seen = [0.0, 0.5, 0.51, 0.99, 0.991, 1.0].map(|share| quantile(&buckets, share));
        assert_eq!(seen, [10, 10, 20, 20, 1000, 1000]);
        assert_eq!(quantile(&[], 0.5), 0);
    }

    #[test]
    fn a_status_reads_back_and_keys_that_are_new_or_missing_do_no_harm() {
        let status = Status { protocol: 1, uptime_s: 2.5, dead: Some("x".into()), ..Status::default() };
        let text = serde_json::to_string(&status).unwrap();
        assert_eq!(serde_json::from_str::<Status>(&text).unwrap(), status);
        let other: Status = serde_json::from_str(r#"{"uptime_s":1.0,"later":[1]}"#).unwrap();
        assert_eq!(other.uptime_s, 1.0);
    }
}
