//! `ingens-sharing`: what sharing of equal pages saves and costs, by policy, with real processes and the kernel's KSM.
//!
//! Guests (see `ingens::guest`) have a quarter of their memory in use all the time; half of its pages, hot and cold
//! alike, have equals in the other guests. As much again of hot memory has none: what an access costs is told beside
//! one to that, because the machine's speed changes more from minute to minute than sharing costs. What the kernel's
//! search takes of shared caches is not in it. The manager promotes in every arm, and decides by the policy of the arm
//! what may be shared. The kernel shares no huge pages: `same_type` shares what stays in base pages.

use std::time::Duration;

use esker_hugepage_linux::linux::merging::{self, saved};

use crate::ingens::guest::{Guest, Layout, room_for};
use crate::ingens::settings::keep_memory;
use crate::ingens::{Manager, wait_stable};
use esker_lab_kit::{Experiment, Figure, LabError, Options, Peer, scratch, timing::median};

/// The record.
pub const EXPERIMENT: Experiment = Experiment {
    name: "ingens-sharing",
    summary: "Memory that sharing of equal pages saves, and what it costs hot memory: none, all, same type, coordinated",
    source: "Ingens, table of page sharing: coordinated saves 71.3 % of what KVM does and costs 1.5 to 2.6 %",
    simulated: false,
    rivals: &[],
    run,
};

/// The policies, as a configuration names them.
const ARMS: [&str; 4] = ["none", "all", "same_type", "coordinated"];
const GUESTS: usize = 3;
/// A quarter of the memory that has equals is hot.
const LAYOUT: Layout = Layout { hot: 32, control: 32, cold: 92, sparse: 8 };
/// Scans short enough that memory is cold within seconds; the kernel looks at 100,000 pages in a second.
const CONFIG: &str = "cooldown = \"2s\"\nksm_pages_to_scan = 2000\nksm_sleep = \"20ms\"\n";
const ACCESS: &str = "[access]\nmethod = \"page_tables\"\nperiod = \"500ms\"\ninterval = \"400ms\"\n";
/// Nothing changes any more once what is saved has been the same, within a hundredth, for so long.
const SETTLED: Duration = Duration::from_secs(5);
/// Before that, hot and cold are told apart.
const LEARNT: Duration = Duration::from_secs(8);
const SETTLED_MOST: Duration = Duration::from_secs(52);

/// What came of one arm.
#[derive(Clone, Copy, Debug)]
struct Outcome {
    saved: f64,
    /// CPU time of an access to hot memory over that to memory that is not shared.
    access: f64,
    huge: f64,
}

fn run(options: &Options, progress: &mut dyn FnMut(&str)) -> Result<Vec<Figure>, LabError> {
    if !merging::is_there() {
        return Err(LabError::Data("this kernel has no KSM (CONFIG_KSM): no pages can be shared".to_string()));
    }
    if merging::is_running() {
        let why = "KSM runs already: what it saves would not be the guests'; stop its user (/sys/kernel/mm/ksm/run)";
        return Err(LabError::Data(why.to_string()));
    }
    let (rounds, time) = if options.quick { (1, Duration::from_secs(4)) } else { (5, Duration::from_secs(5)) };
    let _kept = keep_memory(options)?;
    let mut seen: [Vec<Outcome>; 4] = Default::default();
    for round in 0..rounds {
        for turn in 0..ARMS.len() {
            // A later run may find a busier machine, so the first place rotates.
            let arm = (round + turn) % ARMS.len();
            let outcome = measure(ARMS[arm], time, options)?;
            let mib = outcome.saved / 1048576.0;
            progress(&format!(
                "{}, round {} of {rounds}: {mib:.1} MiB saved, {:.3} times the control's time, {:.1} % huge",
                ARMS[arm],
                round + 1,
                outcome.access,
                100.0 * outcome.huge
            ));
            seen[arm].push(outcome);
        }
    }
    let of = |arm: usize, value: fn(&Outcome) -> f64| median(seen[arm].iter().map(value).collect());
    let slowdown = |arm: usize| {
        let ratios = seen[arm].iter().zip(&seen[2]).map(|(one, same)| one.access / same.access - 1.0);
        median(ratios.collect())
    };
    let mib = |arm| of(arm, |outcome| outcome.saved) / 1048576.0;
    let paper = |id, value, unit, paper| Figure::alone(id, value, unit).paper(paper);
    let slower = "of the CPU time of an access with same_type, above it";
    let huge = "of the guests' memory";
    let rival = Some(Peer { name: "KSM on everything, MiB saved".to_string(), value: mib(1) });
    // The source's: means of its three loads, 1,438, 317 and 1,026 MB of 15 GB.
    Ok(vec![
        Figure { peer: rival, ..paper("coordinated_over_all", mib(3) / mib(1), "of what is saved", 0.713) },
        paper("slowdown_coordinated", slowdown(3), slower, 0.0187),
        paper("slowdown_all", slowdown(1), slower, 0.131),
        Figure::alone("slowdown_none", slowdown(0), slower),
        Figure::alone("saved_none", mib(0), "MiB"),
        paper("saved_all", mib(1), "MiB", 1438.0),
        paper("saved_same_type", mib(2), "MiB", 317.0),
        paper("saved_coordinated", mib(3), "MiB", 1026.0),
        Figure::alone("huge_share_none", of(0, |outcome| outcome.huge), huge),
        paper("huge_share_all", of(1, |outcome| outcome.huge), huge, 0.493),
        paper("huge_share_same_type", of(2, |outcome| outcome.huge), huge, 0.99),
        paper("huge_share_coordinated", of(3, |outcome| outcome.huge), huge, 0.877),
    ])
}

fn measure(policy: &str, time: Duration, options: &Options) -> Result<Outcome, LabError> {
    room_for(GUESTS, LAYOUT, options)?;
    let folder = scratch::folder(&options.scratch)?;
    let socket = folder.path().join("share.sock");
    let mut guests =
        (0..GUESTS).map(|number| Guest::start(number, LAYOUT, &socket)).collect::<Result<Vec<Guest>, LabError>>()?;
    let others: String = guests[1..].iter().map(|guest| format!("[[process]]\npid = {}\n", guest.pid())).collect();
    let sharing = match policy {
        "none" => String::new(),
        policy => format!("sharing = {policy:?}\nsharing_socket = {socket:?}\n{CONFIG}"),
    };
    let manager = Manager::start(&options.scratch, guests[0].pid(), &format!("{sharing}{ACCESS}{others}"))?;
    guests.iter_mut().try_for_each(Guest::fill)?;
    std::thread::sleep(LEARNT);
    wait_stable(SETTLED, SETTLED_MOST, || saved().bytes, |seen, now| now.abs_diff(*seen) <= seen / 100);
    let times = guests.iter_mut().map(|guest| guest.measure(time)).collect::<Result<Vec<f64>, LabError>>()?;
    // The kernel's count may hold what guests of an earlier arm have left, until it looks at all pages again.
    let saved = saved().bytes.min(guests.iter().map(Guest::merged).sum()) as f64;
    let huge = guests.iter().map(Guest::huge_share).sum::<f64>() / guests.len() as f64;
    drop(guests);
    drop(manager);
    Ok(Outcome { saved, access: times.iter().sum::<f64>() / times.len() as f64, huge })
}
