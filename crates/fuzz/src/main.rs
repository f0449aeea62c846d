//! Feeds mutated inputs to the readers of foreign bytes.
//!
//! Invariant: holds no logic but that of its command line; see the library.

#![forbid(unsafe_code)]
#![allow(clippy::disallowed_methods, reason = "a developer's tool reads arguments and looks at the clock")]

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;

use esker_fuzz::kept;
use esker_fuzz::run::{self, Bound, Outcome};
use esker_fuzz::target::Target;

/// Feeds mutated inputs to the readers of foreign bytes.
#[derive(Parser)]
#[command(name = "esker-fuzz", max_term_width = 100)]
struct Args {
    /// What to fuzz: a target, `all` of them, or `smoke` (all, 2000 inputs each unless --events says otherwise)
    #[arg(value_name = "TARGET")]
    target: String,
    /// Write the sound and the kept inputs to DIR/TARGET, where libFuzzer begins, and end
    #[arg(long, value_name = "DIR")]
    export: Option<PathBuf>,
    /// Seed of every choice
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Inputs to try, for each target [default: without bound]
    #[arg(long)]
    events: Option<u64>,
    /// Seconds to run, for each target [default: without bound]
    #[arg(long)]
    seconds: Option<u64>,
}

const SMOKE_EVENTS: u64 = 2000;

fn main() -> ExitCode {
    let args = Args::parse();
    let targets: Vec<Target> = match args.target.as_str() {
        "all" | "smoke" => Target::ALL.into_iter().filter(|target| *target != Target::Canary).collect(),
        name => Target::ALL.into_iter().filter(|target| target.name() == name).collect(),
    };
    if targets.is_empty() {
        let names: Vec<String> = Target::ALL.into_iter().map(Target::name).collect();
        eprintln!("esker-fuzz: unknown target \"{}\"; use all, smoke or one of: {}", args.target, names.join(", "));
        return ExitCode::from(2);
    }
    if let Some(dir) = &args.export {
        return match targets.iter().try_for_each(|target| kept::export(*target, dir)) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("esker-fuzz: cannot write inputs to {}: {error}", dir.display());
                ExitCode::FAILURE
            }
        };
    }
    let capped = args.events.or_else(|| (args.target == "smoke").then_some(SMOKE_EVENTS));
    let bound = Bound { events: capped.unwrap_or(u64::MAX), time: args.seconds.map(Duration::from_secs) };
    let failed = targets.into_iter().filter(|target| !try_one(*target, args.seed, bound)).count();
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Whether nothing was found.
fn try_one(target: Target, seed: u64, bound: Bound) -> bool {
    let name = target.name();
    let report = run::run(target, seed, bound);
    let rate = report.events as f64 / report.time.as_secs_f64().max(1e-9);
    println!("{name}: seed {seed}, {} inputs, {} accepted, {rate:.0}/s", report.events, report.accepted);
    let Outcome::Found { event, what, input } = report.outcome else { return true };
    println!("{name}: FOUND at input {event}: {what}");
    println!("{name}: input ({} bytes): {}", input.len(), input.escape_ascii());
    println!("{name}: again: esker-fuzz {name} --seed {seed} --events {}", event + 1);
    false
}
