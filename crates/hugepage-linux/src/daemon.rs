//! The manager at work on this machine, in the real world of [`Rt`].

use std::cell::RefCell;
use std::future::Future;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::Arc;

use esker_base::{Nanos, Time};
use esker_rt::real::Kernel;
use esker_rt::sync::{Either, race};
use esker_rt::{Level, Rt};

use crate::budget::Budget;
use crate::config::Config;
use crate::journal::{self, Journal};
use crate::linux::System;
use crate::linux::groups::Held;
use crate::linux::knobs::{KnobError, PutBack, Restored};
use crate::status::{GroupStatus, ProcessSharing, Sharing, Status};
use esker_hugepage::manager::{Decision, Manager};
use esker_hugepage::view::Pid;

/// Nothing is put off longer.
const SLEEP_MAX: Nanos = Nanos::secs(1);

/// The manager, this machine, and what it may use of it.
pub struct Daemon {
    rt: Rt,
    manager: Manager,
    system: System,
    budget: Budget,
    journal: Option<Journal<Box<dyn Write>>>,
    begun: Time,
}

/// When a daemon works again.
struct Next {
    /// Not before it has rested enough.
    rested: Time,
    /// Then at this time, or earlier if the kernel tells of a fault.
    due: Time,
}

impl Daemon {
    /// Takes this machine. Decisions go to `journal`.
    ///
    /// # Errors
    /// [`KnobError`].
    pub fn open(rt: &Rt, config: Config, journal: Option<Journal<Box<dyn Write>>>) -> Result<Daemon, KnobError> {
        let system = System::open(config.settings)?;
        for one in &system.repaired {
            tell_restored(rt, one, "left changed by a manager that was killed");
        }
        let begun = rt.now();
        let budget = Budget::new(config.cpu_max, begun, cpu_time());
        let manager = Manager::new(config.policy, rt.seed());
        Ok(Daemon { rt: rt.clone(), manager, system, budget, journal, begun })
    }

    /// Does what is due, and says when to come again.
    fn turn(&mut self) -> Next {
        let now = self.rt.now();
        let (rt, journal) = (&self.rt, &mut self.journal);
        let mut lost = None;
        let next = self.manager.turn(now, &mut self.system, &mut |at, decision| {
            tell_decision(rt, decision);
            if let Some(Err(error)) = journal.as_mut().map(|journal| journal.write(at, decision)) {
                lost = Some(error);
            }
        });
        if let Some(error) = lost {
            self.journal = None;
            rt.log_event(
                Level::Error,
                "journal_lost",
                &[("error", &error)],
                format_args!("decisions are no longer written: {error}"),
            );
        }
        self.system.begin_sampling();
        for trouble in self.system.troubles.drain(..) {
            rt.log_event(Level::Warn, "trouble", &[], format_args!("{trouble}"));
        }
        let next = next.min(now + self.system.next_poll().min(SLEEP_MAX));
        let rested = self.budget.charge(self.rt.now(), cpu_time());
        Next { rested, due: next.max(rested) }
    }

    /// What to wait for beside the time.
    fn bell(&self) -> Option<(Kernel, Arc<OwnedFd>)> {
        Some((self.rt.kernel().ok()?, self.system.bell()?))
    }

    /// What puts settings back from another thread, when the process ends without [`Daemon::close`].
    pub fn put_back(&self) -> PutBack {
        self.system.put_back()
    }

    /// Puts back what was set, and says so. It is done when the daemon is dropped, too.
    pub fn close(&mut self) -> Vec<String> {
        self.system.close().iter().map(Restored::line).collect()
    }

    /// What it tells about itself. Looks through the page tables of all processes.
    pub fn status(&mut self) -> Status {
        let now = self.rt.now();
        let mut status = Status::of(&self.manager, now);
        status.uptime_s = now.since(self.begun).as_secs_f64();
        status.cpu_s = cpu_time().as_secs_f64();
        status.polls = self.system.polls.0;
        status.poll_s = self.system.polls.1.as_secs_f64();
        status.refused = self.system.refused.clone();
        status.sharing = self.system.saved().map(|saved| Sharing {
            policy: self.manager.policy().sharing.word().to_string(),
            saved_bytes: saved.bytes,
            profit_bytes: saved.profit,
            full_scans: saved.scans,
            refused: saved.refused,
        });
        status.groups = self.system.groups().into_iter().map(group_status).collect();
        for process in &mut status.processes {
            let pid = Pid(process.pid);
            process.name = self.system.name(pid).unwrap_or_default().to_string();
            process.resident_bytes = self.system.resident(pid);
            let uses = self.system.uses(pid).into_iter().map(|one| (one.region, one.used, one.huge));
            process.draw(&self.manager, uses);
            process.sharing = self.system.shared(pid).map(|(mergeable_bytes, merged_bytes, profit_bytes)| {
                ProcessSharing { mergeable_bytes, merged_bytes, profit_bytes }
            });
        }
        status
    }
}

/// Works until `stop`. What was set is put back when the daemon is dropped.
pub async fn run(daemon: Rc<RefCell<Daemon>>, stop: impl Future<Output = ()>) {
    let rt = daemon.borrow().rt.clone();
    let bell = daemon.borrow().bell();
    let work = async {
        loop {
            let next = daemon.borrow_mut().turn();
            if next.due <= rt.now() {
                rt.yield_now().await;
                continue;
            }
            rt.sleep_until(next.rested).await;
            let is_told = async {
                match &bell {
                    Some((kernel, fd)) => kernel.readable(fd.clone()).await.is_ok_and(|outcome| outcome.result.is_ok()),
                    None => false,
                }
            };
            if let Either::Right(false) = race(rt.sleep_until(next.due), is_told).await {
                rt.sleep_until(next.due).await;
            }
        }
    };
    match race(work, stop).await {
        Either::Left(()) => unreachable!("the work has no end"),
        Either::Right(()) => {}
    }
}

fn tell_restored(rt: &Rt, one: &Restored, why: &str) {
    let (path, was) = (one.path.display(), &one.was);
    let done = if one.done { "is again" } else { "was changed by another program since, or cannot be; it was" };
    rt.log_event(Level::Warn, "restored", &[("path", &path)], format_args!("{path}: {why}; {done} {was:?}"));
}

fn tell_decision(rt: &Rt, decision: &Decision) {
    let (level, kind) = match decision {
        Decision::Met(_) => (Level::Info, "met"),
        Decision::Lost(_) => (Level::Info, "lost"),
        Decision::Greedy { .. } => (Level::Info, "mode"),
        Decision::Resting { .. } => (Level::Warn, "resting"),
        Decision::Starved { .. } => (Level::Info, "starved"),
        Decision::Compacted { .. } => (Level::Info, "compacted"),
        Decision::Excluded { .. } => (Level::Debug, "excluded"),
        Decision::Changed { promoted: true, .. } => (Level::Debug, "promoted"),
        Decision::Changed { promoted: false, .. } => (Level::Debug, "demoted"),
        Decision::Refused { .. } => (Level::Debug, "refused"),
        Decision::Left { .. } => (Level::Debug, "left"),
        Decision::Sharing { .. } => (Level::Debug, "sharing"),
    };
    rt.log_event(level, kind, &[], format_args!("{}", journal::text(decision)));
}

fn group_status((path, held, pids): (String, Held, Vec<Pid>)) -> GroupStatus {
    let pids = pids.into_iter().map(|pid| pid.0).collect();
    GroupStatus { path, pids, huge_bytes: held.huge, used_bytes: held.used, limit_bytes: held.limit }
}

/// CPU time of this program.
fn cpu_time() -> Nanos {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Nanos(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}
