//! Job files of fio: a refusal names a line of the file, and what is taken yields requests that keep the promises of
//! records.

use esker_trace_block::generate::{FioPlan, FioTrace};
use esker_trace_block::{Op, Record, Source};

/// Requests that are looked at.
const REQUESTS: usize = 500;

const JOBS: [&str; 4] = [
    "[global]\nioengine=libaio\ndirect=1\nbs=8k,4k\nsize=64m\nruntime=10\ntime_based\nrate_iops=100,50\n\n[db]\nrw=randrw\n\
     rwmixread=70\nfsync=32\nnumjobs=2\nrandom_distribution=zipf:1.2\n[log]\nrw=write\nstonewall\nend_fsync=1\n",
    "; a disk\n[a]\nfilename=/dev/x\noffset=1g\noffset_increment=1m\nrw=randwrite\nsize=1m\nbssplit=4k/60:64k/:1m/5\n",
    "[b]\nrw=read\nbsrange=512-64k\nsize=10m\nio_size=1g\nthinktime=5ms\nthinktime_blocks=4\nnumber_ios=400\nloops=3\n",
    "[c]\nrw=randtrim\nnorandommap\nrate=10m\nrate_process=poisson\nrandom_distribution=pareto:0.2\nsize=1t\nstartdelay=1\n",
];

pub(crate) fn corpus() -> Vec<Vec<u8>> {
    JOBS.iter().map(|job| job.as_bytes().to_vec()).collect()
}

pub(crate) fn try_input(input: &[u8]) -> Result<bool, String> {
    let Ok(text) = std::str::from_utf8(input) else { return Ok(false) };
    let lines = text.lines().count().max(1) as u32;
    let plan = match FioPlan::parse(text) {
        Ok(plan) => plan,
        Err(error) if (1..=lines).contains(&error.line) => return Ok(false),
        Err(error) => return Err(format!("line {} of {lines} is refused", error.line)),
    };
    if let Some(remark) = plan.remarks().iter().find(|remark| !(1..=lines).contains(&remark.line)) {
        return Err(format!("line {} of {lines} is remarked", remark.line));
    }
    let mut trace = FioTrace::new("job", plan, 1);
    let mut last: Option<Record> = None;
    for _ in 0..REQUESTS {
        let Some(record) = trace.next_record().map_err(|error| error.to_string())? else { break };
        if last.is_some_and(|last| record.at < last.at) {
            return Err(format!("{record:?} is earlier than the one before"));
        }
        if (record.op == Op::Flush) != (record.len == 0) || record.offset.checked_add(record.len).is_none() {
            return Err(format!("{record:?} is no request"));
        }
        if record.volume as usize >= trace.volumes().len() || record.who == 0 {
            return Err(format!("{record:?} has no volume or process"));
        }
        last = Some(record);
    }
    Ok(last.is_some())
}
