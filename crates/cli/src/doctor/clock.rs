//! Time: the source of the clock, and CPU time that a host takes away.

use std::time::{Duration, Instant};

use super::finding::{Finding, Subject};
use super::machine::Machine;

const CLOCK: Subject =
    Subject { check: "clock", verbs: &["serve", "calibrate", "trace record", "trace replay", "lab run"] };
const STOLEN: Subject = Subject { check: "stolen CPU time", verbs: &["calibrate", "trace predict", "lab run"] };
const FOLDER: &str = "sys/devices/system/clocksource/clocksource0";
const STAT: &str = "proc/stat";

/// Sources whose reading costs a microsecond or more, because it leaves the CPU, or that tick coarsely.
const SLOW: [&str; 5] = ["hpet", "acpi_pm", "jiffies", "refined-jiffies", "pit"];
/// Time over which stolen time is looked at.
const WINDOW: Duration = Duration::from_millis(200);
/// Share of stolen time from which measurements suffer.
const STOLEN_MAX: f64 = 0.05;

pub fn check(machine: &Machine) -> Vec<Finding> {
    let current = format!("{FOLDER}/current_clocksource");
    let available = machine.text(&format!("{FOLDER}/available_clocksource")).unwrap_or_default();
    vec![machine.text(&current).map_or_else(|| CLOCK.unread(&current), |source| judged(&source, &available))]
}

fn judged(source: &str, available: &str) -> Finding {
    if !SLOW.contains(&source) {
        return CLOCK.ok(source);
    }
    let better = available.split_whitespace().find(|other| !SLOW.contains(other));
    let advice = match better {
        Some(better) => format!("echo {better} > /{FOLDER}/current_clocksource, as root"),
        None => "boot with tsc=reliable if the counters of the CPUs agree, or use another machine".to_string(),
    };
    CLOCK.note(format!("{source}: each look at the clock is slow, or coarse"), advice)
}

/// Stolen CPU time, looked at from [`StolenTime::begin`] to [`StolenTime::end`].
pub struct StolenTime {
    begun: Instant,
    before: Option<Times>,
}

/// CPU time since the start of the machine, in ticks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Times {
    stolen: u64,
    all: u64,
}

impl StolenTime {
    /// Begins to look.
    pub fn begin(machine: &Machine) -> StolenTime {
        StolenTime { begun: Instant::now(), before: times(machine) }
    }

    /// Ends to look, once the window is over.
    pub fn end(self, machine: &Machine) -> Finding {
        std::thread::sleep(WINDOW.saturating_sub(self.begun.elapsed()));
        let span = self.begun.elapsed();
        match (self.before, times(machine)) {
            (Some(before), Some(after)) => stolen(before, after, span),
            _ => STOLEN.unread(STAT),
        }
    }
}

fn times(machine: &Machine) -> Option<Times> {
    Times::parse(&machine.text(STAT)?)
}

impl Times {
    /// By the text of `/proc/stat`: user, nice, system, idle, waiting, interrupts, soft interrupts, stolen.
    fn parse(text: &str) -> Option<Times> {
        let words = text.lines().find_map(|line| line.strip_prefix("cpu "))?.split_whitespace().take(8);
        let ticks: Vec<u64> = words.map(|word| word.parse().ok()).collect::<Option<_>>()?;
        Some(Times { stolen: *ticks.get(7)?, all: ticks.iter().fold(0, |all, one| all.saturating_add(*one)) })
    }

    fn share(self) -> f64 {
        self.stolen as f64 / self.all.max(1) as f64
    }
}

fn stolen(before: Times, after: Times, span: Duration) -> Finding {
    let within =
        Times { stolen: after.stolen.saturating_sub(before.stolen), all: after.all.saturating_sub(before.all) };
    let found = format!(
        "{:.1} % of {:.1} s, {:.1} % since the start of the machine",
        100.0 * within.share(),
        span.as_secs_f64(),
        100.0 * after.share()
    );
    match within.share().max(after.share()) > STOLEN_MAX {
        true => {
            STOLEN.note(found, "give this virtual machine CPUs of its own (virsh vcpupin), or measure at quiet hours")
        }
        false => STOLEN.ok(found),
    }
}

#[cfg(test)]
mod tests {
    use super::super::finding::State;
    use super::super::machine::testing::Made;
    use super::*;

    #[test]
    fn slow_clocks_are_notes_with_the_better_one() {
        assert_eq!(["tsc", "kvm-clock", "arch_sys_counter"].map(|source| judged(source, "").state), [State::Ok; 3]);
        assert_eq!(judged("hpet", "hpet acpi_pm tsc").advice.unwrap().split(' ').nth(1), Some("tsc"));
        assert!(judged("acpi_pm", "acpi_pm ").advice.unwrap().contains("tsc=reliable"));
        let found = check(&Made::of(&[])).remove(0);
        assert!(found.state == State::Note && found.found.contains("current_clocksource cannot be read"), "{found:?}");
        let file = format!("{FOLDER}/current_clocksource");
        assert_eq!(check(&Made::of(&[(&file, "tsc\n")]))[0].found, "tsc");
    }

    #[test]
    fn stolen_time_is_told_by_its_share() {
        let times = |stolen, all| Times { stolen, all };
        assert_eq!(Times::parse("cpu  1 2 3 4 5 6 7 8 9 10\ncpu0 1 1 1\n"), Some(times(8, 36)));
        assert_eq!([Times::parse("cpu 1 2 3"), Times::parse(""), Times::parse("cpu a b c d e f g h")], [None; 3]);
        let state = |before, after| stolen(before, after, WINDOW).state;
        assert_eq!(state(times(10, 1000), times(11, 1040)), State::Ok);
        assert_eq!(state(times(10, 1000), times(20, 1040)), State::Note);
        assert_eq!(state(times(100, 1000), times(100, 1040)), State::Note, "it was stolen before");
        assert_eq!(state(times(10, 1000), times(9, 990)), State::Ok, "counters that go back are no error");
    }

    #[test]
    fn a_hidden_stat_is_told() {
        let machine = Made::of(&[]);
        assert!(StolenTime::begin(&machine).end(&machine).found.contains("/proc/stat cannot be read"));
        let machine = Made::of(&[(STAT, "cpu  1 2 3 4 5 6 7 0 0 0\n")]);
        assert!(StolenTime::begin(&machine).end(&machine).found.starts_with("0.0 % of 0."));
    }
}
