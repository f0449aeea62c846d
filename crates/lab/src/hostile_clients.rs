//! `hostile-clients`: whether a well-behaved newcomer gets in beside clients that want to keep it out, and whether a
//! planted key gets out.
//!
//! Two processes `esker serve` with the same stack run side by side. One is attacked, the other idle. A newcomer
//! connects, reads 4 KiB and leaves, or asks for the status over the control socket, at both in turns.
//!
//! - `newcomer_latency_ratio_worst`: the median of its times at the attacked server over those at the idle one, for
//!   the attack under
//!   which that is highest.
//! - `lockouts`: visits that were refused or did not end within 5 s.
//! - `rss_mib_max`: the most memory that an attacked server ever had.
//! - `secrets_found`: outputs of esker that show a key which a stack text holds or refers to.

mod crowd;
mod newcomer;
mod papers;
mod planted;

use std::thread::sleep;
use std::time::Duration;

use esker_front_nbd::Uri;
use esker_rt::net::Address;
use serde_json::json;

use crowd::{ATTACKS, Attack, Crowd, Target};
use esker_lab_kit::serve_process::{PROGRAM, ServeProcess, failed};
use esker_lab_kit::{Figure, Lab, LabError, peer, timing};
use newcomer::{Newcomer, PATIENCE};
use papers::Papers;

/// From then on the server counts a silent connection as idle.
const IDLE: Duration = Duration::from_millis(1200);
/// Before each visit.
const REST: Duration = Duration::from_millis(50);

pub(crate) fn run(lab: &Lab<'_>) -> Result<Vec<Figure>, LabError> {
    let papers = Papers::new(lab.folder()?)?;
    let mut seen = Seen::default();
    for is_secured in [false, true] {
        let papers = is_secured.then_some(&papers);
        let servers = [Reached::start(lab, papers)?, Reached::start(lab, papers)?];
        for attack in ATTACKS.iter().filter(|attack| attack.is_secured == is_secured) {
            measure(&servers, attack, &mut seen, lab)?;
        }
        seen.memory_mib = seen.memory_mib.max(servers[0].process.memory_mib("VmHWM")?);
    }
    let shown = planted::outputs_that_show_keys(lab.scratch, lab)?;
    let idle = format!("ms at an idle server, under the attack by {}", seen.worst);
    Ok(vec![
        Figure::alone("newcomer_latency_ratio_worst", seen.ratio, "ratio").peer(idle, seen.idle_ms),
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
struct Reached<'a> {
    process: ServeProcess,
    nbd: String,
    papers: Option<&'a Papers>,
}

impl<'a> Reached<'a> {
    fn start(lab: &Lab<'_>, papers: Option<&'a Papers>) -> Result<Reached<'a>, LabError> {
        let text = "[device.vol]\nkind = \"memory\"\nsize = \"64MiB\"\n\
                    [[export]]\nname = \"vol\"\ndevice = \"vol\"\nnbd = \"tcp:127.0.0.1:0\"\n";
        let args = papers.map(Papers::args).unwrap_or_default();
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let mut process = ServeProcess::start(lab.scratch, text, &args)?;
        let status = process.ask(&json!({ "do": "status" }))?;
        let uri = status["exports"][0]["uri"].as_str().and_then(|uri| uri.parse().ok());
        match uri {
            Some(Uri { address: Address::Tcp(nbd), .. }) => Ok(Reached { process, nbd, papers }),
            _ => Err(peer::fault(PROGRAM, format!("it tells no address: {status}"))),
        }
    }

    fn target(&self, attack: &Attack) -> Target {
        if attack.is_at_control { Target::Control(self.process.at("control")) } else { Target::Nbd(self.nbd.clone()) }
    }

    fn newcomer(&self, attack: &Attack, lab: &Lab<'_>) -> Result<Newcomer, LabError> {
        let tls = self.papers.map(Papers::client).transpose()?;
        Newcomer::new(lab.seed, self.target(attack), tls)
    }
}

fn measure(servers: &[Reached<'_>; 2], attack: &Attack, seen: &mut Seen, lab: &Lab<'_>) -> Result<(), LabError> {
    let [attacked, idle] = servers;
    let (here, there) = (attacked.newcomer(attack, lab)?, idle.newcomer(attack, lab)?);
    let mut crowd = Crowd::new(attack, attacked.target(attack));
    crowd.fill().map_err(failed)?;
    sleep(IDLE);
    let (mut ratios, mut idle, mut lockouts) = (Vec::new(), Vec::new(), 0);
    for pair in 1..=lab.scale(25, 101) {
        let attacked = || {
            // All places are taken again.
            crowd.fill().map_err(failed)?;
            Ok(rested(&here))
        };
        let (attacked, quiet) = timing::in_turns(pair, attacked, || Ok(rested(&there)))?;
        let quiet = quiet.map_err(|error| peer::fault(PROGRAM, error))?;
        lockouts += u32::from(attacked.is_err());
        ratios.push(attacked.unwrap_or(PATIENCE).as_secs_f64() / quiet.as_secs_f64());
        idle.push(quiet.as_secs_f64() * 1e3);
    }
    let (ratio, idle_ms) = (timing::median(ratios), timing::median(idle));
    let name = attack.name;
    lab.say(format!("{name}: {ratio:.2} times the {idle_ms:.2} ms of an idle server, {lockouts} lockouts"));
    seen.lockouts += lockouts;
    if ratio > seen.ratio {
        (seen.ratio, seen.worst, seen.idle_ms) = (ratio, name, idle_ms);
    }
    Ok(())
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
