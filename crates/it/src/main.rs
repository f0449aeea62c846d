//! `it --guest`: boots guests on what Esker serves. `it load`: the loads that guests verify. `it harness`: figures of
//! the harness of file systems.
//!
//! Invariant: reads nothing outside the project but packages of the distribution.

#![forbid(unsafe_code)]
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "a program of tests: it reads its arguments")]

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use clap::{Args, Parser, Subcommand};
use esker_it::guest::scenarios::SCENARIOS;
use esker_it::harness::{self, HarnessOptions};
use esker_it::kernel::System;
use esker_it::{guest, load};

/// Tests of whole machines. The other tests are run by `cargo test -p esker-it`.
#[derive(Parser)]
#[command(name = "it")]
struct It {
    /// Boot guests and run their scenarios
    #[arg(long)]
    guest: bool,
    /// Only this scenario; may be given several times
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,
    /// List the scenarios
    #[arg(long)]
    list: bool,
    /// The program under test [default: built first, in the same profile]
    #[arg(long, value_name = "PATH")]
    esker: Option<PathBuf>,
    /// Where kernel, logs and summary are kept [default: guest in the target folder]
    #[arg(long, value_name = "DIR")]
    cache: Option<PathBuf>,
    #[command(subcommand)]
    tool: Option<Tool>,
}

#[derive(Subcommand)]
enum Tool {
    /// Write or verify a load
    Load(Load),
    /// Measure the harness of file systems, a line for each figure
    Harness(Harness),
}

#[derive(Args)]
struct Harness {
    /// What ends in about a minute
    #[arg(long)]
    quick: bool,
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Only what needs mounts of its own
    #[arg(long, hide = true)]
    kernel_alone: Option<String>,
}

#[derive(Args)]
struct Load {
    /// What is done
    kind: Kind,
    /// A directory, or a device
    path: PathBuf,
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Steps on files
    #[arg(long, default_value_t = 100)]
    steps: u64,
    /// Bytes of the device
    #[arg(long, default_value_t = 1 << 20)]
    bytes: u64,
    /// Writes to the device
    #[arg(long, default_value_t = 100)]
    writes: u64,
    /// Say EVENT after so many steps or writes
    #[arg(long)]
    event_at: Option<u64>,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Kind {
    TreeWrite,
    TreeVerify,
    RawWrite,
    RawVerify,
    RawZero,
}

fn main() -> ExitCode {
    let it = It::parse();
    let result = match it {
        It { tool: Some(Tool::Load(load)), .. } => run_load(&load).map(|()| true),
        It { tool: Some(Tool::Harness(harness)), .. } => run_harness(&harness),
        It { list: true, .. } => {
            SCENARIOS.iter().for_each(|scenario| println!("{:<14} {}", scenario.name, scenario.what));
            Ok(true)
        }
        It { guest: true, .. } => run_guests(it),
        _ => Err("say --guest, --list, load or harness; --help tells more".to_string()),
    };
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(message) => {
            eprintln!("it: {message}");
            ExitCode::from(2)
        }
    }
}

fn run_guests(it: It) -> Result<bool, String> {
    let own = std::env::current_exe().map_err(|error| error.to_string())?;
    let profile = own.parent().ok_or("this program lies in no folder")?;
    let esker = match it.esker {
        Some(path) => path,
        None => build(profile)?,
    };
    let cache = it.cache.unwrap_or_else(|| profile.join("../guest"));
    std::fs::create_dir_all(&cache).map_err(|error| format!("{}: {error}", cache.display()))?;
    let cache = cache.canonicalize().map_err(|error| format!("{}: {error}", cache.display()))?;
    guest::run(&guest::Options { only: it.only, esker, load: own, cache })
}

/// Builds the program under test beside this one.
fn build(profile: &Path) -> Result<PathBuf, String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(["build", "--package", "esker-cli", "--bin", "esker"]);
    if !cfg!(debug_assertions) {
        command.arg("--release");
    }
    let status = command.current_dir(env!("CARGO_MANIFEST_DIR")).status();
    match status {
        Ok(status) if status.success() => Ok(profile.join("esker")),
        Ok(status) => Err(format!("building esker ended with {status}")),
        Err(error) => Err(format!("cargo cannot be run ({error}); name the program with --esker PATH")),
    }
}

fn run_harness(args: &Harness) -> Result<bool, String> {
    let options = HarnessOptions { quick: args.quick, seed: args.seed };
    if let Some(name) = &args.kernel_alone {
        let system = System::named(name).ok_or_else(|| format!("`{name}` is no file system of the kernel"))?;
        harness::on_kernel(system, options)?.into_iter().for_each(|figure| println!("{}", harness::line(figure)));
        return Ok(true);
    }
    harness::judged(options).into_iter().for_each(|figure| println!("{}", harness::line(figure)));
    let own = std::env::current_exe().map_err(|error| error.to_string())?;
    for system in System::DURABLE {
        match harness::of_kernel(system, &own, options) {
            Ok(lines) => print!("{lines}"),
            Err(why) => println!("ABSENT no figure of {}: {why}", system.name()),
        }
    }
    Ok(true)
}

fn run_load(args: &Load) -> Result<(), String> {
    let path = args.path.to_str().ok_or("the path is no text")?;
    let mut event = |done| {
        if args.event_at == Some(done) {
            println!("EVENT loaded");
        }
    };
    let Load { seed, steps, bytes, writes, .. } = *args;
    let checked = match args.kind {
        Kind::TreeWrite => return load::tree::write(&args.path, seed, steps, &mut event),
        Kind::RawWrite => return load::raw::write(path, seed, bytes, writes, &mut event),
        Kind::TreeVerify => format!("{} bytes", load::tree::verify(&args.path, seed, steps)?),
        Kind::RawVerify => format!("{} blocks", load::raw::verify(path, seed, bytes, writes)?),
        Kind::RawZero => format!("{} blocks", load::raw::check_zero(path, bytes)?),
    };
    println!("NOTE {checked}");
    Ok(())
}
