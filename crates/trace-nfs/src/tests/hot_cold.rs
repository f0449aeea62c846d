//! The simulator of hot and cold files.

use std::cell::Cell;
use std::rc::Rc;

use esker_base::{Errno, Nanos};
use esker_fs_posix::script::at_once;

use crate::hot_cold::{AccessPattern, FillReport, HotCold};
use crate::target::{ReplayTarget, Room};

/// A log: each write takes new room, and only cleaning gives room back.
#[derive(Default)]
struct Log {
    live: std::collections::BTreeSet<Vec<u8>>,
    used: u64,
    syncs: u64,
    size: u64,
    broken: bool,
    /// No log: a file that is overwritten takes no room.
    in_place: bool,
}

impl Log {
    fn clean(&mut self) {
        self.used = self.live.len() as u64 * 4096;
    }
}

impl ReplayTarget for Log {
    async fn make_dir(&mut self, _: &[u8]) -> Result<(), Errno> {
        Ok(())
    }
    async fn create(&mut self, _: &[u8], _: bool) -> Result<(), Errno> {
        Err(Errno::ENOSYS)
    }
    async fn write(&mut self, path: &[u8], _: u64, data: &[u8]) -> Result<(), Errno> {
        if self.broken {
            return Err(Errno::EIO);
        }
        if self.in_place && self.live.contains(path) {
            return Ok(());
        }
        if self.used + data.len() as u64 > self.size {
            return Err(Errno::ENOSPC);
        }
        self.used += data.len() as u64;
        self.live.insert(path.to_vec());
        Ok(())
    }
    async fn remove(&mut self, _: &[u8]) -> Result<(), Errno> {
        Err(Errno::ENOSYS)
    }
    async fn remove_dir(&mut self, _: &[u8]) -> Result<(), Errno> {
        Err(Errno::ENOSYS)
    }
    async fn rename(&mut self, _: &[u8], _: &[u8]) -> Result<(), Errno> {
        Err(Errno::ENOSYS)
    }
    async fn link(&mut self, _: &[u8], _: &[u8]) -> Result<(), Errno> {
        Err(Errno::ENOSYS)
    }
    async fn symlink(&mut self, _: &[u8], _: &[u8]) -> Result<(), Errno> {
        Err(Errno::ENOSYS)
    }
    async fn look(&mut self, path: &[u8]) -> Result<(), Errno> {
        if self.live.contains(path) { Ok(()) } else { Err(Errno::ENOENT) }
    }
    async fn set_mode(&mut self, _: &[u8], _: u16) -> Result<(), Errno> {
        Err(Errno::ENOSYS)
    }
    async fn set_times(&mut self, _: &[u8], _: Option<Nanos>, _: Option<Nanos>) -> Result<(), Errno> {
        Err(Errno::ENOSYS)
    }
    async fn sync(&mut self) -> Result<(), Errno> {
        self.syncs += 1;
        Ok(())
    }
    async fn room(&mut self) -> Result<Room, Errno> {
        Ok(Room { bytes: self.size, bytes_free: self.size - self.used })
    }
    async fn wait(&mut self, _: Nanos) {}
}

fn fill(sim: &mut HotCold, log: &mut Log, most: Option<u64>) -> Result<FillReport, Errno> {
    at_once(sim.fill(log, most, &mut |_| true))
}

#[test]
fn a_fill_ends_well_when_there_is_no_room() {
    let mut log = Log { size: 40_960_000, ..Log::default() };
    let mut sim = HotCold::new(AccessPattern::HotCold, 75, 100, 1);
    let report = fill(&mut sim, &mut log, None).expect("no room is no failure");
    assert_eq!((report.made, report.made + report.overwritten, report.is_full), (7_504, 10_000, true));
    assert_eq!(fill(&mut sim, &mut log, None).expect("still full").overwritten, 0);
    // The cleaner runs between two rounds.
    for _ in 0..23 {
        log.clean();
        let report = fill(&mut sim, &mut log, None).expect("no room is no failure");
        assert_eq!((report.made, report.overwritten, report.is_full), (0, 2_496, true));
    }
    assert_eq!((log.live.len() as u64, sim.files()), (7_504, 7_504));
}

#[test]
fn a_fill_ends_also_where_nothing_gets_full() {
    for (utilisation, made) in [(50, 512), (100, 1_024)] {
        let mut log = Log { size: 1_024 * 4_096, in_place: true, ..Log::default() };
        let mut sim = HotCold::new(AccessPattern::HotCold, utilisation, 0, 1);
        let report = fill(&mut sim, &mut log, None).expect("there is room");
        assert_eq!((report.made, report.overwritten, report.is_full), (made, 1_024, false));
    }
}

#[test]
fn files_of_a_run_before_are_taken_over() {
    let mut log = Log { size: 1_024 * 4_096, in_place: true, ..Log::default() };
    let simulator = || HotCold::new(AccessPattern::HotCold, 50, 0, 1);
    let first = fill(&mut simulator(), &mut log, Some(1)).expect("there is room");
    let mut again = simulator();
    let second = fill(&mut again, &mut log, Some(7)).expect("there is room");
    assert_eq!((first.made, second.made, second.overwritten, again.files()), (512, 0, 7, 512));
}

#[test]
fn hot_files_get_nine_of_ten_writes() {
    let mut log = Log { size: u64::MAX / 4, used: u64::MAX / 8, ..Log::default() };
    let mut sim = HotCold::new(AccessPattern::HotCold, 40, 0, 7);
    log.size = 1 << 40;
    log.used = (1 << 40) / 100 * 40 - (5_000 << 12);
    let report = fill(&mut sim, &mut log, Some(200_000)).expect("there is room");
    assert!(!report.is_full && report.made >= 5_000);
    let share = report.hot as f64 / report.overwritten as f64;
    assert!((0.895..=0.905).contains(&share), "{share}");
    // The hot files are a tenth, and every file is drawn.
    let files = sim.files();
    let mut drawn = vec![0u32; files as usize];
    let hot_files: std::collections::BTreeSet<u64> = (0..2_000_000)
        .filter_map(|_| {
            let (file, is_hot) = sim.draw();
            drawn[file as usize] += 1;
            is_hot.then_some(file)
        })
        .collect();
    assert_eq!(hot_files.len() as u64, files.div_ceil(10));
    assert!(drawn.iter().all(|count| *count > 0));
}

#[test]
fn uniform_writes_favour_no_file() {
    let mut log = Log { size: 1 << 40, ..Log::default() };
    log.used = (1 << 40) / 100 * 40 - (1_000 << 12);
    let mut sim = HotCold::new(AccessPattern::Uniform, 40, 0, 7);
    let report = fill(&mut sim, &mut log, Some(200_000)).expect("there is room");
    let share = report.hot as f64 / report.overwritten as f64;
    assert!((0.095..=0.105).contains(&share), "{share}");
}

#[test]
fn a_seed_decides_the_writes_and_other_errors_end_a_fill() {
    let draws = |seed| {
        let mut log = Log { size: 1 << 20, ..Log::default() };
        let mut sim = HotCold::new(AccessPattern::HotCold, 50, 0, seed);
        fill(&mut sim, &mut log, Some(10)).expect("there is room");
        (0..50).map(|_| sim.draw().0).collect::<Vec<_>>()
    };
    assert_eq!(draws(1), draws(1));
    assert_ne!(draws(1), draws(2));
    let mut log = Log { size: 1 << 20, broken: true, ..Log::default() };
    let mut sim = HotCold::new(AccessPattern::HotCold, 50, 0, 1);
    assert_eq!(fill(&mut sim, &mut log, None), Err(Errno::EIO));
}

#[test]
fn a_fill_ends_when_its_caller_says_so() {
    let mut log = Log { size: 1 << 20, ..Log::default() };
    let looks = Rc::new(Cell::new(0));
    let mut sim = HotCold::new(AccessPattern::Uniform, 50, 0, 1);
    let report = at_once(sim.fill(&mut log, None, &mut |_| {
        looks.set(looks.get() + 1);
        looks.get() < 3
    }));
    assert!(!report.expect("there is room").is_full);
}
