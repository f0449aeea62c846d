//! Block traces from fio's job files: the requests that fio would send, at the times at which a device without service
//! time would get them.
//!
//! A [`FioPlan`] is a parsed file; a [`FioTrace`] is a [`Source`] of its requests. Times come from `rate`, `rate_iops`
//! and `thinktime`; `iodepth` bounds what a device slows down, and so has no effect. A process of fio has random
//! streams of its own, named by job and clone: its choices have fio's laws, not its numbers. Departures: ranks of
//! `zipf` and `pareto` are scattered without collisions, and blocks of all sizes lie at multiples of the smallest.
//!
//! Reading order: [`lines`], [`values`], [`options`], [`job`] (what a section asks for), [`thread`] (its requests).

mod flaw;
mod job;
mod lines;
mod options;
mod thread;
mod values;

pub use flaw::{JobError, JobFlaw};

use crate::fault::TraceError;
use crate::names::VOLUMES_MAX;
use crate::record::Record;
use crate::source::Source;
use esker_base::Nanos;
use job::Job;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::rc::Rc;
use thread::{Ask, Running};

/// Blocks of all maps of the file, at one bit: a tebibyte in blocks of 4 KiB.
const MAP_MAX: u64 = 1 << 28;

/// Something that the trace lacks, or that is not known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remark {
    /// Where, counted from 1.
    pub line: u32,
    /// What.
    pub text: String,
}

/// A job file.
#[derive(Clone, Debug)]
pub struct FioPlan {
    jobs: Vec<Rc<Job>>,
    remarks: Vec<Remark>,
}

impl FioPlan {
    /// Reads a job file.
    ///
    /// # Errors
    /// The first line from which no trace can be made.
    pub fn parse(text: &str) -> Result<FioPlan, JobError> {
        let (mut jobs, mut remarks, mut bits, mut processes) = (Vec::new(), Vec::<Remark>::new(), 0u64, 0u64);
        for (number, section) in lines::sections(text)?.iter().enumerate() {
            let (job, told) = job::job(section, number)?;
            bits = bits.saturating_add(job.map_bits());
            processes += job.clones;
            if bits > MAP_MAX {
                return Err(JobFlaw::LargeMap(job.name).at(section.line));
            }
            if processes > VOLUMES_MAX as u64 {
                return Err(JobFlaw::TooMany(VOLUMES_MAX, "processes").at(section.line));
            }
            jobs.push(Rc::new(job));
            for (line, text) in told {
                let remark = Remark { line, text };
                // A global option is told once.
                if !remarks.contains(&remark) {
                    remarks.push(remark);
                }
            }
        }
        remarks.sort_by_key(|remark| remark.line);
        Ok(FioPlan { jobs, remarks })
    }

    /// What the trace lacks, in the order of lines.
    pub fn remarks(&self) -> &[Remark] {
        &self.remarks
    }
}

/// A process of fio, and where it stands.
struct Process {
    running: Running,
    begin: Nanos,
    volume: u32,
    who: u32,
    ahead: Option<Ask>,
}

impl Process {
    /// Finds its next request; the time of that since the trace began.
    fn advance(&mut self) -> Option<Nanos> {
        self.ahead = self.running.next();
        self.ahead.map(|ask| Nanos(self.begin.0.saturating_add(ask.at.0)))
    }
}

/// The requests of a job file, with the processes of fio numbered from 1.
pub struct FioTrace {
    name: String,
    plan: FioPlan,
    seed: u64,
    volumes: Vec<String>,
    numbers: BTreeMap<String, u32>,
    processes: Vec<Process>,
    /// Their next requests: times, how many came before, processes.
    next: BinaryHeap<Reverse<(Nanos, u64, usize)>>,
    /// The first job that has not begun, and processes before it.
    job: usize,
    begun: u32,
    /// When the last process that has ended did so.
    end: Nanos,
}

impl FioTrace {
    /// A trace called `name`.
    pub fn new(name: &str, plan: FioPlan, seed: u64) -> FioTrace {
        FioTrace {
            name: name.to_string(),
            plan,
            seed,
            volumes: Vec::new(),
            numbers: BTreeMap::new(),
            processes: Vec::new(),
            next: BinaryHeap::new(),
            job: 0,
            begun: 0,
            end: Nanos::ZERO,
        }
    }

    /// How much of the requests came, from 0 to 1: the mean of all processes.
    pub fn share(&self) -> f64 {
        let all: u64 = self.plan.jobs.iter().map(|job| job.clones).sum();
        let ended = self.begun as usize - self.processes.len();
        let shares = self.processes.iter().map(|process| process.running.share()).sum::<f64>();
        (ended as f64 + shares) / all.max(1) as f64
    }

    /// Begins the jobs up to the next that waits; whether there were any.
    fn begin(&mut self) -> bool {
        self.processes.clear();
        let (first, base) = (self.job, self.end);
        while let Some(job) = self.plan.jobs.get(self.job).filter(|job| self.job == first || !job.waits).cloned() {
            self.job += 1;
            for clone in 0..job.clones {
                self.begun += 1;
                let (volume, who) = (self.volume(&job, clone), self.begun);
                let running = Running::new(job.clone(), clone, self.seed);
                let begin = Nanos(base.0.saturating_add(job.delay.0));
                self.processes.push(Process { running, begin, volume, who, ahead: None });
                self.push(self.processes.len() - 1, 0);
            }
        }
        self.job > first
    }

    /// The number of a clone's file.
    fn volume(&mut self, job: &Job, clone: u64) -> u32 {
        let file = job.file.clone().unwrap_or_else(|| format!("{}.{clone}.0", job.name));
        let path = job.directory.as_ref().map_or(file.clone(), |directory| format!("{directory}/{file}"));
        let number = self.volumes.len() as u32;
        *self.numbers.entry(path).or_insert_with_key(|path| {
            self.volumes.push(path.clone());
            number
        })
    }

    fn push(&mut self, process: usize, before: u64) {
        let one = &mut self.processes[process];
        match one.advance() {
            Some(at) => self.next.push(Reverse((at, before, process))),
            None => self.end = self.end.max(Nanos(one.begin.0.saturating_add(one.running.now().0))),
        }
    }
}

impl Source for FioTrace {
    fn next_record(&mut self) -> Result<Option<Record>, TraceError> {
        loop {
            let Some(Reverse((at, before, process))) = self.next.pop() else {
                if self.begin() {
                    continue;
                }
                return Ok(None);
            };
            let Process { volume, who, ahead, .. } = &mut self.processes[process];
            let (volume, who) = (*volume, *who);
            let ask = ahead.take().expect("a process that is queued has a request");
            self.push(process, before + 1);
            return Ok(Some(Record { at, volume, op: ask.op, offset: ask.offset, len: ask.len, who }));
        }
    }

    fn volumes(&self) -> &[String] {
        &self.volumes
    }

    fn name(&self) -> &str {
        &self.name
    }
}

#[cfg(test)]
mod tests;
