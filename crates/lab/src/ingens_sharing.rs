//! `ingens-sharing`: what sharing of equal pages saves and costs, by policy, with real processes and the kernel's KSM.
//!
//! Guests (see `ingens::guest`) have a quarter of their memory in use all the time; half of its pages, hot and cold
//! alike, have equals in the other guests. As much again of hot memory has none: what an access costs is told beside
//! one to that, because the machine's speed changes more from minute to minute than sharing costs. What the kernel's
//! search takes of shared caches is not in it. The manager promotes in every arm, and decides by the policy of the
//! arm what may be shared. The kernel shares no huge pages: `same_type` shares what stays in base pages.

use std::time::Duration;

use esker_hugepage_linux::linux::merging::{self, saved};

use crate::ingens::guest::{Guest, Layout, room_for};
use crate::ingens::settings::keep_memory;
use crate::ingens::{Manager, wait_stable};
use esker_lab_kit::timing::{in_rounds, mean, median};
use esker_lab_kit::{Figure, Lab, LabError};

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

pub(crate) fn run(lab: &Lab<'_>) -> Result<Vec<Figure>, LabError> {
    if !merging::is_there() {
        return Err(LabError::Data("this kernel has no KSM (CONFIG_KSM): no pages can be shared".to_string()));
    }
    if merging::is_running() {
        let why = "KSM runs already: what it saves would not be the guests'; stop its user (/sys/kernel/mm/ksm/run)";
        return Err(LabError::Data(why.to_string()));
    }
    let (rounds, time) = lab.scale((1, Duration::from_secs(4)), (5, Duration::from_secs(5)));
    let _kept = keep_memory(lab)?;
    let seen = in_rounds(rounds, &ARMS, |round, arm| {
        let outcome = measure(arm, time, lab)?;
        let Outcome { saved, access, huge } = outcome;
        let (mib, percent) = (saved / 1048576.0, 100.0 * huge);
        let cost = format!("{access:.3} times the control's time, {percent:.1} % huge");
        lab.say(format!("{arm}, round {round} of {rounds}: {mib:.1} MiB saved, {cost}"));
        Ok(outcome)
    })?;
    Ok(figures(&seen))
}

fn figures(seen: &[Vec<Outcome>]) -> Vec<Figure> {
    let of = |arm: usize, value: fn(&Outcome) -> f64| median(seen[arm].iter().map(value).collect());
    let slowdown = |arm: usize| {
        let ratios = seen[arm].iter().zip(&seen[2]).map(|(one, same)| one.access / same.access - 1.0);
        median(ratios.collect())
    };
    let mib = |arm| of(arm, |outcome| outcome.saved) / 1048576.0;
    let slower = "of the CPU time of an access with same_type, above it";
    // The source's: means of its three loads, 1,438, 317 and 1,026 MB of 15 GB.
    let mut figures = vec![
        Figure::alone("coordinated_over_all", mib(3) / mib(1), "of what is saved")
            .paper(0.713)
            .peer("KSM on everything, MiB saved", mib(1)),
        Figure::alone("slowdown_coordinated", slowdown(3), slower).paper(0.0187),
        Figure::alone("slowdown_all", slowdown(1), slower).paper(0.131),
        Figure::alone("slowdown_none", slowdown(0), slower),
    ];
    let each = |what: &str, papers: [f64; 3], unit, value: &dyn Fn(usize) -> f64| {
        let papers = std::iter::once(None).chain(papers.map(Some));
        let figure = |(at, paper)| Figure::alone(format!("{what}_{}", ARMS[at]), value(at), unit).paper(paper);
        papers.enumerate().map(figure).collect::<Vec<_>>()
    };
    figures.extend(each("saved", [1438.0, 317.0, 1026.0], "MiB", &mib));
    let huge = |arm| of(arm, |outcome| outcome.huge);
    figures.extend(each("huge_share", [0.493, 0.99, 0.877], "of the guests' memory", &huge));
    figures
}

fn measure(policy: &str, time: Duration, lab: &Lab<'_>) -> Result<Outcome, LabError> {
    room_for(GUESTS, LAYOUT, lab)?;
    let folder = lab.folder()?;
    let socket = folder.path().join("share.sock");
    let mut guests =
        (0..GUESTS).map(|number| Guest::start(number, LAYOUT, &socket)).collect::<Result<Vec<Guest>, LabError>>()?;
    let others: String = guests[1..].iter().map(|guest| format!("[[process]]\npid = {}\n", guest.pid())).collect();
    let sharing = match policy {
        "none" => String::new(),
        policy => format!("sharing = {policy:?}\nsharing_socket = {socket:?}\n{CONFIG}"),
    };
    let manager = Manager::start(lab.scratch, guests[0].pid(), &format!("{sharing}{ACCESS}{others}"))?;
    guests.iter_mut().try_for_each(Guest::fill)?;
    std::thread::sleep(LEARNT);
    wait_stable(SETTLED, SETTLED_MOST, || saved().bytes, |seen, now| now.abs_diff(*seen) <= seen / 100);
    let times = guests.iter_mut().map(|guest| guest.measure(time)).collect::<Result<Vec<f64>, LabError>>()?;
    // The kernel's count may hold what guests of an earlier arm have left, until it looks at all pages again.
    let saved = saved().bytes.min(guests.iter().map(Guest::merged).sum()) as f64;
    let huge = mean(&guests.iter().map(Guest::huge_share).collect::<Vec<_>>());
    drop(guests);
    drop(manager);
    Ok(Outcome { saved, access: mean(&times), huge })
}
