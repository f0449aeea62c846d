//! The tables of metrics: what the pages for Prometheus say of themselves when every family has a sample.

use std::collections::{BTreeMap, BTreeSet};

use esker_hugepage_linux::status as hugepage;
use esker_metrics::monitor::FamilyRow;
use esker_serve::status::{EndStatus, ExportStatus, Load, MountStatus, OpLoad, PartStatus, Status, UsageStatus};
use esker_testkit::generated::Block;

use super::table;

const PAGE: &str = "docs/reference/metrics.md";
/// The label of a bucket belongs to its histogram.
const BUCKET: &str = "le";

pub fn blocks() -> [Block; 2] {
    let block = |of: &str, text: String| Block { page: PAGE.into(), name: format!("metrics of {of}"), text };
    [
        block("esker serve", families(&esker_serve::metrics::page(served()))),
        block("esker hugepage run", families(&esker_hugepage_linux::metrics::page(managed()))),
    ]
}

fn served() -> Status {
    let load = Load { ops: vec![OpLoad { op: "read".into(), ..OpLoad::default() }], ..Load::default() };
    let export = ExportStatus { load: load.clone(), ..ExportStatus::default() };
    let ends = vec![EndStatus { load: Some(load), ..EndStatus::default() }];
    let (stats, usage) = (BTreeMap::from([("latched".to_string(), 0.0)]), Some(UsageStatus::default()));
    let requests = BTreeMap::from([("LOOKUP".to_string(), 0)]);
    let load = Some(export.load.clone());
    let mount = MountStatus { requests, stats: stats.clone(), load, ..MountStatus::default() };
    let part = PartStatus { stats, usage, ends, ..PartStatus::default() };
    Status { exports: vec![export], mounts: vec![mount], parts: vec![part], ..Status::default() }
}

fn managed() -> hugepage::Status {
    let reasons = || BTreeMap::from([("pinned".to_string(), 0)]);
    let done = hugepage::Done { refused: reasons(), left: reasons(), misprediction: Some(0.0), ..Default::default() };
    let group = hugepage::GroupStatus { used_bytes: Some(0), limit_bytes: Some(0), ..Default::default() };
    let process = hugepage::ProcessStatus { sharing: Some(Default::default()), ..Default::default() };
    let sharing = Some(hugepage::Sharing::default());
    hugepage::Status { done, sharing, groups: vec![group], processes: vec![process], ..Default::default() }
}

/// A row for each family, in the order of the page.
fn families(page: &str) -> String {
    let rows = FamilyRow::all(page).into_iter().map(|FamilyRow { name, kind, help }| {
        let shown = if kind == "counter" { format!("{name}_total") } else { name };
        let labels = labels(page, &shown).unwrap_or_else(|| panic!("the sample status lacks {shown}"));
        [format!("`{shown}`"), kind, labels, help]
    });
    table(["metric", "type", "labels", "meaning"], rows)
}

/// The labels of a family's samples; `None` without one.
fn labels(page: &str, family: &str) -> Option<String> {
    let samples = page.lines().filter_map(|line| line.strip_prefix(family)?.strip_prefix(['{', ' ', '_']));
    let mut samples = samples.peekable();
    samples.peek()?;
    let names = samples.flat_map(|sample| sample.split('"').step_by(2).filter_map(|part| part.strip_suffix('=')));
    let bare = names.filter_map(|name| name.rsplit([',', '{']).next()).filter(|name| *name != BUCKET);
    Some(bare.map(|name| format!("`{name}`")).collect::<BTreeSet<_>>().into_iter().collect::<Vec<_>>().join(", "))
}
