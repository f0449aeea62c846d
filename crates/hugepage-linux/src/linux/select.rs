//! Which processes of this machine are managed: by number, name, control group or systemd unit.

use std::collections::BTreeMap;
use std::fs;
use std::time::{Duration, Instant};

use serde::Deserialize;

/// A young process may still become another program.
const YOUNG: Duration = Duration::from_secs(5);
/// Others are looked at again so often.
const LOOKED_AGAIN: Duration = Duration::from_secs(30);

/// A rule: all words that are given must fit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// This process.
    pub pid: Option<u32>,
    /// Processes of this name, as `ps -o comm` shows it.
    pub name: Option<String>,
    /// Processes in this control group or below it, as a path from the root of its hierarchy.
    pub cgroup: Option<String>,
    /// Processes of this unit of systemd; without a suffix it is a service.
    pub unit: Option<String>,
    /// Shares of each of them [default: 10,000].
    pub shares: Option<u64>,
}

/// Shares of processes without others.
pub const SHARES: u64 = 10_000;

/// What is known of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Known {
    /// Its name.
    pub name: String,
    /// `/proc/PID/cgroup`.
    pub cgroups: String,
}

impl Rule {
    /// Whether it says anything.
    pub fn is_empty(&self) -> bool {
        self.pid.is_none() && self.name.is_none() && self.cgroup.is_none() && self.unit.is_none()
    }

    /// Whether a process is meant.
    pub fn fits(&self, pid: u32, known: &Known) -> bool {
        let groups = || known.cgroups.lines().filter_map(|line| line.splitn(3, ':').nth(2));
        let below = |path: &str, group: &str| {
            let rest = path.strip_prefix(group.trim_end_matches('/'));
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        let in_unit = |path: &str, unit: &str| {
            let unit = if unit.contains('.') { unit.to_string() } else { format!("{unit}.service") };
            path.split('/').any(|part| part == unit)
        };
        self.pid.is_none_or(|wanted| wanted == pid)
            && self.name.as_ref().is_none_or(|name| *name == known.name)
            && self.cgroup.as_ref().is_none_or(|group| groups().any(|path| below(path, group)))
            && self.unit.as_ref().is_none_or(|unit| groups().any(|path| in_unit(path, unit)))
    }
}

/// A process that a rule means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selected {
    /// Its number.
    pub pid: u32,
    /// Its name.
    pub name: String,
    /// Its shares.
    pub shares: u64,
}

/// Looks for processes.
#[derive(Debug)]
pub struct Selector {
    rules: Vec<Rule>,
    seen: BTreeMap<u32, Seen>,
}

#[derive(Debug)]
struct Seen {
    first: Instant,
    looked: Instant,
    selected: Option<Selected>,
}

impl Selector {
    /// By these rules; the first that fits counts.
    pub fn new(rules: Vec<Rule>) -> Selector {
        Selector { rules, seen: BTreeMap::new() }
    }

    /// The processes that are meant, by number. This one never is.
    pub fn list(&mut self) -> Vec<Selected> {
        let now = Instant::now();
        let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
        let pids: Vec<u32> = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
        let mut seen = std::mem::take(&mut self.seen);
        for pid in pids.into_iter().filter(|pid| *pid != std::process::id()) {
            let old = seen.remove(&pid);
            let is_fresh =
                |old: &Seen| now.duration_since(old.looked) < LOOKED_AGAIN && now.duration_since(old.first) > YOUNG;
            let one = match old {
                Some(old) if is_fresh(&old) => old,
                old => Seen { first: old.map_or(now, |old| old.first), looked: now, selected: self.select(pid) },
            };
            self.seen.insert(pid, one);
        }
        let mut selected: Vec<Selected> = self.seen.values().filter_map(|seen| seen.selected.clone()).collect();
        selected.sort_by_key(|one| one.pid);
        selected
    }

    fn select(&self, pid: u32) -> Option<Selected> {
        let read = |file: &str| fs::read_to_string(format!("/proc/{pid}/{file}")).ok();
        let known = Known { name: read("comm")?.trim_end().to_string(), cgroups: read("cgroup").unwrap_or_default() };
        let rule = self.rules.iter().find(|rule| rule.fits(pid, &known))?;
        Some(Selected { pid, name: known.name, shares: rule.shares.unwrap_or(SHARES) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known() -> Known {
        let cgroups = "3:memory:/box/a\n1:name=systemd:/system.slice/redis.service\n0::/\n".to_string();
        Known { name: "redis-server".to_string(), cgroups }
    }

    fn check(rule: Rule, fits: bool) {
        assert_eq!(rule.fits(7, &known()), fits, "{rule:?}");
    }

    #[test]
    fn all_words_of_a_rule_must_fit() {
        let text = |text: &str| Some(text.to_string());
        check(Rule { pid: Some(7), name: text("redis-server"), ..Rule::default() }, true);
        check(Rule { pid: Some(8), name: text("redis-server"), ..Rule::default() }, false);
        check(Rule { name: text("redis"), ..Rule::default() }, false);
        check(Rule { cgroup: text("/box"), ..Rule::default() }, true);
        check(Rule { cgroup: text("/box/a/"), ..Rule::default() }, true);
        check(Rule { cgroup: text("/bo"), ..Rule::default() }, false);
        check(Rule { unit: text("redis"), ..Rule::default() }, true);
        check(Rule { unit: text("system.slice"), ..Rule::default() }, true);
        check(Rule { unit: text("red"), ..Rule::default() }, false);
    }

    #[test]
    fn processes_are_found_and_gone_when_they_are() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().expect("sleep is everywhere");
        let rule = Rule { pid: Some(child.id()), shares: Some(3), ..Rule::default() };
        let me = Rule { pid: Some(std::process::id()), ..Rule::default() };
        let mut selector = Selector::new(vec![rule, me]);
        let found = selector.list();
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(found.iter().map(|one| (one.pid, one.shares)).collect::<Vec<_>>(), [(child.id(), 3)]);
        assert_eq!(selector.list(), []);
    }
}
