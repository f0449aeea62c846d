//! The meaning of calls: from a name and unnamed arguments to a [`Call`].
//!
//! Reading order: this file, [`args`] (arguments by place and type), then the tables: [`files`], [`data`],
//! [`metadata`],
//! [`memory`], [`process`], [`queues`], [`mac`].

mod args;
mod data;
mod files;
mod mac;
mod memory;
mod metadata;
mod process;
mod queues;

use std::collections::BTreeMap;

use crate::call::Call;
use crate::import::RawCall;
use crate::name::Word;
use crate::trace::Platform;
use esker_base::Errno;

pub use args::{Args, Interner, Note};

/// Arguments that are none of a call's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Bad {
    /// One has the wrong type, or is missing.
    Argument {
        /// Which, from 0.
        place: usize,
        /// What was expected.
        wanted: &'static str,
    },
    /// A path was cut by the recorder.
    CutPath(String),
}

type Decode = fn(&mut Args<'_>) -> Result<Call, Bad>;

/// One system call that is understood.
#[derive(Clone, Copy)]
pub struct Known {
    /// Its name, as traces print it.
    pub name: &'static str,
    /// Whose call it is: `None` for all platforms.
    pub platform: Option<Platform>,
    decode: Decode,
}

const fn call(name: &'static str, decode: Decode) -> Known {
    Known { name, platform: None, decode }
}

const fn mac_call(name: &'static str, decode: Decode) -> Known {
    Known { name, platform: Some(Platform::Mac), decode }
}

/// Every system call that is understood, in groups; those of one platform last.
pub fn known() -> impl Iterator<Item = &'static Known> {
    let tables = [files::CALLS, data::CALLS, metadata::CALLS, memory::CALLS, process::CALLS, queues::CALLS, mac::CALLS];
    tables.into_iter().flatten()
}

/// Known calls that neither name nor use a file: they are kept as [`Call::Other`] without a warning.
pub const WITHOUT_FILES: &[&str] = &[
    "alarm",
    "arch_prctl",
    "brk",
    "capget",
    "capset",
    "clock_getres",
    "clock_gettime",
    "clock_nanosleep",
    "get_mempolicy",
    "get_robust_list",
    "getcpu",
    "getcwd",
    "getegid",
    "geteuid",
    "getgid",
    "getgroups",
    "getitimer",
    "getpgid",
    "getpgrp",
    "getpid",
    "getppid",
    "getpriority",
    "getrandom",
    "getresgid",
    "getresuid",
    "getrlimit",
    "getrusage",
    "getsid",
    "gettid",
    "gettimeofday",
    "getuid",
    "ioprio_get",
    "ioprio_set",
    "kill",
    "mbind",
    "membarrier",
    "mincore",
    "mlock",
    "mlock2",
    "mlockall",
    "mprotect",
    "munlock",
    "munlockall",
    "nanosleep",
    "pause",
    "personality",
    "pkey_alloc",
    "pkey_free",
    "pkey_mprotect",
    "prctl",
    "prlimit64",
    "restart_syscall",
    "rseq",
    "rt_sigaction",
    "rt_sigpending",
    "rt_sigprocmask",
    "rt_sigqueueinfo",
    "rt_sigreturn",
    "rt_sigsuspend",
    "rt_sigtimedwait",
    "rt_tgsigqueueinfo",
    "sched_get_priority_max",
    "sched_get_priority_min",
    "sched_getaffinity",
    "sched_getattr",
    "sched_getparam",
    "sched_getscheduler",
    "sched_setaffinity",
    "sched_setattr",
    "sched_setparam",
    "sched_setscheduler",
    "sched_yield",
    "seccomp",
    "set_mempolicy",
    "set_robust_list",
    "set_tid_address",
    "setgid",
    "setgroups",
    "setitimer",
    "setpgid",
    "setpriority",
    "setresgid",
    "setresuid",
    "setrlimit",
    "setsid",
    "setuid",
    "sigaltstack",
    "sigreturn",
    "sysinfo",
    "tgkill",
    "time",
    "timer_create",
    "timer_delete",
    "timer_settime",
    "timerfd_gettime",
    "timerfd_settime",
    "times",
    "tkill",
    "uname",
];

/// What came of a call's name and arguments.
pub struct Decoded {
    /// The call.
    pub call: Call,
    /// What was wrong: nothing for a call that was understood.
    pub trouble: Option<OtherReason>,
}

/// Why a call is only [`Call::Other`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OtherReason {
    /// It is unknown.
    UnknownCall,
    /// Its arguments are none of its.
    Bad(Bad),
}

/// All calls that are understood, by name.
pub struct Decoder {
    calls: BTreeMap<&'static str, Decode>,
}

impl Decoder {
    /// Knows the calls of a platform. Where it has a form of its own of a call that all have, that one counts.
    pub fn new(platform: Platform) -> Decoder {
        let own = known().filter(|known| known.platform.is_none_or(|its| its == platform));
        Decoder { calls: own.map(|known| (known.name, known.decode)).collect() }
    }

    /// Decodes a call; what it notes and does not know goes to `args`.
    pub fn decode(&self, args: &mut Args<'_>) -> Decoded {
        let raw: &RawCall = args.raw;
        let name = raw.name.strip_suffix("_nocancel").unwrap_or(&raw.name);
        let other = || Call::Other { name: Word::from(name) };
        let Some(decode) = self.calls.get(name) else {
            let trouble = (!WITHOUT_FILES.contains(&name)).then_some(OtherReason::UnknownCall);
            return Decoded { call: other(), trouble };
        };
        match decode(args) {
            Ok(call) => Decoded { call, trouble: None },
            // A bad address is what the program asked for: there is nothing more to know.
            Err(_) if raw.ret.errno == Some(Errno::EFAULT) => Decoded { call: other(), trouble: None },
            Err(bad) => Decoded { call: other(), trouble: Some(OtherReason::Bad(bad)) },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn at_least_eighty_calls_of_linux_are_known_each_once() {
        let linux: Vec<_> = known().filter(|known| known.platform.is_none()).map(|known| known.name).collect();
        let distinct: std::collections::BTreeSet<_> = linux.iter().collect();
        assert_eq!(distinct.len(), linux.len());
        assert!(linux.len() >= 80, "{}", linux.len());
        assert!(WITHOUT_FILES.iter().all(|name| !distinct.contains(name)));
    }
}
