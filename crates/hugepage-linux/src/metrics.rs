//! The page that Prometheus reads, made from a [`Status`]: base units, counters that end in `_total`.

use std::fmt;

use esker_metrics::{Families, Sample, Unit, flag, one};

use crate::status::{Done, GroupStatus, ProcessStatus, Status};

/// The whole page.
pub fn page(status: Status) -> String {
    esker_metrics::page("esker_hugepage", status, |out, status| {
        manager(out, status)?;
        groups(out, &status.groups)?;
        processes(out, &status.processes)
    })
}

fn manager(out: &mut Families<'_>, status: &Status) -> fmt::Result {
    let seconds = Some(Unit::Seconds);
    out.gauges(("uptime", "Time since the start.", seconds.clone()), one(status.uptime_s))?;
    out.counters(("cpu", "CPU time that the manager used.", seconds.clone()), one(status.cpu_s))?;
    out.gauges(
        ("fragmentation", "Share of free memory that no huge page can be made of.", None),
        one(status.fragmentation),
    )?;
    out.gauges(("greedy", "Whether faults take huge pages at once.", None), flag(status.greedy))?;
    out.gauges(("imbalance", "How far from fair huge pages are divided; 0 is fair.", None), one(status.imbalance))?;
    out.gauges(("waiting", "Regions that wait to be looked at.", None), one(status.waiting as f64))?;
    out.counters(("polls", "Looks through page tables.", None), one(status.polls as f64))?;
    out.counters(("poll", "Time that looks through page tables took.", seconds), one(status.poll_s))?;
    let ratio = status.done.misprediction.map_or(Vec::new(), |ratio| one(ratio).to_vec());
    out.gauges(("misprediction", "Share of hot huge pages that were not in use.", None), ratio)?;
    let (checked, missed) = (status.done.hot_checked as f64, status.done.hot_missed as f64);
    out.counters(("hot_checked", "Looks whether hot huge pages were in use.", None), one(checked))?;
    out.counters(("hot_missed", "Looks that found a hot huge page unused.", None), one(missed))?;
    let by = |map: fn(&Done) -> &std::collections::BTreeMap<String, u64>| -> Vec<Sample> {
        map(&status.done).iter().map(|(why, count)| (vec![("reason", why.clone())], *count as f64)).collect()
    };
    out.counters(("refusals", "Changes that were refused.", None), by(|done| &done.refused))?;
    out.counters(("left", "Regions that were left as they are.", None), by(|done| &done.left))?;
    let sharing = |value: fn(&crate::status::Sharing) -> f64| {
        status.sharing.as_ref().map_or(Vec::new(), |sharing| one(value(sharing)).to_vec())
    };
    let (bytes, saved) = (Some(Unit::Bytes), sharing(|sharing| sharing.saved_bytes as f64));
    out.gauges(("sharing_saved", "Memory that sharing of equal pages saves.", bytes.clone()), saved)?;
    let profit = sharing(|sharing| sharing.profit_bytes as f64);
    out.gauges(("sharing_profit", "Memory that sharing saves, without what the kernel keeps for it.", bytes), profit)?;
    let refused = sharing(|sharing| sharing.refused as f64);
    out.counters(
        ("sharing_refused", "Connections of processes that are not managed, do not greet, or have one.", None),
        refused,
    )
}

fn groups(out: &mut Families<'_>, groups: &[GroupStatus]) -> fmt::Result {
    let each = |value: fn(&GroupStatus) -> Option<u64>| -> Vec<Sample> {
        let one = |one: &GroupStatus| Some((vec![("group", one.path.clone())], value(one)? as f64));
        groups.iter().filter_map(one).collect()
    };
    let bytes = || Some(Unit::Bytes);
    let huge = each(|one| Some(one.huge_bytes));
    out.gauges(("group_huge", "Memory of a control group in huge pages.", bytes()), huge)?;
    out.gauges(("group_used", "Memory that is charged to a control group.", bytes()), each(|one| one.used_bytes))?;
    out.gauges(("group_limit", "Memory that a control group may hold.", bytes()), each(|one| one.limit_bytes))
}

fn processes(out: &mut Families<'_>, processes: &[ProcessStatus]) -> fmt::Result {
    let labels = |one: &ProcessStatus| vec![("pid", one.pid.to_string()), ("name", one.name.clone())];
    let each = |value: fn(&ProcessStatus) -> f64| -> Vec<Sample> {
        processes.iter().map(|one| (labels(one), value(one))).collect()
    };
    let sharing = |value: fn(&crate::status::ProcessSharing) -> u64| -> Vec<Sample> {
        let with = |one: &ProcessStatus| Some((labels(one), value(one.sharing.as_ref()?) as f64));
        processes.iter().filter_map(with).collect()
    };
    let (may, does) = (sharing(|sharing| sharing.mergeable_bytes), sharing(|sharing| sharing.merged_bytes));
    out.gauges(
        ("process_mergeable", "Memory of a process that may be shared with equal pages.", Some(Unit::Bytes)),
        may,
    )?;
    out.gauges(("process_merged", "Memory of a process that is shared with equal pages.", Some(Unit::Bytes)), does)?;
    let resident = each(|one| one.resident_bytes as f64);
    let what = "Memory of a process, without what it has freed inside huge pages: that stays charged to its group.";
    out.gauges(("process_resident", what, Some(Unit::Bytes)), resident)?;
    let excluded = each(|one| f64::from(u8::from(one.excluded_s.is_some())));
    out.gauges(
        ("process_huge", "Memory of a process in huge pages.", Some(Unit::Bytes)),
        each(|one| one.huge_bytes as f64),
    )?;
    out.gauges(("process_idle", "Share of the huge pages of a process that is idle.", None), each(|one| one.idle))?;
    out.gauges(("process_claim", "Claim of a process to the next huge page.", None), each(|one| one.metric))?;
    out.gauges(("process_excluded", "Whether a process is passed over for a while.", None), excluded)?;
    let promotions = each(|one| one.done.promotions as f64);
    out.counters(("process_promotions", "Regions of a process that became huge.", None), promotions)?;
    out.counters(
        ("process_demotions", "Regions of a process that became base pages.", None),
        each(|one| one.done.demotions as f64),
    )
}

#[cfg(test)]
mod tests {
    use esker_metrics::monitor::{self, FamilyRow};
    use esker_testkit::{generated, promtool};

    use super::*;

    #[test]
    fn the_dashboard_has_a_panel_for_each_family_and_promtool_takes_their_queries() {
        let families = FamilyRow::all(&page(Status::default()));
        let board = monitor::dashboard("Esker huge pages", "esker-hugepage", &families);
        generated::check_json("dist/grafana/esker-hugepage.json", &board);
        promtool::check("hugepage", &monitor::recorded(&board).to_string());
    }

    #[test]
    fn a_reader_finds_every_number_with_its_labels() {
        let mut status = Status { cpu_s: 1.5, fragmentation: 0.25, ..Status::default() };
        status.done.refused.insert("pinned".to_string(), 3);
        status.done.hot_missed = 77;
        let name = "a \"b\"".to_string();
        status.sharing = Some(crate::status::Sharing { saved_bytes: 8192, ..Default::default() });
        let sharing = Some(crate::status::ProcessSharing { merged_bytes: 12288, ..Default::default() });
        status.processes.push(ProcessStatus { pid: 7, name, huge_bytes: 4 << 20, sharing, ..ProcessStatus::default() });
        let path = "/box/a".to_string();
        status.groups.push(GroupStatus { path, huge_bytes: 6 << 20, limit_bytes: Some(8 << 20), ..Default::default() });
        let page = page(status);
        assert!(page.ends_with("# EOF\n"));
        let read = prometheus_parse::Scrape::parse(page.lines().map(|line| Ok(line.to_string()))).unwrap();
        let value = |name: &str| {
            let sample = read.samples.iter().find(|sample| sample.metric == name);
            sample.map(|sample| (format!("{:?}", sample.value), sample.labels.clone()))
        };
        assert!(value("esker_hugepage_cpu_seconds_total").is_some_and(|(value, _)| value.contains("1.5")), "{page}");
        assert!(value("esker_hugepage_hot_missed_total").is_some_and(|(value, _)| value.contains("77")), "{page}");
        assert!(value("esker_hugepage_fragmentation").is_some_and(|(value, _)| value.contains("0.25")), "{page}");
        assert!(value("esker_hugepage_sharing_saved_bytes").is_some_and(|(value, _)| value.contains("8192")), "{page}");
        assert!(
            value("esker_hugepage_process_merged_bytes").is_some_and(|(value, _)| value.contains("12288")),
            "{page}"
        );
        let (huge, labels) = value("esker_hugepage_group_huge_bytes").unwrap();
        assert!(huge.contains("6291456") && labels.get("group") == Some("/box/a"), "{huge}");
        assert!(value("esker_hugepage_group_limit_bytes").is_some_and(|(value, _)| value.contains("8388608")));
        assert_eq!(value("esker_hugepage_group_used_bytes"), None, "what is not counted is not told");
        let (huge, labels) = value("esker_hugepage_process_huge_bytes").unwrap();
        assert!(huge.contains("4194304") && labels.get("pid") == Some("7"), "{huge}");
        assert!(
            value("esker_hugepage_refusals_total").is_some_and(|(_, labels)| labels.get("reason") == Some("pinned"))
        );
    }
}
