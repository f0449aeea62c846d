//! What of this machine works for the manager, what does not, and what is done instead.

use std::fs;
use std::io::{self, ErrorKind};

use esker_sys::process::{Advice, PageRun, PageTable, Process, Wanted, page_is};
use serde::Serialize;

use super::damon;
use super::faults::Faults;
use super::groups::{Hierarchy, Version};
use super::rights;
use super::system::faults_now;
use super::young::Young;
use esker_hugepage::{REGION_BYTES, REGION_PAGES, contiguity};

/// One thing that was tried.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// What.
    pub what: &'static str,
    /// Whether it works.
    pub works: bool,
    /// Whether nothing can be managed without it.
    pub needed: bool,
    /// How it is, or why it does not work and what is done instead.
    pub says: String,
}

/// Why a trial failed.
#[derive(Debug, thiserror::Error)]
enum TrialError {
    #[error(transparent)]
    System(#[from] io::Error),
    #[error("no page is seen that is there")]
    Unseen,
    #[error("the call succeeds and changes nothing")]
    Unchanged,
}

/// Tries everything on this process itself, and changes nothing that stays.
pub fn examine() -> Vec<Finding> {
    let mut memory = vec![0u8; 3 * REGION_BYTES as usize];
    let start = (memory.as_ptr() as usize as u64).next_multiple_of(REGION_BYTES);
    let offset = (start - memory.as_ptr() as usize as u64) as usize;
    (0..460).for_each(|page| memory[offset + page * 4096] = 1);
    let me = std::process::id();
    let scan = scan(me, start);
    let collapse = change(me, start, REGION_BYTES, Advice::Collapse, true);
    let split = change(me, start, 4096, Advice::Cold, false);
    let sharing = page_sharing(me, start);
    drop(memory);
    vec![
        needed("page tables (PAGEMAP_SCAN)", scan, "needs Linux 6.7 and the right to read /proc/PID/pagemap"),
        needed("promotion (MADV_COLLAPSE)", collapse, "needs Linux 6.1 and CAP_SYS_NICE for other processes"),
        needed("demotion (MADV_COLD of a part)", split, "needs Linux 5.10"),
        others(),
        faults(),
        frames(),
        kpageflags(),
        access_bits(),
        young(),
        fragmentation(),
        free_memory(),
        compaction(),
        fault_signal(),
        groups(),
        sharing,
    ]
}

fn found(what: &'static str, works: bool, says: impl Into<String>) -> Finding {
    Finding { what, works, needed: false, says: says.into() }
}

fn needed(what: &'static str, tried: Result<String, TrialError>, without: &str) -> Finding {
    let works = tried.is_ok();
    let says = tried.unwrap_or_else(|why| match &why {
        // The call exists and found no block.
        TrialError::System(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::OutOfMemory) => {
            format!("{why}: no block of free memory is as large as a huge page; compact memory or free some")
        }
        _ => format!("{why}; {without}"),
    });
    Finding { what, works, needed: true, says }
}

fn fault_signal() -> Finding {
    match Faults::start(REGION_PAGES) {
        Ok(_) => found("fault signal", true, "comes from a program in the kernel at the tracepoint page_fault_user"),
        Err(error) => found("fault signal", false, format!("{error}; page tables are looked through instead")),
    }
}

fn groups() -> Finding {
    const WHAT: &str = "control groups of memory";
    match Hierarchy::find().map(|hierarchy| hierarchy.version()) {
        Some(Version::One) => found(WHAT, true, "version 1: their huge pages, use and limits are told"),
        Some(Version::Two) => found(WHAT, true, "version 2: their huge pages, use and limits are told"),
        None => found(WHAT, false, "the controller of memory is not mounted; nothing is told of groups"),
    }
}

/// Pages in memory, and whether a huge page maps them.
fn scan(pid: u32, start: u64) -> Result<String, TrialError> {
    let (pages, huge) = seen(pid, start)?;
    match pages {
        0 => Err(TrialError::Unseen),
        _ => Ok(format!(
            "{pages} of 512 pages seen{}",
            if huge { ", in one huge page from the first fault on" } else { "" }
        )),
    }
}

fn seen(pid: u32, start: u64) -> io::Result<(u64, bool)> {
    let table = PageTable::open(pid)?;
    let mut room = [PageRun::default(); 512];
    let wanted = Wanted { any: page_is::PRESENT, none: page_is::ZERO };
    let (runs, _) = table.scan((start, start + REGION_BYTES), wanted, &mut room)?;
    let pages = runs.iter().map(|run| (run.end - run.start) / 4096).sum();
    Ok((pages, runs.iter().any(|run| run.is & page_is::HUGE != 0)))
}

fn change(pid: u32, start: u64, len: u64, advice: Advice, to_huge: bool) -> Result<String, TrialError> {
    Process::open(pid)?.advise(start, len, advice)?;
    match seen(pid, start)? {
        (_, huge) if huge == to_huge => Ok("works, and was looked at afterwards".to_string()),
        _ => Err(TrialError::Unchanged),
    }
}

fn others() -> Finding {
    let finding = match rights::missing() {
        None => found("other processes", true, "may be read and advised, if they have no more rights than this one"),
        Some(missing) => found("other processes", false, missing),
    };
    Finding { needed: true, ..finding }
}

fn faults() -> Finding {
    match faults_now() {
        Some(value) if value == "always" => found(
            "faults",
            true,
            "take huge pages now; `faults = \"base\"` makes them take base pages while the manager runs",
        ),
        Some(value) => found("faults", true, format!("setting is {value}")),
        None => found("faults", false, "this kernel has no huge pages"),
    }
}

fn frames() -> Finding {
    let here = vec![1u8; 8192];
    let address = (here.as_ptr() as usize as u64).next_multiple_of(4096);
    match PageTable::open(std::process::id()).and_then(|table| table.frames(address, 1)) {
        Ok(frames) if frames[0].is_some() => found("physical addresses", true, "are told"),
        Ok(_) => found("physical addresses", false, "are not told without CAP_SYS_ADMIN; access bits are not watched"),
        Err(error) => found("physical addresses", false, format!("{error}; access bits are not watched")),
    }
}

fn kpageflags() -> Finding {
    match fs::File::open("/proc/kpageflags") {
        Ok(_) => found("pages freed inside huge ones", true, "are seen, and given back by demotion"),
        Err(error) => found(
            "pages freed inside huge ones",
            false,
            format!("{error}; they stay until the kernel splits by itself"),
        ),
    }
}

fn access_bits() -> Finding {
    match damon::is_free() {
        Ok(()) => found(
            "access bits (DAMON)",
            true,
            "one bit for each huge page and scan; the fallback where page tables cannot be read",
        ),
        Err(why) => found("access bits (DAMON)", false, format!("{why}; page tables tell them, if they can be read")),
    }
}

fn young() -> Finding {
    const WHAT: &str = "access bits (page tables)";
    match Young::start() {
        Ok(_) if damon::is_free().is_ok() => found(WHAT, true, "exact, of base pages too; used"),
        Ok(_) => found(
            WHAT,
            true,
            "exact, of base pages too; used. The program that has DAMON clears bits and drops no translations: \
             of a program that keeps to a few pages some may look idle",
        ),
        Err(error) => found(WHAT, false, format!("{error}; without DAMON all huge pages count as in use")),
    }
}

/// What a process can say of its own memory. The kernel takes it from no other process.
fn page_sharing(me: u32, start: u64) -> Finding {
    let advise = |advice| Process::open(me)?.advise(start, REGION_BYTES, advice);
    match advise(Advice::Mergeable).and_then(|_| advise(Advice::Unmergeable)) {
        Ok(_) => found(
            "page sharing (KSM)",
            true,
            "of programs that are started with LD_PRELOAD=libesker_hugepage_preload.so; the kernel takes it from no other process",
        ),
        Err(error) => found("page sharing (KSM)", false, format!("{error}; needs CONFIG_KSM")),
    }
}

fn fragmentation() -> Finding {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let buddyinfo = read("/proc/buddyinfo");
    let index = contiguity::fragmentation_of(&buddyinfo, &read("/proc/zoneinfo"), &read("/proc/meminfo"));
    let zone = |(name, blocks): (String, contiguity::FreeBlocks)| format!("{name} {:.3}", blocks.fragmentation(0));
    let zones: Vec<String> = contiguity::parse_buddyinfo(&buddyinfo).into_iter().map(zone).collect();
    match zones.is_empty() {
        true => found("fragmentation", false, "/proc/buddyinfo tells nothing; memory counts as fragmented"),
        false => found("fragmentation", true, format!("{index:.3} of all free memory (zones: {})", zones.join(", "))),
    }
}

fn free_memory() -> Finding {
    const WHAT: &str = "free memory";
    let devices = fs::read_dir("/sys/bus/virtio/devices").into_iter().flatten().flatten();
    let read = |path: &std::path::Path, name| fs::read_to_string(path.join(name)).unwrap_or_default();
    let mut told = devices.map(|device| (read(&device.path(), "device"), read(&device.path(), "features")));
    if told.any(|(device, features)| gives_free_memory_back(&device, &features)) {
        return found(
            WHAT,
            false,
            "is given back to this virtual machine's host (free page reporting): a process that makes a huge page of it waits for the \
             host, some milliseconds each, also with `faults = \"always\"`",
        );
    }
    found(WHAT, true, "stays with this machine, as far as it tells")
}

/// Whether a virtio device is a balloon that negotiated free page reporting (virtio 1.2, section 5.5.3), by its type
/// and its features as sysfs has them: a digit for each bit, from bit 0 on.
fn gives_free_memory_back(device: &str, features: &str) -> bool {
    const BALLOON: u32 = 5;
    const REPORTING: usize = 5;
    let device = device.trim().trim_start_matches("0x");
    u32::from_str_radix(device, 16) == Ok(BALLOON) && features.as_bytes().get(REPORTING) == Some(&b'1')
}

fn compaction() -> Finding {
    let options = fs::OpenOptions::new().write(true).open("/proc/sys/vm/compact_memory");
    match options {
        Ok(_) => found("compaction", true, "of all memory at once: the kernel takes no bound; off unless configured"),
        Err(error) => found("compaction", false, format!("{error}; promotions compact for themselves")),
    }
}

#[cfg(test)]
mod tests {
    use super::gives_free_memory_back;

    #[test]
    fn a_balloon_that_reports_free_pages_is_told_from_one_that_does_not_and_from_a_disk() {
        let features =
            |bits: &[usize]| (0..128).map(|bit| if bits.contains(&bit) { '1' } else { '0' }).collect::<String>();
        assert!(gives_free_memory_back("0x0005\n", &features(&[1, 2, 5, 32])));
        assert!(!gives_free_memory_back("0x0005\n", &features(&[1, 2, 4, 6, 32])));
        assert!(!gives_free_memory_back("0x0002\n", &features(&[5])));
        assert!(!gives_free_memory_back("", ""));
    }
}
