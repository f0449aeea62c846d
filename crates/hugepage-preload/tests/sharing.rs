//! The library in a Python process, a manager beside it, and the kernel that shares pages. Skipped, and said so,
//! without Python, the rights, free huge pages, or KSM.

#![forbid(unsafe_code)]
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "processes of this machine are what is tested")]

use std::cell::RefCell;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::rc::Rc;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use esker_base::Nanos;
use esker_hugepage::REGION_BYTES;
use esker_hugepage_linux::journal::Journal;
use esker_hugepage_linux::linux::system::huge_blocks;
use esker_hugepage_linux::linux::{doctor, merging};
use esker_hugepage_linux::status::ProcessStatus;
use esker_hugepage_linux::{Config, Daemon};
use esker_rt::real::{Reactor, RealConfig};
use esker_sys::process::{PageRun, PageTable, Wanted, page_is};
use esker_testkit::{Ability, skip};

/// Anonymous memory, of which some regions are read all the time; pages hold one of sixteen contents, so that each has
/// equals.
const SCRIPT: &str = r"
import mmap, ctypes, sys, threading, time
H = 2 << 20
n = int(sys.argv[1])
m = mmap.mmap(-1, (n + 1) * H, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
o = -ctypes.addressof(ctypes.c_char.from_buffer(m)) % H
hot = []
def use():
    # A process that takes less than the kernel's hundredth of a second in an interval counts as asleep.
    while True:
        end = time.monotonic() + 0.004
        while time.monotonic() < end:
            for r in hot:
                for p in range(0, 512, 64): m[o + r * H + p * 4096]
        time.sleep(0.008)
threading.Thread(target=use, daemon=True).start()
page = [bytes([c + 1]) * 4096 for c in range(16)]
print(ctypes.addressof(ctypes.c_char.from_buffer(m)) + o, flush=True)
for line in sys.stdin:
    w = line.split()
    a = [int(x) for x in w[1:]]
    r = 0
    if w[0] == 'fill':
        for p in range(a[0], a[1]): m[o + p * 4096:o + p * 4096 + 4096] = page[p % 16]
    elif w[0] == 'write':
        m[o + a[0] * 4096 + 9] = 200
    elif w[0] == 'check':
        r = sum(m[o + p * 4096:o + p * 4096 + 4096] != page[p % 16] for p in range(a[0], a[1]))
    elif w[0] == 'hot':
        hot = list(range(a[0], a[1]))
    print(r, flush=True)
";

/// One at a time: settings of the kernel are global.
static ALONE: Mutex<()> = Mutex::new(());
/// Long enough on a loaded machine; what comes in time comes much earlier.
const PATIENCE: Duration = Duration::from_secs(20);

fn library() -> PathBuf {
    let own = std::env::current_exe().unwrap();
    let found = own.ancestors().skip(1).take(2).map(|folder| folder.join("libesker_hugepage_preload.so"));
    found.into_iter().find(|path| path.is_file()).expect("cargo builds the library for its tests")
}

/// None where it cannot be, which is recorded as a skip.
fn ready(regions: u64) -> Option<MutexGuard<'static, ()>> {
    let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let wanted = (regions + 16) * REGION_BYTES;
    // Before the doctor, whose trial takes such a block.
    let blocks = huge_blocks(wanted);
    let missing = doctor::examine().into_iter().find(|finding| finding.needed && !finding.works);
    let (lacks, why) = match missing {
        Some(missing) => (Ability::HugePages, format!("{}: {}", missing.what, missing.says)),
        None if !merging::is_there() => (Ability::Ksm, "this kernel has no KSM".to_string()),
        None if blocks < wanted => (Ability::HugeBlocks, format!("{wanted} bytes in free huge pages are needed")),
        None if Command::new("python3").arg("--version").output().is_err() => {
            (Ability::Program, "python3 is not there".to_string())
        }
        None => return Some(alone),
    };
    skip(lacks, why);
    None
}

struct Puppet(esker_testkit::Puppet);

impl Puppet {
    /// With the library, which looks for the manager at `socket`.
    fn start(socket: &Path, regions: u64) -> Puppet {
        let library = library();
        let environment = [("LD_PRELOAD", library.as_os_str()), ("ESKER_HUGEPAGE_SHARE", socket.as_os_str())];
        Puppet(esker_testkit::Puppet::start(SCRIPT, regions, &environment).unwrap())
    }

    fn pid(&self) -> u32 {
        self.0.pid()
    }

    fn send(&mut self, command: &str) -> u64 {
        self.0.send(command)
    }

    /// Whether each of so many regions is huge.
    fn huge(&self, count: u64) -> Vec<bool> {
        let table = PageTable::open(self.pid()).unwrap();
        let is_huge = |region: u64| {
            let start = self.0.first() + region * REGION_BYTES;
            let mut room = [PageRun::default(); 1];
            let wanted = Wanted { any: page_is::HUGE, none: page_is::ZERO };
            !table.scan((start, start + REGION_BYTES), wanted, &mut room).unwrap().0.is_empty()
        };
        (0..count).map(is_huge).collect()
    }

    /// Bytes in mappings whose pages may be shared, as the kernel sees it.
    fn mergeable(&self) -> u64 {
        let text = fs::read_to_string(format!("/proc/{}/smaps", self.pid())).unwrap();
        let mut size = 0;
        let mut sum = 0;
        for line in text.lines() {
            if let Some(kilobytes) = line.strip_prefix("Size:") {
                size = kilobytes.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024;
            } else if line
                .strip_prefix("VmFlags:")
                .is_some_and(|flags| flags.split_whitespace().any(|flag| flag == "mg"))
            {
                sum += size;
            }
        }
        sum
    }
}

/// A manager whose scans are short, and which promotes nothing but what is signalled.
struct Managed {
    reactor: Reactor,
    daemon: Rc<RefCell<Daemon>>,
    folder: PathBuf,
}

impl Managed {
    fn start(folder: &Path, policy: &str, pids: &[u32]) -> Managed {
        let rules: String = pids.iter().map(|pid| format!("[[process]]\npid = {pid}\n")).collect();
        let text = format!(
            "state = {:?}\nsharing = {policy:?}\nsharing_socket = {:?}\nfaults = \"base\"\nslow_promotion = \"60s\"\npoll_cpu_max = 1.0\n\
             cpu_max = 1.0\ncooldown = \"1s\"\nquantum_sleep = \"1h\"\nksm_pages_to_scan = 5000\nksm_sleep = \"10ms\"\n\
             [access]\nperiod = \"300ms\"\ninterval = \"200ms\"\n{rules}",
            folder.join("state.json"),
            folder.join("share.sock")
        );
        let reactor = Reactor::new(RealConfig::seeded(1)).unwrap();
        let out: Box<dyn Write> = Box::new(fs::File::create(folder.join("why.jsonl")).unwrap());
        let daemon = Daemon::open(&reactor.rt(), Config::parse(&text).unwrap(), Some(Journal::new(out, 0))).unwrap();
        Managed { reactor, daemon: Rc::new(RefCell::new(daemon)), folder: folder.to_path_buf() }
    }

    fn run(&self, millis: u64) {
        let rt = self.reactor.rt();
        self.reactor.block_on(esker_hugepage_linux::daemon::run(self.daemon.clone(), rt.sleep(Nanos::millis(millis))));
    }

    /// Works until something is so.
    fn until(&self, what: &str, mut is_so: impl FnMut(&Managed) -> bool) -> Duration {
        let begun = Instant::now();
        while !is_so(self) {
            let in_time = begun.elapsed() < PATIENCE;
            assert!(in_time, "not in time: {what}; {:?}\n{}", self.daemon.borrow_mut().status(), self.decisions());
            self.run(20);
        }
        begun.elapsed()
    }

    fn process(&self, pid: u32) -> ProcessStatus {
        let status = self.daemon.borrow_mut().status();
        status.processes.into_iter().find(|process| process.pid == pid).unwrap_or_default()
    }

    fn merged(&self, pid: u32) -> u64 {
        self.process(pid).sharing.map_or(0, |sharing| sharing.merged_bytes)
    }

    fn decisions(&self) -> String {
        fs::read_to_string(self.folder.join("why.jsonl")).unwrap()
    }

    /// What was decided, by one word each, about a region.
    fn decided(&self, address: u64) -> Vec<String> {
        let text = self.decisions();
        let lines = text.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
        let of_it = lines.filter(|line| line["address"] == format!("{address:#x}"));
        of_it.map(|line| line["do"].as_str().unwrap().to_string()).collect()
    }
}

fn ksm_run() -> String {
    fs::read_to_string("/sys/kernel/mm/ksm/run").unwrap()
}

#[test]
fn cold_memory_is_shared_and_a_write_makes_it_huge_again_at_once() {
    let Some(_alone) = ready(8) else { return };
    let folder = tempfile::tempdir().unwrap();
    let before = ksm_run();
    let mut puppet = Puppet::start(&folder.path().join("share.sock"), 8);
    let managed = Managed::start(folder.path(), "coordinated", &[puppet.pid()]);
    puppet.send("hot 0 2");
    managed.until("it is met", |managed| managed.process(puppet.pid()).pid != 0);
    puppet.send("fill 0 3072");
    // A region of which too little is used to be huge.
    puppet.send("fill 3072 3472");
    managed.until("regions become huge", |_| puppet.huge(8) == [true, true, true, true, true, true, false, false]);
    // All but what is hot: the first two, and Python's own.
    let cold = 4 * 512 + 400;
    managed.until("cold memory is shared", |managed| managed.merged(puppet.pid()) >= (cold - 40) * 4096);
    assert_eq!(puppet.huge(8), [true, true, false, false, false, false, false, false]);
    assert!(managed.daemon.borrow_mut().status().sharing.is_some_and(|sharing| sharing.saved_bytes > 8 << 20));
    assert_eq!(puppet.send("check 0 3472"), 0);
    managed.run(1_000);

    let first = puppet.0.first();
    let address = |region: u64| first + region * REGION_BYTES;
    let (written, sparse) = (address(3), address(6));
    puppet.send("write 1600");
    puppet.send("write 3100");
    let took = managed.until("what was written becomes huge", |_| puppet.huge(4)[3]);
    // The look through page tables and the background scan come an hour later, heat not at all.
    assert!(took < Duration::from_secs(5), "{took:?}");
    let decided = managed.decided(written);
    assert_eq!(decided[decided.len() - 2..], ["stop_sharing", "promote"], "{decided:?}");
    assert!(!managed.decided(sparse).contains(&"promote".to_string()), "{:?}", managed.decided(sparse));
    assert_eq!(puppet.huge(8), [true, true, false, true, false, false, false, false]);
    assert_eq!(
        (puppet.send("check 0 1600"), puppet.send("check 1601 3100"), puppet.send("check 1600 1601")),
        (0, 0, 1)
    );
    for region in [0, 1] {
        assert!(
            !managed.decided(address(region)).contains(&"share".to_string()),
            "hot: {:?}",
            managed.decided(address(region))
        );
    }
    drop(managed);
    assert_eq!(ksm_run(), before, "the kernel's settings are as before");
}

#[test]
fn all_splits_what_is_hot_and_same_type_splits_nothing() {
    let Some(_alone) = ready(4) else { return };
    let folder = tempfile::tempdir().unwrap();
    for (policy, merged, is_huge) in [("all", 4 * 512 + 400, false), ("same_type", 400, true)] {
        let mut puppet = Puppet::start(&folder.path().join("share.sock"), 6);
        let managed = Managed::start(folder.path(), policy, &[puppet.pid()]);
        puppet.send("hot 0 2");
        managed.until("it is met", |managed| managed.process(puppet.pid()).pid != 0);
        puppet.send("fill 0 2048");
        puppet.send("fill 2048 2448");
        managed.until("it is shared", |managed| managed.merged(puppet.pid()) >= (merged - 40) * 4096);
        managed.run(3_000);
        assert_eq!(puppet.huge(4), [is_huge; 4], "{policy}");
        let shared = managed.merged(puppet.pid()) / 4096;
        // Python's own small mappings are in regions that no mapping covers.
        assert!(shared <= merged + 40, "{policy}: {shared} pages, not {merged}");
        assert_eq!(puppet.send("check 0 2448"), 0);
    }
}

#[test]
fn a_program_that_is_not_managed_is_rejected_and_runs_as_ever() {
    let Some(_alone) = ready(2) else { return };
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("share.sock");
    let managed = Managed::start(folder.path(), "all", &[std::process::id()]);
    let mut puppet = Puppet::start(&socket, 2);
    puppet.send("fill 0 1024");
    managed.until("it is turned away", |managed| {
        managed.daemon.borrow_mut().status().sharing.is_some_and(|sharing| sharing.refused > 0)
    });
    managed.run(1_500);
    assert_eq!((puppet.mergeable(), puppet.send("check 0 1024")), (0, 0));
}

#[test]
fn what_is_shared_stays_so_without_a_manager_and_the_next_one_goes_on() {
    let Some(_alone) = ready(4) else { return };
    let folder = tempfile::tempdir().unwrap();
    let mut puppet = Puppet::start(&folder.path().join("share.sock"), 4);
    let managed = Managed::start(folder.path(), "all", &[puppet.pid()]);
    managed.until("it is met", |managed| managed.process(puppet.pid()).pid != 0);
    puppet.send("fill 0 2048");
    managed.until("it is shared", |managed| managed.merged(puppet.pid()) >= 2000 * 4096);
    drop(managed);
    let shared = puppet.mergeable();
    assert!(shared >= 4 * REGION_BYTES, "{shared}");
    puppet.send("hot 1 2");
    let managed = Managed::start(folder.path(), "same_type", &[puppet.pid()]);
    // Regions whose pages are shared stay in base pages, until a write to one.
    managed.until("the next manager knows what may be shared", |managed| {
        managed.process(puppet.pid()).sharing.is_some_and(|sharing| sharing.mergeable_bytes >= 4 * REGION_BYTES)
    });
    puppet.send("write 600");
    managed.until("what was written is private and huge", |_| puppet.huge(4)[1]);
    managed.until("its pages are no longer offered for merging", |_| puppet.mergeable() <= shared - REGION_BYTES);
    assert_eq!(puppet.send("check 0 600"), 0);
}

/// Prints what a program could see of the library: descriptors, threads of a child, and whether a signal ends it.
const GUEST: &str = r"
import os, sys, time, signal
time.sleep(0.3)
tasks = os.listdir('/proc/self/task')
names = [open('/proc/self/task/%s/comm' % t).read().strip() for t in tasks]
print('helpers', names.count('esker-hugepage'))
for t in tasks:
    if open('/proc/self/task/%s/comm' % t).read().strip() == 'esker-hugepage':
        status = open('/proc/self/task/%s/status' % t).read()
        blocked = int(status.split('SigBlk:')[1].split()[0], 16)
        print('terminates', blocked >> (signal.SIGTERM - 1) & 1 == 0)
        print('holds', len(os.listdir('/proc/self/task/%s/fd' % t)))
print('descriptors', sorted(int(f) for f in os.listdir('/proc/self/fd') if f != '3'))
r, w = os.pipe()
child = os.fork()
if child == 0:
    print('child', len(os.listdir('/proc/self/task')), flush=True)
    os._exit(0)
os.waitpid(child, 0)
os.closerange(3, 1000)
sys.stdout.flush()
signal.raise_signal(signal.SIGTERM)
";

#[test]
fn a_program_sees_nothing_of_the_library_but_a_thread() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = tempfile::tempdir().unwrap();
    let run = |socket: &str| {
        let mut command = Command::new("python3");
        command.args(["-c", GUEST]).env("LD_PRELOAD", library()).env("ESKER_HUGEPAGE_SHARE", socket);
        command.output()
    };
    let Ok(helped) = run(folder.path().join("nobody.sock").to_str().unwrap()) else {
        return skip(Ability::Program, "python3 is not there");
    };
    let words = |output: &[u8]| String::from_utf8_lossy(output).lines().map(str::to_string).collect::<Vec<_>>();
    let off = words(&run("").unwrap().stdout);
    assert_eq!((off[0].as_str(), off[2].as_str()), ("helpers 0", "child 1"));
    // Those that it would have anyway.
    let expected = ["helpers 1", "terminates False", "holds 0", &off[1], "child 1"];
    assert_eq!((words(&helped.stdout), words(&helped.stderr)), (expected.map(String::from).to_vec(), Vec::new()));
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&helped.status), Some(15), "the signal is the program's");
    let long = run(&"x".repeat(200)).unwrap();
    assert_eq!(words(&long.stdout)[0], "helpers 0", "no such path can be connected to");
}
