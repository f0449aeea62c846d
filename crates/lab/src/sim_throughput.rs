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

use esker_block::{Bio, Buf};
use esker_rt::Sim;
use esker_stack::Stack;

use esker_lab_kit::{
    Experiment, Figure, LabError, Options, Peer,
    cpu_time::CpuTime,
    peer,
    rig::{Rig, clients},
    timing::median,
};

/// The record.
pub const EXPERIMENT: Experiment = Experiment {
    name: "sim-throughput",
    summary: "Simulated I/Os per second through the SSD model's FTL in steady state",
    source: "the project's own bar: at least 1 million per second and core; MQSim reaches about 0.1",
    simulated: true,
    rivals: &[],
    run,
};

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
/// The drive that both programs have, as [`mqsim_drive`] describes it to the other one.
const TWIN: &str = "vol = ssd-model capacity=4GiB channels=8 dies=8 page=4KiB erase_block=512KiB spare=0.28 buffer=64MiB \
                    read=30us program=150us erase=3500us";

fn run(options: &Options, progress: &mut dyn FnMut(&str)) -> Result<Vec<Figure>, LabError> {
    let (rounds, requests) = if options.quick { (5, 1 << 20) } else { (9, 1 << 22) };
    let Rig { world: sim, stack } = Rig::simulated(options.seed, DRIVE)?;
    sim.block_on(write_all(stack.clone(), 0, requests));
    let mut rates = Vec::new();
    for round in 1..=rounds {
        rates.push(rate(&sim, &stack, round, requests));
        progress(&format!("round {round} of {rounds}: {:.2} million per second", rates[rates.len() - 1]));
    }
    let rate = median(rates);
    let mut figures = vec![
        Figure::alone("ssd_ftl_mios_per_s", rate, "million I/Os per second and core"),
        Figure::alone("write_amplification", amplification(&stack), "units written per host unit"),
    ];
    if Command::new(MQSIM).arg("--help").output().is_err() {
        return Err(LabError::Absent { figures, why: NO_MQSIM.to_string() });
    }
    let own = new_drive_rate(options, rounds)?;
    progress(&format!("a new drive: {own:.2} million per second"));
    let rival = mqsim_rate(options, progress)?;
    let peer = Some(Peer { name: format!("{MQSIM}, the same new drive, million I/Os per second"), value: rival });
    figures.push(Figure::alone("ratio_mqsim", own / rival, "times").beside(peer));
    Ok(figures)
}

/// Million requests per second of CPU time.
fn rate(sim: &Sim, stack: &Rc<Stack>, round: u64, requests: u64) -> f64 {
    let before = CpuTime::now().own;
    sim.block_on(write_all(stack.clone(), round, requests));
    requests as f64 / (CpuTime::now().own - before) / 1e6
}

/// The same for a drive that is new in each round, with as many requests as fit without collection.
fn new_drive_rate(options: &Options, rounds: u64) -> Result<f64, LabError> {
    let mut rates = Vec::new();
    for round in 1..=rounds {
        let Rig { world: sim, stack } = Rig::simulated(options.seed + round, TWIN)?;
        rates.push(rate(&sim, &stack, round, 3 * NEW_REQUESTS));
    }
    Ok(median(rates))
}

fn amplification(stack: &Stack) -> f64 {
    let stats = stack.stats().into_iter().flat_map(|part| part.stats);
    stats.filter(|stat| stat.name == "write_amplification").map(|stat| stat.value).sum()
}

/// Streams of random numbers are named after the round, so that no round repeats another.
async fn write_all(stack: Rc<Stack>, round: u64, requests: u64) {
    let export = stack.export("vol").or_else(|| stack.device("vol")).expect("the experiment's own name");
    let blocks = esker_block::Device::limits(&export).size / BLOCK;
    let client = |client| {
        let (export, mut rng) = (export.clone(), stack.rt().rng(&format!("round {round} client {client}")));
        async move {
            for _ in 0..requests / DEPTH {
                let offset = rng.below(blocks) * BLOCK;
                let done = export.request(Bio::write(offset, Buf::described(BLOCK as usize, 1))).await;
                assert!(done.result.is_ok(), "a write of the experiment failed: {:?}", done.result);
            }
        }
    };
    clients(stack.rt(), DEPTH, client).await;
}

/// Million requests per second of CPU time.
fn mqsim_rate(options: &Options, progress: &mut dyn FnMut(&str)) -> Result<f64, LabError> {
    let scratch = LabError::scratch(&options.scratch);
    let dir = tempfile::tempdir_in(&options.scratch).map_err(scratch)?;
    std::fs::write(dir.path().join("device.xml"), mqsim_drive()).map_err(scratch)?;
    let mut run = |requests: u64| -> Result<f64, LabError> {
        std::fs::write(dir.path().join("load.xml"), mqsim_load(requests)).map_err(scratch)?;
        let file = |name: &str| dir.path().join(name).display().to_string();
        let before = CpuTime::now().children;
        peer::output(MQSIM, &["-i".into(), file("device.xml"), "-w".into(), file("load.xml")])?;
        let took = CpuTime::now().children - before;
        progress(&format!("{MQSIM}: {requests} writes in {took:.2} s"));
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

/// A document of MQSim's: its tags around `body`.
fn document(tags: &[&str], body: &[(&str, &str)]) -> String {
    let body: String = body.iter().map(|(name, value)| format!("<{name}>{value}</{name}>\n")).collect();
    let open: String = tags.iter().map(|tag| format!("<{tag}>")).collect();
    let close: String = tags.iter().rev().map(|tag| format!("</{tag}>")).collect();
    format!("<?xml version=\"1.0\" encoding=\"us-ascii\"?>\n{open}\n{body}{close}\n")
}

/// [`TWIN`] for MQSim. What is not said has its default.
fn mqsim_drive() -> String {
    let flash: String = [
        ("Page_Read_Latency_LSB", "30000"),
        ("Page_Read_Latency_CSB", "30000"),
        ("Page_Read_Latency_MSB", "30000"),
        ("Page_Program_Latency_LSB", "150000"),
        ("Page_Program_Latency_CSB", "150000"),
        ("Page_Program_Latency_MSB", "150000"),
        ("Block_Erase_Latency", "3500000"),
        ("Die_No_Per_Chip", "1"),
        ("Plane_No_Per_Die", "1"),
        // 64 dies of 164 blocks of 512 KiB are 4 GiB and 28 % of it.
        ("Block_No_Per_Plane", "164"),
        ("Page_No_Per_Block", "128"),
        ("Page_Capacity", "4096"),
    ]
    .map(|(name, value)| format!("<{name}>{value}</{name}>\n"))
    .concat();
    let device = [
        ("Enabled_Preconditioning", "false"),
        ("Data_Cache_Capacity", "67108864"),
        ("Ideal_Mapping_Table", "true"),
        ("Overprovisioning_Ratio", "0.21875"),
        ("Flash_Channel_Count", "8"),
        ("Chip_No_Per_Channel", "8"),
        ("Flash_Parameter_Set", &flash),
    ];
    document(&["Execution_Parameter_Set", "Device_Parameter_Set"], &device)
}

fn mqsim_load(requests: u64) -> String {
    let (depth, requests) = (DEPTH.to_string(), requests.to_string());
    let flow = [
        ("Priority_Class", "HIGH"),
        ("Device_Level_Data_Caching_Mode", "WRITE_CACHE"),
        ("Channel_IDs", "0,1,2,3,4,5,6,7"),
        ("Chip_IDs", "0,1,2,3,4,5,6,7"),
        ("Die_IDs", "0"),
        ("Plane_IDs", "0"),
        ("Initial_Occupancy_Percentage", "75"),
        ("Working_Set_Percentage", "100"),
        ("Synthetic_Generator_Type", "QUEUE_DEPTH"),
        ("Read_Percentage", "0"),
        ("Address_Distribution", "RANDOM_UNIFORM"),
        ("Percentage_of_Hot_Region", "0"),
        ("Generated_Aligned_Addresses", "true"),
        ("Address_Alignment_Unit", "8"),
        ("Request_Size_Distribution", "FIXED"),
        ("Average_Request_Size", "8"),
        ("Variance_Request_Size", "0"),
        ("Seed", "798"),
        ("Average_No_of_Reqs_in_Queue", &depth),
        ("Intensity", "32768"),
        ("Stop_Time", "0"),
        ("Total_Requests_To_Generate", &requests),
    ];
    document(&["MQSim_IO_Scenarios", "IO_Scenario", "IO_Flow_Parameter_Set_Synthetic"], &flow)
}

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
        assert!(mqsim_drive().contains("<Block_No_Per_Plane>164<"));
    }

    #[test]
    fn a_short_run_writes_to_a_full_drive() {
        let text = "vol = ssd-model capacity=256MiB erase_block=64KiB spare=0.3 fill=1";
        let Rig { world: sim, stack } = Rig::simulated(1, text).unwrap();
        let export = stack.export("vol").or_else(|| stack.device("vol")).unwrap();
        let blocks = esker_block::Device::limits(&export).size / BLOCK;
        sim.block_on(async move {
            for at in 0..60_000 {
                let offset = at * 7_919 % blocks * BLOCK;
                assert!(export.request(Bio::write(offset, Buf::described(BLOCK as usize, 1))).await.result.is_ok());
            }
        });
        assert!(amplification(&stack) > 1.2, "{}", amplification(&stack));
    }
}
