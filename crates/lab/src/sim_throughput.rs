//! `sim-throughput`: how fast the modelled drive is simulated.
//!
//! `ssd_ftl_mios_per_s`: random 4 KiB writes to a drive of `ssd-model` that is full and in steady state, so that its
//! collector moves units all the time, 32 in flight, each on its whole way: task, stack with contract check, translation
//! layer, dies, channels and buffer, event, completion. Virtual time, one core, digest on. Counted in CPU time, so that
//! what else runs on the machine does not count, except in the caches.
//!
//! `ratio_mqsim`: the same over what MQSim (Tavakkol and others, FAST 2018) reaches with random 4 KiB writes, 32 in flight, on
//! its default device. Its start and preconditioning do not count: two runs of different length are subtracted. There is
//! no package of it, so without a program `MQSim` on the path the figure is absent, and the run says how to build it.

use std::path::Path;
use std::process::Command;
use std::rc::Rc;

use esker_base::units::GIB;
use esker_block::{Bio, Buf};
use esker_rt::mem::Pool;
use esker_rt::{Sim, SimConfig};
use esker_stack::{Spec, Stack};

use crate::experiment::{Experiment, Figure, LabError, Options, Peer};
use crate::peer;
use crate::timing::median;

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
const BUILD_MQSIM: &str = "run make in a checkout of https://github.com/CMU-SAFARI/MQSim and put MQSim on the path";

/// Requests in flight.
const DEPTH: u64 = 32;
/// Bytes of one request.
const BLOCK: u64 = 4096;
/// Bytes of the drive. Its map does not fit into the caches of today's CPUs.
const CAPACITY: u64 = 16 * GIB;
const DRIVE: &str = "vol = ssd-model capacity=16GiB erase_block=512KiB spare=0.28 fill=1";

fn run(options: &Options, progress: &mut dyn FnMut(&str)) -> Result<Vec<Figure>, LabError> {
    let (rounds, requests) = if options.quick { (5, 1 << 20) } else { (9, 1 << 22) };
    let spec = Spec::parse("sim-throughput", DRIVE).unwrap_or_else(|e| panic!("the experiment's own text: {e}"));
    let sim = Sim::new(SimConfig::seeded(options.seed));
    let stack = Stack::build(&sim.rt(), &Pool::default(), esker_kinds::ALL, &spec)?;
    sim.block_on(write_all(stack.clone(), 0, requests));
    let mut rates = Vec::new();
    for round in 1..=rounds {
        let before = CpuTime::now().own;
        sim.block_on(write_all(stack.clone(), round, requests));
        rates.push(requests as f64 / (CpuTime::now().own - before) / 1e6);
        progress(&format!("round {round} of {rounds}: {:.2} million per second", rates[rates.len() - 1]));
    }
    let rate = median(rates);
    let mut figures = vec![
        Figure::alone("ssd_ftl_mios_per_s", rate, "million I/Os per second and core"),
        Figure::alone("write_amplification", amplification(&stack), "units written per host unit"),
    ];
    if Command::new(MQSIM).arg("--help").output().is_err() {
        progress(&format!("ratio_mqsim is absent: {MQSIM} is not installed; {BUILD_MQSIM}"));
        return Ok(figures);
    }
    let rival = mqsim_rate(options, progress)?;
    let peer = Some(Peer { name: format!("{MQSIM}, default device, million I/Os per second"), value: rival });
    figures.push(Figure { peer, ..Figure::alone("ratio_mqsim", rate / rival, "times") });
    Ok(figures)
}

fn amplification(stack: &Stack) -> f64 {
    let stats = stack.stats().into_iter().flat_map(|part| part.stats);
    stats.filter(|stat| stat.name == "write_amplification").map(|stat| stat.value).sum()
}

/// Streams of random numbers are named after the round, so that no round repeats another.
async fn write_all(stack: Rc<Stack>, round: u64, requests: u64) {
    let export = stack.export("vol").or_else(|| stack.device("vol")).expect("the experiment's own name");
    let clients: Vec<_> = (0..DEPTH)
        .map(|client| {
            let (export, mut rng) = (export.clone(), stack.rt().rng(&format!("round {round} client {client}")));
            stack.rt().spawn("client", async move {
                for _ in 0..requests / DEPTH {
                    let offset = rng.below(CAPACITY / BLOCK) * BLOCK;
                    let done = export.request(Bio::write(offset, Buf::described(BLOCK as usize, 1))).await;
                    assert!(done.result.is_ok(), "a write of the experiment failed: {:?}", done.result);
                }
            })
        })
        .collect();
    for client in clients {
        client.await;
    }
}

/// Million requests per second of CPU time.
fn mqsim_rate(options: &Options, progress: &mut dyn FnMut(&str)) -> Result<f64, LabError> {
    let scratch = |source| LabError::Scratch { dir: options.scratch.clone(), source };
    let dir = tempfile::tempdir_in(&options.scratch).map_err(scratch)?;
    let few: u64 = if options.quick { 100_000 } else { 400_000 };
    let mut run = |requests: u64| -> Result<f64, LabError> {
        std::fs::write(dir.path().join("load.xml"), mqsim_load(requests)).map_err(scratch)?;
        let file = |name: &str| dir.path().join(name).display().to_string();
        let before = CpuTime::now().children;
        // It takes its default device, since there is no such file, and writes one.
        peer::output(MQSIM, &["-i".into(), file("device.xml"), "-w".into(), file("load.xml")])?;
        let took = CpuTime::now().children - before;
        progress(&format!("{MQSIM}: {requests} writes in {took:.2} s, {} answered", answered(dir.path())));
        Ok(took)
    };
    let (short, long) = (run(few)?, run(3 * few)?);
    Ok(2.0 * few as f64 / (long - short) / 1e6)
}

/// Requests that its report counts, so that a run which ended early is seen.
fn answered(dir: &Path) -> String {
    let report = std::fs::read_to_string(dir.join("load_scenario_1.xml")).unwrap_or_default();
    let count = report.split("<Request_Count>").nth(1).and_then(|rest| rest.split('<').next());
    count.unwrap_or("none").to_string()
}

fn mqsim_load(requests: u64) -> String {
    let flow = [
        ("Priority_Class", "HIGH"),
        ("Device_Level_Data_Caching_Mode", "WRITE_CACHE"),
        ("Channel_IDs", "0,1,2,3,4,5,6,7"),
        ("Chip_IDs", "0,1,2,3"),
        ("Die_IDs", "0,1"),
        ("Plane_IDs", "0,1"),
        ("Initial_Occupancy_Percentage", "75"),
        ("Working_Set_Percentage", "75"),
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
        ("Average_No_of_Reqs_in_Queue", &DEPTH.to_string()),
        ("Intensity", "32768"),
        ("Stop_Time", "0"),
        ("Total_Requests_To_Generate", &requests.to_string()),
    ]
    .map(|(name, value)| format!("<{name}>{value}</{name}>\n"))
    .concat();
    format!(
        "<?xml version=\"1.0\" encoding=\"us-ascii\"?>\n<MQSim_IO_Scenarios><IO_Scenario><IO_Flow_Parameter_Set_Synthetic>\n\
         {flow}</IO_Flow_Parameter_Set_Synthetic></IO_Scenario></MQSim_IO_Scenarios>\n"
    )
}

/// CPU time of this process and of its children that have ended, in seconds.
struct CpuTime {
    own: f64,
    children: f64,
}

impl CpuTime {
    fn now() -> CpuTime {
        CpuTime::of(&std::fs::read_to_string("/proc/self/stat").unwrap_or_default())
    }

    /// Reads the four times after the program's name, which may hold blanks: user and system, own and children's.
    fn of(stat: &str) -> CpuTime {
        const TICKS_PER_SECOND: f64 = 100.0;
        let rest = stat.rsplit(')').next().unwrap_or_default();
        let ticks: Vec<f64> = rest.split_whitespace().skip(11).take(4).filter_map(|word| word.parse().ok()).collect();
        let [user, system, child_user, child_system] = ticks[..] else {
            return CpuTime { own: f64::NAN, children: f64::NAN };
        };
        CpuTime { own: (user + system) / TICKS_PER_SECOND, children: (child_user + child_system) / TICKS_PER_SECOND }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_times_are_found_behind_any_program_name() {
        let stat = "123 (a b) c) R 1 2 3 4 5 6 7 8 9 10 250 50 30 70 20 0 1 0 99";
        let time = CpuTime::of(stat);
        assert_eq!((time.own, time.children), (3.0, 1.0));
        assert!(CpuTime::of("").own.is_nan());
    }

    #[test]
    fn a_short_run_writes_to_a_full_drive() {
        let spec = Spec::parse("test", "vol = ssd-model capacity=256MiB erase_block=64KiB spare=0.3 fill=1").unwrap();
        let sim = Sim::new(SimConfig::seeded(1));
        let stack = Stack::build(&sim.rt(), &Pool::default(), esker_kinds::ALL, &spec).unwrap();
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
