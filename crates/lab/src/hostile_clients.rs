//! `hostile-clients`: whether a well-behaved newcomer gets in beside clients that want to keep it out, and whether a
//! planted key gets out.
//!
//! Two processes `esker serve` with the same stack run side by side. One is attacked, the other idle. A newcomer
//! connects, reads 4 KiB and leaves, or asks for the status over the control socket, at both in turns.
//!
//! - `newcomer_latency_ratio_worst`: the median of its times at the attacked server over those at the idle one, for the
//!   attack under which that is highest.
//! - `lockouts`: visits that were refused or did not end within 5 s.
//! - `rss_mib_max`: the most memory that an attacked server ever had.
//! - `secrets_found`: outputs of esker that show a key which a stack text holds or refers to.

mod crowd;
mod newcomer;
mod papers;
mod planted;

use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

use esker_front_nbd::Uri;
use esker_rt::net::Address;
use serde_json::json;

use crowd::{ATTACKS, Attack, Crowd, Target};
use esker_lab_kit::{
    Experiment, Figure, LabError, Options, Peer, peer, scratch,
    serve_process::{PROGRAM, ServeProcess},
    timing,
};
use newcomer::{Newcomer, PATIENCE};
use papers::Papers;

/// The record.
pub const EXPERIMENT: Experiment = Experiment {
    name: "hostile-clients",
    summary: "What a newcomer waits beside clients that want to keep it out, and whether a planted key gets out",
    source: "the project's own bars: at most 3 times an idle server, no lockout, 64 MiB, no key",
    simulated: false,
    rivals: &[],
    run,
};

/// From then on the server counts a silent connection as idle.
const IDLE: Duration = Duration::from_millis(1200);
/// Before each visit.
const REST: Duration = Duration::from_millis(50);

fn run(options: &Options, progress: &mut dyn FnMut(&str)) -> Result<Vec<Figure>, LabError> {
    let pairs = if options.quick { 25 } else { 101 };
    let papers = Papers::new(scratch::folder(&options.scratch)?)?;
    let mut seen = Seen::default();
    for is_secured in [false, true] {
        let servers = Servers::start(&options.scratch, is_secured.then_some(&papers))?;
        for attack in ATTACKS.iter().filter(|attack| attack.is_secured == is_secured) {
            servers.measure(attack, pairs, options.seed, &mut seen, progress)?;
        }
        seen.memory_mib = seen.memory_mib.max(servers.attacked.process.memory_mib("VmHWM")?);
    }
    let shown = planted::outputs_that_show_keys(&options.scratch, progress)?;
    let idle = Peer { name: format!("ms at an idle server, under the attack by {}", seen.worst), value: seen.idle_ms };
    Ok(vec![
        Figure::alone("newcomer_latency_ratio_worst", seen.ratio, "ratio").beside(idle),
        Figure::alone("lockouts", f64::from(seen.lockouts), "visits"),
        Figure::alone("rss_mib_max", seen.memory_mib, "MiB"),
        Figure::alone("secrets_found", shown.len() as f64, "outputs"),
    ])
}

/// The worst of what was seen.
#[derive(Default)]
struct Seen {
    ratio: f64,
    worst: &'static str,
    idle_ms: f64,
    lockouts: u32,
    memory_mib: f64,
}

/// A server and how it is reached.
struct Reached {
    process: ServeProcess,
    nbd: String,
}

impl Reached {
    fn start(parent: &Path, papers: Option<&Papers>) -> Result<Reached, LabError> {
        let text = "[device.vol]\nkind = \"memory\"\nsize = \"64MiB\"\n\
                    [[export]]\nname = \"vol\"\ndevice = \"vol\"\nnbd = \"tcp:127.0.0.1:0\"\n";
        let args = papers.map(Papers::args).unwrap_or_default();
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let mut process = ServeProcess::start(parent, text, &args)?;
        let status = process.ask(&json!({ "do": "status" }))?;
        let uri = status["exports"][0]["uri"].as_str().and_then(|uri| uri.parse().ok());
        match uri {
            Some(Uri { address: Address::Tcp(nbd), .. }) => Ok(Reached { process, nbd }),
            _ => Err(peer::fault(PROGRAM, format!("it tells no address: {status}"))),
        }
    }

    fn target(&self, attack: &Attack) -> Target {
        if attack.is_at_control { Target::Control(self.process.at("control")) } else { Target::Nbd(self.nbd.clone()) }
    }
}

struct Servers<'a> {
    attacked: Reached,
    idle: Reached,
    papers: Option<&'a Papers>,
}

impl<'a> Servers<'a> {
    fn start(parent: &Path, papers: Option<&'a Papers>) -> Result<Servers<'a>, LabError> {
        Ok(Servers { attacked: Reached::start(parent, papers)?, idle: Reached::start(parent, papers)?, papers })
    }

    fn measure(
        &self,
        attack: &Attack,
        pairs: u32,
        seed: u64,
        seen: &mut Seen,
        progress: &mut dyn FnMut(&str),
    ) -> Result<(), LabError> {
        let newcomer = |reached: &Reached| {
            let tls = self.papers.map(Papers::client).transpose()?;
            Newcomer::new(seed, reached.target(attack), tls)
        };
        let (here, there) = (newcomer(&self.attacked)?, newcomer(&self.idle)?);
        let mut crowd = Crowd::new(attack, self.attacked.target(attack));
        crowd.fill().map_err(|error| peer::fault(PROGRAM, error))?;
        sleep(IDLE);
        let (mut ratios, mut idle, mut lockouts) = (Vec::new(), Vec::new(), 0);
        for pair in 1..=pairs {
            let attacked = || {
                // All places are taken again.
                crowd.fill().map_err(|error| peer::fault(PROGRAM, error))?;
                Ok(rested(&here))
            };
            let (attacked, quiet) = timing::in_turns(pair, attacked, || Ok(rested(&there)))?;
            let quiet = quiet.map_err(|error| peer::fault(PROGRAM, error))?;
            lockouts += u32::from(attacked.is_err());
            ratios.push(attacked.unwrap_or(PATIENCE).as_secs_f64() / quiet.as_secs_f64());
            idle.push(quiet.as_secs_f64() * 1e3);
        }
        let (ratio, idle_ms) = (timing::median(ratios), timing::median(idle));
        progress(&format!(
            "{}: {ratio:.2} times the {idle_ms:.2} ms of an idle server, {lockouts} lockouts",
            attack.name
        ));
        seen.lockouts += lockouts;
        if ratio > seen.ratio {
            (seen.ratio, seen.worst, seen.idle_ms) = (ratio, attack.name, idle_ms);
        }
        Ok(())
    }
}

/// A visit after a rest, which a server needs to see connections that came in place of those that it ended. Both
/// servers get it, because it also makes the visit itself slower.
fn rested(newcomer: &Newcomer) -> Result<Duration, String> {
    sleep(REST);
    newcomer.visit()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_in_is_attacked() {
        let is_there = |secured, control| {
            ATTACKS.iter().any(|attack| (attack.is_secured, attack.is_at_control) == (secured, control))
        };
        assert!(is_there(false, false) && is_there(true, false) && is_there(false, true));
    }
}
