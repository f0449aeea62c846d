//! Calls that make, change and end processes and threads.

use super::args::{Args, field, words_of};
use super::{Bad, Known, call};
use crate::call::Call;
use crate::name::Word;
use crate::words::CloneFlags;

pub(super) const CALLS: &[Known] = &[
    call("clone", |a| {
        let words = a.named("flags").map(words_of).unwrap_or_default();
        Ok(clone(&words))
    }),
    call("clone3", |a| {
        let words = a.get(0).and_then(|how| field(how, "flags")).map(words_of).unwrap_or_default();
        Ok(clone(&words))
    }),
    call("fork", |_| Ok(clone(&[]))),
    call("vfork", |_| Ok(clone(&["CLONE_VM", "CLONE_VFORK"]))),
    call("execve", |a| Ok(Call::Exec { file: a.object(0, true)? })),
    call("execveat", |a| Ok(Call::Exec { file: a.object_at(0, Some(4), true)? })),
    call("exit", |a| exit(a, false)),
    call("exit_group", |a| exit(a, true)),
    call("unshare", |a| Ok(Call::Unshare { flags: a.some_flags(0) })),
    call("wait4", |a| Ok(Call::Wait { pid: a.int(0)? as i32 })),
    call("waitid", |a| Ok(Call::Wait { pid: a.int(1).unwrap_or(-1) as i32 })),
    call("waitpid", |a| Ok(Call::Wait { pid: a.int(0)? as i32 })),
    call("futex", futex),
];

/// Waits and wakes of the plain kinds; what else can be asked of a futex has no bearing on what threads wait for.
fn futex(a: &mut Args<'_>) -> Result<Call, Bad> {
    let words = a.words(1);
    let operation = words.iter().find_map(|word| word.strip_prefix("FUTEX_")).unwrap_or_default();
    let (operation, shared) = operation.strip_suffix("_PRIVATE").map_or((operation, true), |plain| (plain, false));
    match operation {
        "WAIT" | "WAIT_BITSET" => {
            Ok(Call::FutexWait { address: a.u64(0)?, shared, value: a.int(2).map_or(0, |value| value as u32) })
        }
        "WAKE" | "WAKE_BITSET" => Ok(Call::FutexWake { address: a.u64(0)?, shared }),
        _ => Ok(Call::Other { name: Word::from("futex") }),
    }
}

/// The child is filled in when all threads are known.
fn clone(words: &[&str]) -> Call {
    let flags = words.iter().filter_map(|word| bitflags::Flags::from_name(word));
    Call::Clone { flags: flags.fold(CloneFlags::empty(), CloneFlags::union), child: None }
}

fn exit(a: &Args<'_>, group: bool) -> Result<Call, Bad> {
    Ok(Call::Exit { status: a.int(0)? as i32, group })
}
