//! `ingens-damon`: DAMON's scheme for huge pages as a rival. The same program with hot and cold, dense and sparse
//! memory runs in base pages, with `THP=always`, with that scheme and beside the manager.
//!
//! It runs here if this kernel has DAMON for processes, and otherwise in a guest with Debian's newer kernel
//! ([`guest`]). A guest's CPUs are emulated: there, counts of pages are results, and times are not.
//!
//! The scheme only gives advice, so it stands with the kernel's khugepaged and with a fast one. Everything that decides
//! is there before the program uses its memory, and then the first use of each page counts as a use for DAMON. So the
//! scheme stands a third time, where it begins [`LATE`] after the first use, and there also in a form that waits until
//! use has settled.

use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use esker_lab_kit::{Figure, Lab, LabError, machine::told_bytes};

use crate::ingens::damos::{self, Damos, ETHP, SETTLED, Schemes};
use crate::ingens::hotcold::{HotCold, Layout};
use crate::ingens::settings::keep_memory;
use crate::ingens::{Arm, Manager, Seen, process_cpu, room};

mod guest;

const QUICK: Duration = Duration::from_secs(30);
const WHOLE: Duration = Duration::from_secs(120);
const LAYOUT: Layout = Layout { hot: 12, cold: 24, hot_sparse: 12, cold_sparse: 24 };
const LOOKS: Duration = Duration::from_millis(100);
/// From the end of the first use to the beginning of the late scheme.
const LATE: Duration = Duration::from_secs(3);
/// Of all arms. In the guest, where there is little memory, all of it counts.
const BYTES: u64 = 256 << 20;

/// What decides about huge pages.
struct Rule {
    /// In ids of figures.
    word: &'static str,
    arm: Arm,
    decider: Decider,
}

/// What decides beside the kernel's settings.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Decider {
    None,
    Scheme,
    LateScheme(Schemes),
    Manager,
}

const RULES: [Rule; 7] = [
    Rule { word: "base", arm: Arm::Base, decider: Decider::None },
    Rule { word: "always", arm: Arm::Greedy, decider: Decider::None },
    Rule { word: "damon", arm: Arm::Advised, decider: Decider::Scheme },
    Rule { word: "damon_fast", arm: Arm::AdvisedFast, decider: Decider::Scheme },
    Rule { word: "damon_late", arm: Arm::AdvisedFast, decider: Decider::LateScheme(ETHP) },
    Rule { word: "damon_settled", arm: Arm::AdvisedFast, decider: Decider::LateScheme(SETTLED) },
    Rule { word: "ours", arm: Arm::Base, decider: Decider::Manager },
];

/// What is measured of each, and its unit.
const MEASURES: [(&str, &str); 7] = [
    ("huge_share_hot", "of hot and dense memory, at the end"),
    ("huge_share_cold", "of cold and dense memory, at the end"),
    ("huge_share_hot_sparse", "of hot memory with every second page in use, at the end"),
    ("huge_share_cold_sparse", "of cold memory with every second page in use, at the end"),
    ("bloat", "memory over the pages that are used, less 1"),
    ("first_huge_s", "s from the first use of memory, or from a later beginning of DAMON, to the first huge page"),
    ("cpu_s", "s of CPU time of the manager, DAMON and khugepaged"),
];
const IN_GUEST: (&str, &str) = ("in_guest", "1 in a guest with emulated CPUs, 0 on this machine");

pub(crate) fn run(lab: &Lab<'_>) -> Result<Vec<Figure>, LabError> {
    match damos::is_here(lab) {
        Ok(()) => here(lab),
        Err(why) => {
            lab.say(format!("{why}; a guest has it"));
            guest::run(lab)
        }
    }
}

fn here(lab: &Lab<'_>) -> Result<Vec<Figure>, LabError> {
    let _kept = keep_memory(lab)?;
    room(BYTES, lab)?;
    let mut figures = vec![Figure::alone(IN_GUEST.0, 0.0, IN_GUEST.1)];
    for rule in &RULES {
        let values = measure(rule, lab)?;
        lab.say(told(rule, &values));
        figures.extend(of_rule(rule, values));
    }
    Ok(figures)
}

fn told(rule: &Rule, values: &[Option<f64>; MEASURES.len()]) -> String {
    let words = MEASURES.iter().zip(values).filter_map(|((name, _), value)| Some(format!("{name} {:.3}", (*value)?)));
    format!("{}: {}", rule.word, words.collect::<Vec<String>>().join(", "))
}

/// Figures of a rule; those without a value, such as the time of a first huge page that never came, are left out.
fn of_rule(rule: &Rule, values: [Option<f64>; MEASURES.len()]) -> impl Iterator<Item = Figure> {
    let figure = |((name, unit), value): (&(&str, &'static str), Option<f64>)| {
        Some(Figure::alone(format!("{name}_{}", rule.word), value?, unit))
    };
    MEASURES.iter().zip(values).filter_map(figure)
}

/// One rule: the values of [`MEASURES`].
fn measure(rule: &Rule, lab: &Lab<'_>) -> Result<[Option<f64>; MEASURES.len()], LabError> {
    let held = rule.arm.hold(lab)?;
    let mut program = HotCold::start(LAYOUT)?;
    let pid = program.pid();
    let (mut manager, mut damos, mut late) = (None, None, None);
    match rule.decider {
        Decider::None => {}
        Decider::Scheme => damos = Some(Damos::start(pid, ETHP, lab)?),
        Decider::LateScheme(schemes) => late = Some(schemes),
        Decider::Manager => manager = Some(Manager::start(lab.scratch, pid, "")?),
    }
    let seen = Seen::of(pid)?;
    let huge = |areas: [(u64, u64); 4]| areas.map(|(start, end)| seen.huge(start, end) as f64 / (end - start) as f64);
    let (before, khugepaged_before) = (resident(pid), khugepaged_cpu());
    program.begin_fill()?;
    if let Some(schemes) = late {
        program.wait_filled()?;
        sleep(LATE);
        damos = Some(Damos::start(pid, schemes, lab)?);
    }
    let begun = Instant::now();
    let (time, mut first) = (lab.scale(QUICK, WHOLE), None);
    while begun.elapsed() < time {
        sleep(LOOKS);
        if first.is_none() && huge(program.areas()).iter().any(|share| *share > 0.0) {
            first = Some(begun.elapsed().as_secs_f64());
        }
    }
    if late.is_none() {
        program.wait_filled()?;
    }
    let [hot, cold, hot_sparse, cold_sparse] = huge(program.areas());
    let bloat = resident(pid).saturating_sub(before) as f64 / LAYOUT.used() as f64 - 1.0;
    let of_damos = damos.as_ref().map_or(Duration::ZERO, Damos::cpu);
    let of_manager = manager.as_ref().map_or(Duration::ZERO, Manager::cpu);
    let cpu = (of_damos + of_manager + khugepaged_cpu() - khugepaged_before).as_secs_f64();
    drop(held);
    Ok([Some(hot), Some(cold), Some(hot_sparse), Some(cold_sparse), Some(bloat), first, Some(cpu)])
}

fn resident(pid: u32) -> u64 {
    told_bytes(&format!("/proc/{pid}/status"), "RssAnon").unwrap_or(0)
}

/// CPU time of the kernel's own thread that makes huge pages, if there is one.
fn khugepaged_cpu() -> Duration {
    let pids = std::fs::read_dir("/proc").into_iter().flatten().filter_map(Result::ok);
    let pids = pids.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let is_it = |pid: &u32| {
        let name = std::fs::read_to_string(Path::new("/proc").join(pid.to_string()).join("comm"));
        name.is_ok_and(|name| name.trim() == "khugepaged")
    };
    pids.into_iter().find(is_it).map_or(Duration::ZERO, process_cpu)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_named_by_measure_and_rule_and_those_without_a_value_are_left_out() {
        let values = [Some(1.0), Some(0.0), Some(0.5), Some(0.0), Some(0.1), None, Some(2.0)];
        let figures: Vec<Figure> = of_rule(&RULES[3], values).collect();
        let ids: Vec<&str> = figures.iter().map(|figure| figure.id.as_str()).collect();
        assert_eq!(figures.len(), MEASURES.len() - 1);
        assert!(ids.contains(&"huge_share_hot_damon_fast") && !ids.contains(&"first_huge_s_damon_fast"));
        assert!(told(&RULES[3], &values).starts_with("damon_fast: huge_share_hot 1.000, "));
    }
}
