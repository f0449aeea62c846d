//! `sim-throughput`: how fast the modelled drive is simulated.
//!
//! `ssd_ftl_mios_per_s`: random 4 KiB writes to a drive of `ssd-model` that is full and in steady state, so that its
//! collector moves units all the time. 32 are in flight, each on its whole way: task, stack with contract check,
//! translation layer, dies, channels and buffer, event, completion. Virtual time, one core, digest on. Counted in CPU
//! time, so that what else runs on the machine does not count, except in the caches.
//!
//! `ratio_mqsim`: requests per second of CPU time over those of MQSim (Tavakkol and others, FAST 2018), both with
//! random 4 KiB writes, 32 in flight, to the same *new* drive. It has 64 dies on 8 channels, pages of 4 KiB, so that a
//! request is one page in both, the whole map in memory, and the same times and buffer. The drive is new because MQSim
//! stops answering, or ends with "Inconsistency found when moving a page for GC/WL!", once its collector has to keep up
//! with such a load. So the ratio is without collection, and `ssd_ftl_mios_per_s` alone is with it. MQSim's start does
//! not count: two runs of different length are subtracted. There is no package of it. Without a program `MQSim` on the
//! path this figure is absent: the others are reported, the run fails, and says how to build it.

use std::process::Command;
use std::rc::Rc;

use esker_block::{Bio, Buf, Device};
use esker_rt::Sim;
use esker_stack::Stack;

use esker_lab_kit::rig::{Rig, send_all, vol};
use esker_lab_kit::{Figure, Lab, LabError, cpu_time::CpuTime, peer, timing};

const MQSIM: &str = "MQSim";
const NO_MQSIM: &str = "MQSim is not installed, so ratio_mqsim cannot be measured; there is no package of it: run make in a \
                        checkout of https://github.com/CMU-SAFARI/MQSim and put the folder of its program MQSim on the PATH";

/// Requests in flight.
const DEPTH: u64 = 32;
/// Requests of the shorter run on a new drive, which has room for six times as many; the longer one has thrice as many.
const NEW_REQUESTS: u64 = 200_000;
/// Bytes of one request.
const BLOCK: u64 = 4096;
/// Its map does not fit into the caches of today's CPUs.
const DRIVE: &str = "vol = ssd-model capacity=16GiB erase_block=512KiB spare=0.28 fill=1";
/// The drive that both programs have, as [`MQSIM_DRIVE`] describes it to the other one.
const TWIN: &str = "vol = ssd-model capacity=4GiB channels=8 dies=8 page=4KiB erase_block=512KiB spare=0.28 buffer=64MiB \
                    read=30us program=150us erase=3500us";

pub(crate) fn run(lab: &Lab<'_>) -> Result<Vec<Figure>, LabError> {
    let (rounds, requests) = lab.scale((5, 1 << 20), (9, 1 << 22));
    let Rig { world: sim, stack } = Rig::simulated(lab.seed, DRIVE)?;
    sim.block_on(write_all(stack.clone(), 0, requests));
    let rate = timing::median_of(rounds, |round| {
        let rate = rate(&sim, &stack, u64::from(round) + 1, requests);
        lab.say(format!("round {} of {rounds}: {rate:.2} million per second", round + 1));
        Ok(rate)
    })?;
    let mut figures = vec![
        Figure::alone("ssd_ftl_mios_per_s", rate, "million I/Os per second and core"),
        Figure::alone("write_amplification", amplification(&stack), "units written per host unit"),
    ];
    if Command::new(MQSIM).arg("--help").output().is_err() {
        return Err(LabError::Absent { figures, why: NO_MQSIM.to_string() });
    }
    let own = new_drive_rate(lab, rounds)?;
    lab.say(format!("a new drive: {own:.2} million per second"));
    let rival = mqsim_rate(lab)?;
    let name = format!("{MQSIM}, the same new drive, million I/Os per second");
    figures.push(Figure::alone("ratio_mqsim", own / rival, "times").peer(name, rival));
    Ok(figures)
}

/// Million requests per second of CPU time.
fn rate(sim: &Sim, stack: &Rc<Stack>, round: u64, requests: u64) -> f64 {
    let before = CpuTime::now().own;
    sim.block_on(write_all(stack.clone(), round, requests));
    requests as f64 / (CpuTime::now().own - before) / 1e6
}

/// The same for a drive that is new in each round, with as many requests as fit without collection.
fn new_drive_rate(lab: &Lab<'_>, rounds: u32) -> Result<f64, LabError> {
    timing::median_of(rounds, |round| {
        let round = u64::from(round) + 1;
        let Rig { world: sim, stack } = Rig::simulated(lab.seed + round, TWIN)?;
        Ok(rate(&sim, &stack, round, 3 * NEW_REQUESTS))
    })
}

fn amplification(stack: &Stack) -> f64 {
    let stats = stack.stats().into_iter().flat_map(|part| part.stats);
    stats.filter(|stat| stat.name == "write_amplification").map(|stat| stat.value).sum()
}

/// Streams of random numbers are named after the round, so that no round repeats another.
async fn write_all(stack: Rc<Stack>, round: u64, requests: u64) {
    let (rt, blocks) = (stack.rt().clone(), vol(&stack).limits().size / BLOCK);
    let writer = |client| {
        let mut rng = rt.rng(&format!("round {round} client {client}"));
        move |_| Bio::write(rng.below(blocks) * BLOCK, Buf::described(BLOCK as usize, 1))
    };
    send_all(stack, DEPTH, requests, writer).await;
}

/// Million requests per second of CPU time.
fn mqsim_rate(lab: &Lab<'_>) -> Result<f64, LabError> {
    let scratch = LabError::scratch(lab.scratch);
    let dir = lab.folder()?;
    std::fs::write(dir.path().join("device.xml"), MQSIM_DRIVE).map_err(scratch)?;
    let run = |requests: u64| -> Result<f64, LabError> {
        let load = MQSIM_LOAD.replace("DEPTH", &DEPTH.to_string()).replace("REQUESTS", &requests.to_string());
        std::fs::write(dir.path().join("load.xml"), load).map_err(scratch)?;
        let file = |name: &str| dir.path().join(name).display().to_string();
        let before = CpuTime::now().children;
        peer::output(MQSIM, &["-i", &file("device.xml"), "-w", &file("load.xml")])?;
        let took = CpuTime::now().children - before;
        lab.say(format!("{MQSIM}: {requests} writes in {took:.2} s"));
        check_report(&std::fs::read_to_string(dir.path().join("load_scenario_1.xml")).map_err(scratch)?, requests)?;
        Ok(took)
    };
    let (short, long) = (run(NEW_REQUESTS)?, run(3 * NEW_REQUESTS)?);
    Ok(2.0 * NEW_REQUESTS as f64 / (long - short) / 1e6)
}

/// Checks in its report that it did what was asked: a run may end early, and its collector may have worked.
fn check_report(report: &str, requests: u64) -> Result<(), LabError> {
    let number = |before: &str| {
        let rest = report.split(before).nth(1).unwrap_or_default();
        rest.split(|c: char| !c.is_ascii_digit()).next().unwrap_or_default().parse::<u64>().ok()
    };
    let (answered, collected) = (number("<Request_Count>"), number("Total_GC_Executions=\""));
    if answered == Some(requests) && collected == Some(0) {
        return Ok(());
    }
    let what = format!("{requests} writes were asked for: {answered:?} answered, {collected:?} collections, not 0");
    Err(peer::fault(MQSIM, what))
}

/// The rival's drive, as new as ours, and its load, in the rival's own words.
const MQSIM_DRIVE: &str = include_str!("sim_throughput/mqsim_drive.xml");
const MQSIM_LOAD: &str = include_str!("sim_throughput/mqsim_load.xml");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rival_that_ended_early_or_collected_is_no_rival() {
        let report = |requests: u64, collections: u64| {
            format!("<Request_Count>{requests}</Request_Count> <X Total_GC_Executions=\"{collections}\" />")
        };
        assert!(check_report(&report(100, 0), 100).is_ok());
        for bad in [report(64, 0), report(100, 3), String::new()] {
            assert!(check_report(&bad, 100).unwrap_err().to_string().contains("100 writes were asked for"), "{bad}");
        }
    }

    #[test]
    fn the_drive_that_is_compared_is_new_and_collects_nothing() {
        let Rig { world: sim, stack } = Rig::simulated(1, TWIN).unwrap();
        sim.block_on(write_all(stack.clone(), 1, 20_000));
        assert_eq!(amplification(&stack), 1.0);
        let blocks = 64.0 * 164.0 * 524_288.0 / (1.0 + 0.28);
        assert!((blocks / f64::from(1u32 << 31) / 2.0 - 1.0).abs() < 0.01, "both drives hold 4 GiB");
        assert!(MQSIM_DRIVE.contains("<Block_No_Per_Plane>164<"));
    }

    #[test]
    fn a_short_run_writes_to_a_full_drive() {
        let text = "vol = ssd-model capacity=256MiB erase_block=64KiB spare=0.3 fill=1";
        let Rig { world: sim, stack } = Rig::simulated(1, text).unwrap();
        let export = vol(&stack);
        let blocks = export.limits().size / BLOCK;
        sim.block_on(async move {
            for at in 0..60_000 {
                let offset = at * 7_919 % blocks * BLOCK;
                assert!(export.request(Bio::write(offset, Buf::described(BLOCK as usize, 1))).await.result.is_ok());
            }
        });
        assert!(amplification(&stack) > 1.2, "{}", amplification(&stack));
    }
}
