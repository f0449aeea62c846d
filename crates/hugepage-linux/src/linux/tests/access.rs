//! Access bits as page tables hold them.

use std::fs::File;
use std::os::unix::fs::FileExt;

use esker_sys::process::PageTable;

use super::super::young::Young;
use super::*;

/// None where they cannot be read, which is recorded as a skip.
fn young() -> Option<Young> {
    match Young::start() {
        Ok(young) => Some(young),
        Err(error) => {
            skip(Ability::Bpf, error);
            None
        }
    }
}

/// A process with so many huge regions, whose bits can be read.
fn huge(count: u64) -> Option<(Puppet, Tracked, Young, Vec<Region>)> {
    let (mut puppet, young) = (Puppet::start(count)?, young()?);
    puppet.send(&format!("write 0 {}", count * 512));
    let mut tracked = puppet.track();
    let regions: Vec<Region> = (0..count).map(|at| puppet.region(at)).collect();
    assert!(regions.iter().all(|region| tracked.promote(*region).result.is_ok()));
    Some((puppet, tracked, young, regions))
}

#[test]
fn page_tables_tell_what_is_used_from_what_is_not() {
    let Some((mut puppet, tracked, mut young, regions)) = huge(40) else { return };
    let pid = puppet.pid();
    for round in 0..20 {
        tracked.clear_accessed(&regions);
        for at in (0..40).step_by(5) {
            puppet.send(&format!("read {} {}", at * 512 + round, at * 512 + round + 1));
        }
        let bits = young.accessed(pid, &regions, tracked.table());
        assert_eq!(bits, (0..40).map(|at| Some(at % 5 == 0)).collect::<Vec<_>>(), "round {round}");
    }
}

#[test]
fn bits_of_base_pages_are_told_and_those_of_who_is_gone_are_not() {
    let Some((mut puppet, mut tracked, mut young, regions)) = huge(2) else { return };
    let pid = puppet.pid();
    assert_eq!(tracked.demote(regions[0], None).result, Ok(()));
    let mut bit = |region: Region| {
        let tracked = Tracked::open(pid.0, String::new(), 1).ok()?;
        young.accessed(pid, &[region], tracked.table())[0]
    };
    tracked.clear_accessed(&regions);
    assert_eq!((bit(regions[0]), bit(regions[1])), (Some(false), Some(false)));
    puppet.send("read 300 301");
    assert_eq!((bit(regions[0]), bit(regions[1])), (Some(true), Some(false)), "one page of its region");
    assert_eq!(bit(Region(1)), None, "nothing is mapped there");
    drop(puppet);
    assert_eq!(bit(regions[0]), None);
}

/// Share of bits that read idle although the page was used since they were cleared, in so many rounds.
fn false_idle(puppet: &Puppet, table: &PageTable, young: &mut Young, mut clear: impl FnMut()) -> f64 {
    const ROUNDS: u64 = 2_000;
    let (pid, regions) = (puppet.pid(), [puppet.region(0), puppet.region(1)]);
    let memory = File::open(format!("/proc/{}/mem", pid.0)).unwrap();
    let told = || {
        let mut word = [0; 8];
        memory.read_exact_at(&mut word, puppet.region(2).0 * REGION_BYTES).unwrap();
        u64::from_le_bytes(word)
    };
    let mut idle = 0;
    for _ in 0..ROUNDS {
        clear();
        let before = told();
        // The round under way may have been past a page when its bit was cleared.
        while told() < before + 2 {}
        idle += young.accessed(pid, &regions, table).into_iter().filter(|bit| *bit == Some(false)).count();
    }
    idle as f64 / (ROUNDS * regions.len() as u64) as f64
}

#[test]
fn clearing_without_dropping_translations_shows_used_huge_pages_as_idle() {
    let Some((mut puppet, tracked, mut young, regions)) = huge(3) else { return };
    puppet.send("hammer 0 2");
    let pid = puppet.pid().0;
    // In this order: after `clear_refs` the other way misses what its translations still hide.
    let cold = false_idle(&puppet, tracked.table(), &mut young, || tracked.clear_accessed(&regions));
    let refs = false_idle(&puppet, tracked.table(), &mut young, || {
        std::fs::write(format!("/proc/{pid}/clear_refs"), "1").unwrap();
    });
    println!("falsely idle: {refs} after clear_refs, {cold} after MADV_COLD");
    // None but what another monitor of this machine (DAMON) clears at the same moment.
    assert!(cold < 0.01 && refs > 0.1, "{cold}, {refs}");
}
