//! How programs can be watched: programs in the kernel, its tracepoints, ptrace.

use std::io::ErrorKind;

use super::finding::{Finding, Subject};
use super::machine::{Capability, Machine};

const PROGRAMS: Subject = Subject { check: "BPF", verbs: &["trace record", "blktrace record", "hugepage run"] };
const TRACEPOINTS: Subject = Subject { check: "tracepoints", verbs: &["try", "advise"] };
const PTRACE: Subject = Subject { check: "ptrace", verbs: &["trace record"] };

const SWITCH: &str = "proc/sys/kernel/unprivileged_bpf_disabled";
const SCOPE: &str = "proc/sys/kernel/yama/ptrace_scope";
const TRACING: &str = "sys/kernel/tracing";
/// Groups of tracepoints by which block traces and calls are recorded with other programs.
const GROUPS: [&str; 2] = ["block", "raw_syscalls"];

pub fn check(machine: &Machine) -> Vec<Finding> {
    let tried = (machine.probes.recorder)();
    let has_programs = tried.is_ok();
    vec![programs(machine, tried), tracepoints(machine), ptrace(machine, has_programs)]
}

/// Without them recordings are made by ptrace.
fn programs(machine: &Machine, tried: Result<(), String>) -> Finding {
    let Err(error) = tried else { return PROGRAMS.ok("programs that see system calls run in the kernel") };
    let setting = machine.text(SWITCH).map_or(String::new(), |value| format!(" (unprivileged_bpf_disabled = {value})"));
    if !machine.is_root() {
        return PROGRAMS.note(format!("takes root{setting}; `trace record` uses ptrace"), "run the verb as root");
    }
    let advice = match machine.has("sys/kernel/btf/vmlinux") {
        false => "install a kernel with CONFIG_DEBUG_INFO_BTF",
        true => "give the container CAP_BPF, CAP_PERFMON and the PID namespace of its host (--pid host)",
    };
    PROGRAMS.note(format!("{error}{setting}"), advice)
}

/// Recordings of Esker do without tracefs; blktrace, perf and bpftrace do not.
fn tracepoints(machine: &Machine) -> Finding {
    let there = |name: &str| machine.path(&format!("{TRACING}/{name}")).try_exists();
    match there("events") {
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            TRACEPOINTS.note(format!("/{TRACING} is for root alone"), "record block traces as root")
        }
        Ok(true) => {
            let absent: Vec<&str> =
                GROUPS.into_iter().filter(|group| !there(&format!("events/{group}")).unwrap_or(false)).collect();
            match absent[..] {
                [] => TRACEPOINTS.ok("block and raw_syscalls are there, for blktrace and perf"),
                _ => TRACEPOINTS.note(
                    format!("{} absent: blktrace or perf cannot record here", absent.join(", ")),
                    "install a kernel with CONFIG_BLK_DEV_IO_TRACE and CONFIG_FTRACE_SYSCALLS",
                ),
            }
        }
        Ok(false) | Err(_) => TRACEPOINTS.note(
            format!("tracefs is not mounted at /{TRACING}: blktrace and perf cannot record here"),
            format!("mount -t tracefs tracefs /{TRACING}, as root"),
        ),
    }
}

fn ptrace(machine: &Machine, has_programs: bool) -> Finding {
    const EASE: &str = "sysctl kernel.yama.ptrace_scope=1, as root";
    let scope = machine.text(SCOPE);
    let shown = |scope: &str| format!("kernel.yama.ptrace_scope = {scope}");
    match scope.as_deref() {
        None if !machine.has("proc/sys/kernel") => PTRACE.unread(SCOPE),
        None => PTRACE.ok("a user may trace own programs (no Yama)"),
        Some("0") => PTRACE.ok(format!("a user may trace own programs ({})", shown("0"))),
        Some("1") => {
            PTRACE.ok(format!("a user may trace programs that it starts ({}); `--pid` takes root", shown("1")))
        }
        Some("2") if machine.holds(Capability::SysPtrace) => PTRACE.ok(format!("root may trace ({})", shown("2"))),
        Some("2") => PTRACE.note(format!("only root may trace ({})", shown("2")), EASE),
        Some(scope) if has_programs => PTRACE
            .note(format!("is switched off ({}); BPF records", shown(scope)), "reboot without it, and keep it at 1"),
        Some(scope) => PTRACE.missing(
            format!("is switched off until the next boot ({})", shown(scope)),
            "reboot with kernel.yama.ptrace_scope = 1, or record as root by BPF",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::super::finding::State;
    use super::super::machine::testing::Made;
    use super::*;

    #[test]
    fn a_refused_program_is_told_with_what_helps() {
        let refused = || Err("object: refused".to_string());
        let advice = |made: Made| programs(&made, refused()).advice.unwrap();
        assert_eq!(advice(Made::of(&[]).for_user()), "run the verb as root");
        assert!(advice(Made::of(&[])).contains("CONFIG_DEBUG_INFO_BTF"));
        assert!(advice(Made::of(&[("sys/kernel/btf/vmlinux", "")])).contains("CAP_BPF"));
        let found = programs(&Made::of(&[(SWITCH, "2\n")]), refused());
        assert_eq!(found.found, "object: refused (unprivileged_bpf_disabled = 2)");
        let found = programs(&Made::of(&[(SWITCH, "2\n")]).for_user(), refused());
        assert_eq!(found.found, "takes root (unprivileged_bpf_disabled = 2); `trace record` uses ptrace");
        assert_eq!(programs(&Made::of(&[]), Ok(())).state, State::Ok);
    }

    #[test]
    fn tracepoints_that_are_absent_are_named() {
        assert!(tracepoints(&Made::of(&[])).advice.unwrap().starts_with("mount -t tracefs"));
        let block = ("sys/kernel/tracing/events/block/enable", "");
        assert!(tracepoints(&Made::of(&[block])).found.starts_with("raw_syscalls absent"));
        let both = [block, ("sys/kernel/tracing/events/raw_syscalls/enable", "")];
        assert_eq!(tracepoints(&Made::of(&both)).state, State::Ok);
    }

    #[test]
    fn the_scope_of_ptrace_decides() {
        let state = |scope: &str, has_programs, for_user| {
            let made = Made::of(&[(SCOPE, scope)]);
            let made = if for_user { made.for_user() } else { made };
            ptrace(&made, has_programs).state
        };
        assert_eq!(["0\n", "1\n"].map(|scope| state(scope, false, true)), [State::Ok; 2]);
        assert_eq!([state("2\n", true, false), state("2\n", false, true)], [State::Ok, State::Note]);
        assert_eq!([state("3\n", true, false), state("3\n", false, true)], [State::Note, State::Missing]);
        assert_eq!(ptrace(&Made::of(&[(SWITCH, "2\n")]), false).state, State::Ok);
        assert_eq!(ptrace(&Made::of(&[]), false).state, State::Note);
    }
}
