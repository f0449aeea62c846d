//! A worker: this program, executed again ([`WORD`]), that follows one circle through all pages of its memory for a
//! number of steps, and then ends.

use std::time::Instant;

use super::own::{Own, lines, say};
use super::{FRESH, chase, first_region, thread_cpu};
use esker_hugepage::REGION_BYTES;
use esker_lab_kit::LabError;

/// Word by which this program is asked to be a worker.
pub(super) const WORD: &str = "--esker-lab-worker";
const REGION: usize = REGION_BYTES as usize;

/// A worker that runs.
pub(crate) struct Chaser(Own);

/// What a worker took for its work, in seconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Took {
    /// From the order to work to its end.
    pub wall_s: f64,
    /// CPU time.
    pub cpu_s: f64,
}

impl Chaser {
    /// Starts one and fills its memory, in pages as faults give them.
    ///
    /// # Errors
    /// If this program cannot be executed again, or ends.
    pub(crate) fn start(regions: u64, seed: u64) -> Result<Chaser, LabError> {
        let words = [WORD.to_string(), regions.to_string(), seed.to_string()];
        let mut own = Own::start("a worker", |command| command.args(words))?;
        own.ask::<1>("fill")?;
        Ok(Chaser(own))
    }

    /// Its number.
    pub(crate) fn pid(&self) -> u32 {
        self.0.pid()
    }

    /// Has it take so many steps and go on.
    ///
    /// # Errors
    /// If it has ended.
    pub(crate) fn begin_trial(&mut self, steps: u64) -> Result<(), LabError> {
        self.0.tell(&format!("trial {steps}"))
    }

    /// Waits for the end of the trial. Returns its CPU time in seconds.
    ///
    /// # Errors
    /// If it has ended.
    pub(crate) fn end_trial(&mut self) -> Result<f64, LabError> {
        self.0.hear().map(|[cpu_s]| cpu_s)
    }

    /// Has it work.
    ///
    /// # Errors
    /// If it has ended.
    pub(crate) fn work(&mut self, steps: u64) -> Result<(), LabError> {
        self.0.tell(&format!("work {steps}"))
    }

    /// What it took, once it has done its work and ended.
    ///
    /// # Errors
    /// If it has ended without its work.
    pub(crate) fn took(&mut self) -> Result<Option<Took>, LabError> {
        if !self.0.has_ended()? {
            return Ok(None);
        }
        let [wall_s, cpu_s] = self.0.hear()?;
        Ok(Some(Took { wall_s, cpu_s }))
    }
}

/// Runs as a worker, if there are numbers of regions and of a seed.
pub(super) fn pass(numbers: &[usize]) -> bool {
    let [regions, seed] = numbers else { return false };
    let mut memory = vec![0u8; FRESH.max((regions + 1) * REGION)];
    let first = first_region(&memory);
    serve(&mut memory[first..first + regions * REGION], *seed as u64, lines());
    true
}

fn serve(memory: &mut [u8], seed: u64, mut lines: impl Iterator<Item = String>) {
    if lines.next().as_deref() != Some("fill") {
        return;
    }
    chase::lay(memory, seed);
    say(&[0.0]);
    let steps = |line: Option<String>, word: &str| line?.strip_prefix(word)?.parse().ok();
    let Some(trial) = steps(lines.next(), "trial ") else { return };
    let before = thread_cpu();
    let at = chase::follow(memory, trial, 0);
    say(&[(thread_cpu() - before).as_secs_f64()]);
    let Some(work) = steps(lines.next(), "work ") else { return };
    let (begun, before) = (Instant::now(), thread_cpu());
    chase::follow(memory, work, at);
    say(&[begun.elapsed().as_secs_f64(), (thread_cpu() - before).as_secs_f64()]);
}
