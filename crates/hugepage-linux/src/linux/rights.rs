//! What this program may do to processes of others.

use std::fs;

/// Capabilities of `linux/capability.h`: to read page tables of others, to advise about their memory.
const FOR_OTHERS: [(u32, &str); 2] = [(19, "CAP_SYS_PTRACE"), (23, "CAP_SYS_NICE")];

/// The capabilities that it lacks, of those without which nothing can be managed; nothing if it has all.
pub fn missing() -> Option<String> {
    missing_of(&fs::read_to_string("/proc/self/status").unwrap_or_default())
}

/// The same by the text of `/proc/PID/status`.
fn missing_of(status: &str) -> Option<String> {
    let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let held = line.and_then(|line| u64::from_str_radix(line.trim(), 16).ok()).unwrap_or(0);
    let missing: Vec<&str> = FOR_OTHERS.iter().filter(|(bit, _)| held & 1 << bit == 0).map(|(_, name)| *name).collect();
    match missing[..] {
        [] => None,
        [one] => Some(format!("{one} is missing; run as root")),
        _ => Some(format!("{} are missing; run as root", missing.join(" and "))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_named() {
        let of = |caps: &str| missing_of(&format!("Name:\tx\nCapPrm:\t0\nCapEff:\t{caps}\nCapBnd:\t0\n"));
        assert_eq!(of("000001ffffffffff"), None);
        assert_eq!(of("0000000000880000"), None);
        assert_eq!(of("0000000000080000").as_deref(), Some("CAP_SYS_NICE is missing; run as root"));
        assert_eq!(of("0").as_deref(), Some("CAP_SYS_PTRACE and CAP_SYS_NICE are missing; run as root"));
    }
}
