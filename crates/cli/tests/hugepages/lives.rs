//! Processes and memory that come and go beside a manager.

use super::*;
use esker_testkit::Puppet;

/// Takes, moves and gives back regions that are written whole, forks, and becomes another program.
const SCRIPT: &str = r"
import ctypes, mmap, os, sys
H = 2 << 20
full = b'\1' * H
def dense():
    m = mmap.mmap(-1, 2 * H, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    o = -ctypes.addressof(ctypes.c_char.from_buffer(m)) % H
    m[o:o + H] = full
    return m
held = []
print(0, flush=True)
for line in sys.stdin:
    word, count = line.split()
    answer = 0
    if word == 'cycle':
        for _ in range(int(count)): dense().close()
    elif word == 'hold': held += [dense() for _ in range(int(count))]
    elif word == 'grow':
        for m in held: m.resize(int(count) * H)
    elif word == 'drop': held.clear()
    elif word == 'fork':
        answer = os.fork()
        if not answer: os.execvp('sleep', ['sleep', count])
    elif word == 'become': os.execvp('python3', ['python3', '-c', 'import time; time.sleep(%s)' % count])
    print(answer, flush=True)
";

/// Looks at memory often, at heat not at all, and makes memory huge again at once where other memory was before.
fn config(puppet: &Puppet) -> String {
    format!(
        "slow_promotion = \"60s\"\ncooldown = \"1ms\"\npoll_cpu_max = 1.0\ncpu_max = 1.0\nfragmented_backoff = \"100ms\"\n[access]\nmethod = \"none\"\nperiod = \"300ms\"\n\
         interval = \"100ms\"\n[[process]]\npid = {}\n",
        puppet.pid()
    )
}

/// Bytes of a process in huge pages, as the kernel tells.
fn huge(pid: u32) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap_or_default();
    let kib = |line: &str| line.strip_prefix("AnonHugePages:")?.trim().strip_suffix(" kB")?.parse::<u64>().ok();
    text.lines().find_map(kib).unwrap_or(0) << 10
}

#[test]
fn nothing_is_left_of_memory_that_went_and_of_programs_that_were_there_before() {
    let _alone = alone();
    let Ok(mut puppet) = Puppet::start(SCRIPT, 0, &[]) else {
        return skip(Ability::Program, "python3 is not there");
    };
    let (folder, pid) = (tempfile::tempdir().unwrap(), puppet.pid());
    let Some(manager) = Manager::start(OsStr::new(ESKER), folder.path(), &config(&puppet)) else { return };
    let told = || manager.status().processes.iter().map(|one| (one.pid, one.huge_bytes)).collect::<Vec<_>>();
    let is_told = |least: u64| comes(|| huge(pid) >= least && told() == [(pid, huge(pid))]);
    puppet.send("hold 8");
    assert!(is_told(8 << 21), "{:?} beside {}", told(), huge(pid));
    puppet.send("grow 9");
    assert!(is_told(0), "after it was moved: {:?} beside {}", told(), huge(pid));
    let child = puppet.send("fork 60");
    assert!(is_told(0), "beside a child: {:?}", told());
    Command::new("kill").arg(child.to_string()).status().unwrap();
    puppet.send("cycle 1000");
    let before = manager.resident();
    puppet.send("cycle 9000");
    let grown = manager.resident().saturating_sub(before);
    assert!(grown < 1 << 20, "it has grown by {grown} bytes in 9,000 cycles");
    puppet.send("drop 0");
    assert!(comes(|| told() == [(pid, huge(pid))] && manager.status().waiting == 0), "{:?}", manager.status());
    puppet.send("hold 8");
    assert!(is_told(8 << 21), "{:?}", told());
    puppet.begin("become 60");
    // Nothing that was known of the program before is told of the one that it has become, which has the same name.
    // It may have a dense region of its own; the one before had eight at once.
    let is_new = |status: Status| {
        let [one] = &status.processes[..] else { return false };
        one.pid == pid && one.huge_bytes == huge(pid) && one.done.promotions < 8
    };
    assert!(comes(|| is_new(manager.status())), "{:?}", manager.status());
    drop(puppet);
    assert!(comes(|| told().is_empty() && manager.status().waiting == 0), "{:?}", manager.status());
}
