//! `advise`: `esker advise`, as a user runs it. How long 200 proposals for a million requests take, and how far its
//! estimates lead astray.
//!
//! The census plays all proposals for the built-in traces instead of the best ones only. Then the estimates are held
//! against what was played: Kendall's rank correlation of the 95th percentiles (ties count for neither side), and the
//! median of their relative errors. Proposals that do not keep up have no percentile and are left out, but counted.
//! `best_is_verified` tells whether the advice with the usual ten runs names what is best of all.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use esker_base::Stream;
use esker_lab_kit::{Figure, Lab, LabError, peer, timing};
use serde_json::Value;

/// Two disks, and a drive that stands before them.
const SHOP: &str = "[[device]]\nname = \"hdd-7200-2016\"\n\n[[device]]\nname = \"hdd-7200-2021\"\n\n[[device]]\nname = \
                    \"ssd-sata-2021\"\nrole = \"fast\"\n";
/// What all proposals of the census may cost, US dollars.
const BUDGET: &str = "2000";
/// Proposals of the census.
const CENSUS: &str = "60";
/// Requests of the trace whose advice is timed, of which 300 come a second.
const REQUESTS: u64 = 1_000_000;
const GAP_US: f64 = 3_333.0;

/// Estimate and outcome of a proposal's 95th percentile, in nanoseconds.
type Pair = (f64, f64);

pub(crate) fn run(lab: &Lab<'_>) -> Result<Vec<Figure>, LabError> {
    let dir = lab.folder()?;
    let at = |name: &str| dir.path().join(name);
    let put = |name: &str, text: String| fs::write(at(name), text).map_err(LabError::scratch(&dir.path()));
    put("shop.toml", SHOP.to_string())?;
    put("million.csv", million(lab.seed, REQUESTS))?;

    lab.say("the advice of a census");
    let minutes = lab.scale("10min", "1h");
    let question = ["--catalogue", "shop.toml", "--budget", BUDGET, "--duration", minutes, "--configurations", CENSUS];
    let census = advised(dir.path(), &[&question[..], &["--verify", CENSUS]].concat())?;
    let usual = advised(dir.path(), &question)?;
    let again = advised(dir.path(), &[&question[..], &["--threads", "1"]].concat())?;
    let (pairs, saturated) = pairs(&census);
    lab.say(format!("{} proposals kept up, {saturated} did not", pairs.len()));

    lab.say("200 proposals for a million requests");
    let begun = Instant::now();
    let question = ["million.csv", "--from", "alibaba", "--budget", "4000", "--configurations", "200"];
    let timed = advised(dir.path(), &question)?;
    let seconds = begun.elapsed().as_secs_f64();
    let best = |advice: &Value| advice["rows"][advice["winner"].as_u64().unwrap_or(0) as usize]["name"].clone();
    let is = |holds: bool| f64::from(u8::from(holds));
    Ok(vec![
        Figure::alone("seconds_200", seconds, "s of real time"),
        Figure::alone("proposals_200", timed["rows"].as_array().map_or(0, Vec::len) as f64, "proposals"),
        Figure::alone("rank_tau", tau(&pairs), "Kendall's tau of p95"),
        Figure::alone("screen_p95_error", timing::median(pairs.iter().map(error).collect()), "median relative error"),
        Figure::alone("census", pairs.len() as f64, "proposals that were played and keep up"),
        Figure::alone("best_is_verified", is(best(&census) == best(&usual)), "1 if ten runs find the best of all"),
        Figure::alone("same_advice_twice", is(usual == again), "1 if both runs agree byte for byte"),
    ])
}

/// Asks the program, and reads what it says.
fn advised(dir: &Path, arguments: &[&str]) -> Result<Value, LabError> {
    let fault = |error: std::io::Error| peer::fault("esker advise", error);
    let own = std::env::current_exe().map_err(fault)?;
    let mut command = Command::new(own);
    command.arg("advise").args(arguments).args(["--json", "--out", "out"]).current_dir(dir).stdin(Stdio::null());
    let output = command.output().map_err(fault)?;
    if !output.status.success() {
        return Err(peer::fault("esker advise", String::from_utf8_lossy(&output.stderr).trim()));
    }
    serde_json::from_slice(&output.stdout).map_err(LabError::data)
}

/// The proposals that were played and kept up, and how many did not.
fn pairs(advice: &Value) -> (Vec<Pair>, usize) {
    let rows = || advice["rows"].as_array().into_iter().flatten().filter(|row| row["played"].is_object());
    let keeps_up = |row: &&Value| row["played"]["saturated"].is_null() && row["played"]["failed"] == 0;
    let pair = |row: &Value| Some((row["screened"]["p95_ns"].as_f64()?, row["played"]["p95_ns"].as_f64()?));
    let pairs: Vec<Pair> = rows().filter(keeps_up).filter_map(pair).collect();
    let saturated = rows().count() - pairs.len();
    (pairs, saturated)
}

fn error((screened, played): &Pair) -> f64 {
    (screened - played).abs() / played.max(1.0)
}

/// Kendall's tau: of all pairs of proposals, the share in which both orders agree less that in which they do not.
fn tau(pairs: &[Pair]) -> f64 {
    let (mut agreed, mut compared) = (0.0, 0.0);
    for (at, one) in pairs.iter().enumerate() {
        for other in &pairs[at + 1..] {
            let order = (one.0 - other.0) * (one.1 - other.1);
            if order != 0.0 {
                agreed += order.signum();
                compared += 1.0;
            }
        }
    }
    agreed / f64::max(compared, 1.0)
}

/// Requests of 4 KiB in the format `alibaba`, nine of ten to a hundredth of 200 GiB, one of three a write.
fn million(seed: u64, requests: u64) -> String {
    let mut random = Stream::named(seed, "advise");
    let (mut at, pages) = (0.0, 50u64 << 20);
    let line = |_| {
        at += GAP_US * random.exponential();
        let page = if random.chance(0.9) { pages / 2 + random.below(pages / 100) } else { random.below(pages) };
        let op = if random.chance(0.67) { 'R' } else { 'W' };
        format!("0,{op},{},4096,{}\n", page * 4096, 1_577_808_000_000_000 + at as u64)
    };
    (0..requests).map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tau_is_one_for_the_same_order_and_ties_do_not_count() {
        assert_eq!(tau(&[(1.0, 10.0), (2.0, 20.0), (3.0, 30.0)]), 1.0);
        assert_eq!(tau(&[(1.0, 30.0), (2.0, 20.0), (3.0, 10.0)]), -1.0);
        assert_eq!(tau(&[(1.0, 10.0), (1.0, 20.0), (3.0, 30.0)]), 1.0);
        assert!((tau(&[(1.0, 10.0), (2.0, 30.0), (3.0, 20.0)]) - 1.0 / 3.0).abs() < 1e-9);
    }

    #[test]
    fn proposals_that_were_not_played_or_do_not_keep_up_are_left_out() {
        let row = |played: &str| format!("{{\"screened\": {{\"p95_ns\": 5}}, \"played\": {played}}}");
        let sound = "{\"p95_ns\": 4, \"saturated\": null, \"failed\": 0}";
        let late = "{\"p95_ns\": 9, \"saturated\": \"late\", \"failed\": 0}";
        let text = format!("{{\"rows\": [{}, {}, {}]}}", row(sound), row(late), row("null"));
        let (pairs, saturated) = pairs(&serde_json::from_str(&text).unwrap());
        assert_eq!((pairs.as_slice(), saturated, error(&pairs[0])), (&[(5.0, 4.0)][..], 1, 0.25));
    }
}
