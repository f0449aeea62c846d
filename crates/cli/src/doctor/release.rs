//! The version of the kernel.

use super::finding::{Finding, Subject};
use super::machine::Machine;

const KERNEL: Subject =
    Subject { check: "kernel", verbs: &["serve", "attach", "mount", "trace record", "trace replay", "hugepage run"] };
const FILE: &str = "proc/sys/kernel/osrelease";
/// The oldest version that Esker runs on.
const OLDEST: (u32, u32) = (5, 15);

pub fn check(machine: &Machine) -> Vec<Finding> {
    vec![machine.text(FILE).map_or_else(|| KERNEL.unread(FILE), |release| judged(&release))]
}

fn judged(release: &str) -> Finding {
    let found = format!("Linux {release}");
    match version(release) {
        Some(version) if version >= OLDEST => KERNEL.ok(found),
        _ => KERNEL.missing(found, format!("install Linux {}.{} or newer", OLDEST.0, OLDEST.1)),
    }
}

/// Its first two numbers.
fn version(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::super::finding::State;
    use super::super::machine::testing::Made;
    use super::*;

    #[test]
    fn versions_are_compared_by_numbers() {
        let state = |release| judged(release).state;
        assert_eq!(["6.18.44-fc", "5.15.0", "10.0-rc1"].map(state), [State::Ok; 3]);
        assert_eq!(["5.9.1", "4.19", "what"].map(state), [State::Missing; 3]);
        assert_eq!(check(&Made::of(&[(FILE, "5.4.0\n")]))[0].advice.as_deref(), Some("install Linux 5.15 or newer"));
        assert_eq!(check(&Made::of(&[]))[0].state, State::Note);
    }
}
