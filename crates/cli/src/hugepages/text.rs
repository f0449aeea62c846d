//! The status of a manager of huge pages as plain text.

use esker_base::units::{age_human, size_human};
use esker_hugepage_linux::Status;
use esker_hugepage_linux::status::{Done, GroupStatus, ProcessStatus, Sharing};

/// Characters of a map in a line.
const MAP_WIDTH: usize = 64;

/// All of it.
pub fn page(status: &Status) -> String {
    let mut lines = vec![headline(status), done_line(&status.done)];
    lines.extend(status.sharing.as_ref().map(sharing_line));
    for (pid, why) in &status.refused {
        lines.push(format!("! process {pid} cannot be managed: {why}"));
    }
    lines.extend(status.groups.iter().map(group_line));
    for process in &status.processes {
        lines.push(process_line(process));
        lines.extend(map_lines(process, MAP_WIDTH).into_iter().map(|line| format!("  {line}")));
    }
    if status.processes.is_empty() {
        lines.push("no process is there that is meant".to_string());
    }
    lines.join("\n")
}

/// The manager and the machine.
pub fn headline(status: &Status) -> String {
    let share = 100.0 * status.cpu_s / status.uptime_s.max(0.001);
    let greedy = if status.greedy { "  huge faults" } else { "" };
    format!(
        "up {}  CPU {share:.2} %  fragmentation {:.3}  imbalance {:.4}  waiting {}{greedy}",
        age_human(status.uptime_s),
        status.fragmentation,
        status.imbalance,
        status.waiting
    )
}

/// What was done, and what not.
pub fn done_line(done: &Done) -> String {
    let all = |title: &str, counts: &std::collections::BTreeMap<String, u64>| {
        let counts: Vec<String> = counts.iter().map(|(why, count)| format!("{why} {count}")).collect();
        if counts.is_empty() { String::new() } else { format!("  {title}: {}", counts.join(", ")) }
    };
    let missed = done.misprediction.map_or(String::new(), |ratio| format!("  mispredicted {:.2} %", 100.0 * ratio));
    format!(
        "promotions {}  demotions {}{}{}{missed}",
        done.promotions,
        done.demotions,
        all("refused", &done.refused),
        all("left", &done.left)
    )
}

/// What sharing of equal pages saves.
fn sharing_line(sharing: &Sharing) -> String {
    let strangers = if sharing.refused > 0 { format!("  turned away {}", sharing.refused) } else { String::new() };
    let sign = if sharing.profit_bytes < 0 { "-" } else { "" };
    format!(
        "sharing {}  saves {} ({sign}{} with what the kernel keeps for it)  full scans {}{strangers}",
        sharing.policy,
        size_human(sharing.saved_bytes),
        size_human(sharing.profit_bytes.unsigned_abs()),
        sharing.full_scans
    )
}

/// One control group.
pub fn group_line(group: &GroupStatus) -> String {
    let used = group.used_bytes.map_or(String::new(), |used| format!(" of {} in use", size_human(used)));
    let limit = group.limit_bytes.map_or("no limit".to_string(), |limit| format!("limit {}", size_human(limit)));
    let pids: Vec<String> = group.pids.iter().map(u32::to_string).collect();
    format!("group {}  huge {}{used}, {limit}  processes {}", group.path, size_human(group.huge_bytes), pids.join(", "))
}

/// One process.
pub fn process_line(process: &ProcessStatus) -> String {
    let sharing = process.sharing.as_ref().map_or(String::new(), |sharing| {
        let [may, does] = [sharing.mergeable_bytes, sharing.merged_bytes].map(size_human);
        format!("  may share {may}, shares {does}")
    });
    let state = process.excluded_s.map_or(String::new(), |left| format!("  passed over for {}", age_human(left)));
    format!(
        "{} {}  shares {}  huge {} ({:.0} % idle)  promotions {}  demotions {}  base regions by tenths {:?}{sharing}{state}",
        process.pid,
        process.name,
        process.shares,
        size_human(process.huge_bytes),
        100.0 * process.idle,
        process.done.promotions,
        process.done.demotions,
        process.base_regions,
    )
}

/// The map of a process in lines of `width` characters.
pub fn map_lines(process: &ProcessStatus, width: usize) -> Vec<String> {
    let cells: Vec<char> = process.map.chars().collect();
    let mut lines: Vec<String> = cells.chunks(width.max(1)).map(|line| line.iter().collect()).collect();
    if let Some(first) = lines.first_mut() {
        first.push_str(&format!("  {} MiB a character", process.map_regions * 2));
    }
    lines
}

#[cfg(test)]
mod tests {
    use esker_hugepage_linux::status::ProcessSharing;

    use super::*;

    #[test]
    fn a_control_group_is_told_with_what_it_may_hold() {
        let group = GroupStatus {
            path: "/box".into(),
            pids: vec![7, 9],
            huge_bytes: 6 << 20,
            used_bytes: Some(9 << 20),
            limit_bytes: Some(1 << 30),
        };
        assert_eq!(group_line(&group), "group /box  huge 6.0 MiB of 9.0 MiB in use, limit 1.0 GiB  processes 7, 9");
        let root = GroupStatus { used_bytes: None, limit_bytes: None, ..group };
        assert_eq!(group_line(&root), "group /box  huge 6.0 MiB, no limit  processes 7, 9");
        let status = Status { groups: vec![root], ..Status::default() };
        assert!(page(&status).contains("\ngroup /box  huge 6.0 MiB"), "{}", page(&status));
    }

    #[test]
    fn a_status_reads_as_lines() {
        let mut status = Status { uptime_s: 100.0, cpu_s: 0.5, fragmentation: 0.25, ..Status::default() };
        status.done.left.insert("sparse".to_string(), 3);
        let process = ProcessStatus {
            pid: 7,
            name: "redis".into(),
            huge_bytes: 4 << 20,
            map: "HH09".into(),
            map_regions: 1,
            ..Default::default()
        };
        status.processes.push(process);
        let lines: Vec<String> = page(&status).lines().map(str::to_string).collect();
        assert!(lines[0].starts_with("up 1 min 40 s  CPU 0.50 %  fragmentation 0.250"), "{lines:?}");
        assert_eq!(lines[1], "promotions 0  demotions 0  left: sparse 3");
        assert!(lines[2].starts_with("7 redis  shares 0  huge 4.0 MiB (0 % idle)"), "{lines:?}");
        assert_eq!(lines[3], "  HH09  2 MiB a character");
        status.sharing = Some(Sharing { policy: "all".into(), saved_bytes: 9 << 20, refused: 2, ..Default::default() });
        let sharing = ProcessSharing { mergeable_bytes: 6 << 20, merged_bytes: 2 << 20, profit_bytes: 0 };
        status.processes[0].sharing = Some(sharing);
        let text = page(&status);
        assert!(text.contains("sharing all  saves 9.0 MiB (0 B with") && text.contains("turned away 2"), "{text}");
        assert!(text.contains("may share 6.0 MiB, shares 2.0 MiB"), "{text}");
    }
}
