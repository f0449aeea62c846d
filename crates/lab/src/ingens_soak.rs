//! `ingens-soak`: the manager beside a Redis, a memcached and a Python process for half an hour. All of them take and
//! give back memory, and every byte that they give out is compared with what it must be.
//!
//! Keys come and go in turns of growth, balance and decline, so that regions fill and empty. What it tells of
//! settings is of all files below those of huge pages, of sharing and of the monitor: read before the manager begins
//! and after it has ended.

mod store;

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{scope, sleep};
use std::time::{Duration, Instant};

use esker_base::units::MIB;

use crate::ingens::{Manager, room};
use esker_lab_kit::{Figure, Lab, LabError, bound::Bound, peer};
use store::{Counts, Kind, Store};

const QUICK: Duration = Duration::from_secs(45);
const FULL: Duration = Duration::from_secs(1800);
/// Deletions in a hundred changes, in turn.
const TURNS: [u64; 3] = [10, 40, 85];
const TURN: Duration = Duration::from_secs(15);
const TOLD_EVERY: Duration = Duration::from_secs(30);
/// What the three programs take at most.
const ROOM: u64 = 1536 * MIB;

/// Maps, fills, frees in parts and unmaps, and says after each round how many pages it has compared and how many were
/// wrong.
const PYTHON: &str = include_str!("ingens_soak/mapper.py");

pub(crate) fn run(lab: &Lab<'_>) -> Result<Vec<Figure>, LabError> {
    room(ROOM, lab)?;
    let before = settings();
    let mut stores =
        [Store::start(Kind::Redis, lab.scratch, lab.seed)?, Store::start(Kind::Memcached, lab.scratch, lab.seed)?];
    let mut mapper = Mapper::start(lab.seed)?;
    let others = [stores[1].pid(), mapper.python.pid()].map(|pid| format!("[[process]]\npid = {pid}\n")).concat();
    let manager = Manager::start(lab.scratch, stores[0].pid(), &others)?;
    let begun = Instant::now();
    let memory = work(&mut stores, &mut mapper, &manager, lab)?;
    let (seconds, status) = (begun.elapsed().as_secs_f64(), manager.status()?);
    drop(manager);
    let [redis, memcached] = stores.map(|store| store.counts);
    let all = [redis, memcached, mapper.counts];
    let sum = |of: fn(&Counts) -> u64| all.iter().map(of).sum::<u64>();
    let wrong = sum(|counts| counts.wrong);
    if wrong > 0 {
        return Err(LabError::Data(format!("{wrong} values were wrong: {all:?}")));
    }
    let changed = changed(&before, &settings());
    changed.iter().for_each(|setting| lab.say(setting));
    Ok(vec![
        Figure::alone("wrong_values", wrong as f64, "of all that were compared"),
        Figure::alone("compared_mib", (sum(|counts| counts.checked) / MIB) as f64, "MiB"),
        Figure::alone("requests", sum(|counts| counts.requests) as f64, "of both servers, and rounds of Python"),
        Figure::alone("promotions", status.done.promotions as f64, "regions"),
        Figure::alone("demotions", status.done.demotions as f64, "regions"),
        Figure::alone("settings_changed", changed.len() as f64, "files, after the end"),
        Figure::alone("daemon_core_share", status.cpu_s / seconds, "of a CPU"),
        Figure::alone("daemon_memory", (memory / MIB) as f64, "MiB, at most"),
        Figure::alone("elapsed_s", seconds, "s"),
    ])
}

/// Works on all three until the time is over. Returns the most memory that the manager took.
fn work(stores: &mut [Store; 2], mapper: &mut Mapper, manager: &Manager, lab: &Lab<'_>) -> Result<u64, LabError> {
    let (begun, is_over) = (Instant::now(), AtomicBool::new(false));
    let serve = |store: &mut Store| {
        while !is_over.load(Ordering::Relaxed) {
            let turn = begun.elapsed().as_secs() / TURN.as_secs() % TURNS.len() as u64;
            (0..100).try_for_each(|_| store.work(TURNS[turn as usize]))?;
        }
        Ok::<(), LabError>(())
    };
    scope(|threads| {
        let [redis, memcached] = stores;
        let clients = [threads.spawn(|| serve(redis)), threads.spawn(|| serve(memcached))];
        let python = threads.spawn(|| mapper.follow(&is_over));
        let watched = watch(manager, begun, lab);
        is_over.store(true, Ordering::Relaxed);
        for client in clients {
            client.join().map_err(|_| peer::fault("a client", "it has panicked"))??;
        }
        python.join().map_err(|_| peer::fault("python3", "its reader has panicked"))??;
        watched
    })
}

/// Looks at the manager now and then, until the time is over.
fn watch(manager: &Manager, begun: Instant, lab: &Lab<'_>) -> Result<u64, LabError> {
    let (mut most, time) = (0, lab.scale(QUICK, FULL));
    while begun.elapsed() < time {
        sleep(TOLD_EVERY.min(time.saturating_sub(begun.elapsed())));
        let status = manager.status()?;
        most = most.max(manager.memory()?);
        let (seconds, share) = (begun.elapsed().as_secs_f64(), 100.0 * status.cpu_s / status.uptime_s);
        let done = format!("{} promotions, {} demotions", status.done.promotions, status.done.demotions);
        lab.say(format!("{seconds:.0} s: {done}, {share:.2} % of a CPU, {} MiB", most / MIB));
    }
    Ok(most)
}

/// The Python process.
struct Mapper {
    python: Bound,
    counts: Counts,
}

impl Mapper {
    fn start(seed: u64) -> Result<Mapper, LabError> {
        let seed = seed.to_string();
        let python = Bound::start("python3", |command| command.args(["-c", PYTHON, &seed]).stdout(Stdio::piped()))?;
        Ok(Mapper { python, counts: Counts::default() })
    }

    /// Reads what it says.
    fn follow(&mut self, is_over: &AtomicBool) -> Result<(), LabError> {
        let Some(output) = self.python.child().stdout.take() else {
            return Err(peer::fault("python3", "it has no pipe"));
        };
        let mut lines = BufReader::new(output).lines();
        while !is_over.load(Ordering::Relaxed) {
            let line = lines.next().and_then(Result::ok).unwrap_or_default();
            let numbers: Vec<u64> = line.split(' ').filter_map(|word| word.parse().ok()).collect();
            let &[pages, wrong] = &numbers[..] else { return Err(peer::fault("python3", format!("it says {line:?}"))) };
            self.counts.requests += 1;
            self.counts.checked += pages * esker_hugepage::PAGE_BYTES;
            self.counts.wrong += wrong;
        }
        Ok(())
    }
}

/// Where settings are that a manager may change.
const FOLDERS: [&str; 3] =
    ["/sys/kernel/mm/transparent_hugepage", "/sys/kernel/mm/ksm", "/sys/kernel/mm/damon/admin/kdamonds"];

/// All settings, by file: what can be written, and so is no count.
fn settings() -> BTreeMap<PathBuf, String> {
    let mut found = BTreeMap::new();
    let mut folders: Vec<PathBuf> = FOLDERS.iter().map(PathBuf::from).collect();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => folders.push(entry.path()),
                _ if is_setting(&entry.path()) => {
                    // One that is only written to says nothing.
                    found.extend(std::fs::read_to_string(entry.path()).map(|text| (entry.path(), text)));
                }
                _ => {}
            }
        }
    }
    found
}

fn is_setting(path: &Path) -> bool {
    let is_writable = |metadata: std::fs::Metadata| !metadata.permissions().readonly();
    // What the monitor of the machine itself does now is not ours to keep.
    path.file_name().is_none_or(|name| name != "state") && path.metadata().is_ok_and(is_writable)
}

/// Settings that are not as before, in words.
fn changed(before: &BTreeMap<PathBuf, String>, after: &BTreeMap<PathBuf, String>) -> Vec<String> {
    let paths: std::collections::BTreeSet<&PathBuf> = before.keys().chain(after.keys()).collect();
    let differs = |path: &&PathBuf| before.get(*path) != after.get(*path);
    let words = |path: &PathBuf| format!("{}: {:?}, not {:?}", path.display(), after.get(path), before.get(path));
    paths.into_iter().filter(differs).map(words).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn python_compares_its_pages_and_says_so() {
        let mut mapper = match Mapper::start(1) {
            Ok(mapper) => mapper,
            Err(error) => {
                println!("SKIPPED: {error}");
                return;
            }
        };
        let is_over = AtomicBool::new(false);
        let is_followed = scope(|threads| {
            let follower = threads.spawn(|| mapper.follow(&is_over));
            sleep(Duration::from_secs(1));
            is_over.store(true, Ordering::Relaxed);
            follower.join().unwrap().is_ok()
        });
        assert!(is_followed && mapper.counts.requests > 0 && mapper.counts.checked > 8 * MIB, "{:?}", mapper.counts);
        assert_eq!(mapper.counts.wrong, 0);
    }

    #[test]
    fn a_setting_that_is_not_as_before_is_named() {
        let of = |pairs: &[(&str, &str)]| -> BTreeMap<PathBuf, String> {
            pairs.iter().map(|(path, text)| (PathBuf::from(path), text.to_string())).collect()
        };
        let before = of(&[("a", "1"), ("b", "2")]);
        assert!(changed(&before, &before).is_empty());
        let words = changed(&before, &of(&[("a", "3"), ("b", "2"), ("c", "4")]));
        assert!(words.len() == 2 && words[0].starts_with("a: Some(\"3\")") && words[1].starts_with('c'), "{words:?}");
    }
}
