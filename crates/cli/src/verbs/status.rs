//! `esker status`: what a server tells about itself.

use esker_serve::Status;
use esker_serve::status::{ClientStatus, EndStatus, ExportStatus, Load, MountStatus, PartStatus};

use std::time::Duration;

use crate::control::Control;
use crate::failure::Failure;
use crate::terminal::Terminal;
use crate::verb::{About, Example, Run, Verb};

/// The record.
pub const VERB: Verb = Verb::of::<Show>(About {
    words: &["status"],
    summary: "Show health, clients and statistics of a server",
    details: "Numbers are since the server's start; `esker top` shows rates. Exit status 1, with the reason first, if the stack is \
              latched, or a part or a mount of it cannot be used, or a part is latched or degraded.",
    examples: &[
        Example { line: "esker status --control run/esker.ctl", does: "shows it for people" },
        Example { line: "esker status --json", does: "for programs, of the server with esker.ctl here" },
    ],
});

#[derive(clap::Args)]
struct Show {
    #[command(flatten)]
    control: Control,
    /// JSON, for programs
    #[arg(long)]
    json: bool,
}

/// A server that is alive answers at once.
const PATIENCE: Duration = Duration::from_secs(10);

#[derive(Debug, thiserror::Error)]
#[error("not everything is well: {0}")]
struct Unwell(String);

impl Run for Show {
    fn run(self, terminal: &mut Terminal) -> Result<(), Failure> {
        let status = self.control.status(PATIENCE)?;
        terminal.say(&if self.json { serde_json::to_string(&status)? } else { page(&status) })?;
        let problems = status.problems();
        if problems.is_empty() { Ok(()) } else { Err(Unwell(problems.join(" ")).into()) }
    }
}

/// The status for people.
fn page(status: &Status) -> String {
    let mut lines: Vec<String> = status.problems().iter().map(|problem| format!("! {problem}")).collect();
    lines.extend([
        format!("up             {:.1} s, {}", status.uptime_s, status.io),
        format!("connections    {}", status.connections),
        format!("in flight      {}", status.inflight),
        format!("live changes   {}", status.changes),
        format!("bytes copied   {}", status.bounced_bytes),
    ]);
    if let Some(frozen) = &status.frozen {
        lines.push(format!("frozen         for {:.1} s, {:.1} s left", frozen.for_s, frozen.left_s));
    }
    for export in &status.exports {
        lines.push(export_line(export));
        lines.extend(load_lines(&export.load));
    }
    lines.extend(status.mounts.iter().flat_map(mount_lines));
    for part in &status.parts {
        lines.push(part_line(part));
        lines.extend(part.ends.iter().flat_map(|end| end_lines(part, end)));
    }
    lines.extend(status.clients.iter().map(client_line));
    lines.join("\n")
}

fn export_line(export: &ExportStatus) -> String {
    format!("export {}: {} bytes at {}", export.name, export.size, export.uri)
}

/// A line for the mount, one for requests of the kernel, and those of its device.
fn mount_lines(mount: &MountStatus) -> Vec<String> {
    let MountStatus { name, fs, at, cache, .. } = mount;
    let on = mount.device.as_ref().map_or_else(String::new, |device| format!(" on {device}"));
    let state = match (&mount.unusable, mount.mounted) {
        (Some(_), _) => ", unusable",
        (None, true) => "",
        (None, false) => ", unmounted",
    };
    let stats: String = mount.stats.iter().map(|(name, value)| format!(" {name}={value:?}")).collect();
    let mut lines = vec![format!("mount {name}: {fs} at {at}{on}, cache {cache}{state}{stats}")];
    if !mount.requests.is_empty() {
        let requests: String = mount.requests.iter().map(|(op, count)| format!(" {op}={count}")).collect();
        lines.push(format!("  requests:{requests}"));
    }
    lines.extend(mount.load.iter().flat_map(load_lines));
    lines
}

/// One line for each operation that was seen.
fn load_lines(load: &Load) -> Vec<String> {
    let line = |op: &esker_serve::status::OpLoad| {
        let latency = [("p50", op.p50_ns), ("p99", op.p99_ns), ("max", op.max_ns)];
        let latency: String = latency.iter().map(|(name, ns)| format!(" {name}_ns={ns}")).collect();
        format!("  {}: count={} bytes={} failed={}{latency}", op.op, op.count, op.bytes, op.failed)
    };
    load.ops.iter().map(line).collect()
}

fn part_line(part: &PartStatus) -> String {
    let stats: String = part.stats.iter().map(|(name, value)| format!(" {name}={value:?}")).collect();
    let usage = part.usage.map(|usage| {
        format!(
            " energy_j={:?} busy_s={:?} price_usd={:?} written_bytes={} read_bytes={}",
            usage.energy_j, usage.busy_s, usage.price_usd, usage.written_bytes, usage.read_bytes
        )
    });
    let violations = if part.violations > 0 { format!(" violations={}", part.violations) } else { String::new() };
    let modelled = if part.modelled { ", modelled: paced in real time" } else { "" };
    let states = [("unusable", &part.unusable), ("latched", &part.latched), ("degraded", &part.degraded)];
    let state: String = states.iter().filter(|(_, why)| why.is_some()).map(|(word, _)| format!(" {word}")).collect();
    format!("{} ({}{modelled}){state}{violations}{stats}{}", part.name, part.kind, usage.unwrap_or_default())
}

fn end_lines(part: &PartStatus, end: &EndStatus) -> Vec<String> {
    let Some(load) = &end.load else { return Vec::new() };
    let port = (end.name != part.name && !load.ops.is_empty()).then(|| format!("  at {}:", end.name));
    port.into_iter().chain(load_lines(load)).collect()
}

fn client_line(client: &ClientStatus) -> String {
    let export = client.export.as_ref().map_or("no export yet".to_string(), |name| format!("export {name}"));
    let tls = if client.tls { ", TLS" } else { "" };
    let subject = client.subject.as_ref().map_or_else(String::new, |subject| format!(", {subject}"));
    format!(
        "client {} ({}{tls}{subject}): {export} for_s={:.1} requests={} in_flight={} read_bytes={} written_bytes={}",
        client.client,
        client.peer,
        client.for_s,
        client.requests,
        client.in_flight,
        client.read_bytes,
        client.written_bytes
    )
}
