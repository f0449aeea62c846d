//! `cargo xtask soak`: the kill tests of served stacks, as often and over whichever stack is wanted, and fuzzing at
//! length.

mod fuzz;

use std::path::PathBuf;

use crate::{cargo, peers};

const USAGE: &str = "usage: cargo xtask soak kill [--times N] [--seed N] [--stack FILE [--pulled FILE]], or cargo xtask soak mirrored|cached|layers|named|mount|stacks|volume|programs [--times N], or cargo xtask soak files [--seed N], or cargo xtask soak fs-crash|lfs-crash|cache-crash [--times N] [--seed N], or cargo xtask soak movers [--minutes N | --times N] [--seed N], or cargo xtask soak fuzz [TARGET...]";

struct Soak {
    word: &'static str,
    /// Where its test lies, for cargo, and its name.
    place: &'static [&'static str],
    test: &'static str,
    /// How often it is done where the command line does not say.
    times: &'static str,
    /// What it sets, beside what the command line says; paths from the project's root on.
    settings: &'static [(&'static str, &'static str)],
}

/// The soak that can be told minutes, and serves with `esker serve`.
const TIMED: &str = "movers";

const KILLS: Soak = Soak {
    word: "kill",
    place: &["-p", "esker-cli", "--test", "serving"],
    test: "killed::what_was_flushed_survives_kills_and_stale_sockets_are_replaced",
    times: "200",
    settings: &[],
};

static SOAKS: [Soak; 14] = [
    KILLS,
    Soak {
        word: "stacks",
        test: "stacks::stacks_of_all_layers_keep_what_they_promised_under_faults_kills_and_changes",
        // Every ordered pair of layers.
        times: "484",
        ..KILLS
    },
    Soak {
        word: "named",
        test: "killed::what_was_flushed_to_a_named_volume_survives_kills_and_so_do_snapshots",
        ..KILLS
    },
    Soak {
        word: "mount",
        place: &["-p", "esker-cli", "--test", "mounting"],
        test: "killed::what_was_synchronised_on_an_lfs_survives_kills_of_its_server",
        ..KILLS
    },
    Soak {
        word: "mirrored",
        settings: &[
            ("ESKER_KILL_STACK", "crates/it/soak/mirrored.stack"),
            ("ESKER_KILL_PULLED", "crates/it/soak/pulled.stack"),
        ],
        ..KILLS
    },
    Soak {
        word: TIMED,
        place: &["-p", "esker-it", "--test", "it"],
        test: "movers::no_flushed_write_is_lost_by_kills_while_extents_move",
        ..KILLS
    },
    Soak { word: "cached", settings: &[("ESKER_KILL_STACK", "crates/it/soak/cached.stack")], ..KILLS },
    Soak {
        word: "layers",
        place: &["-p", "esker-it", "--test", "it"],
        test: "kill_nine::no_flushed_write_is_lost_by_kills_while_a_member_is_pulled_and_comes_back",
        ..KILLS
    },
    Soak {
        word: "files",
        place: &["-p", "esker-it", "--test", "it"],
        test: "differential::ram_answers_as_the_kernel_does_for_a_long_time",
        ..KILLS
    },
    Soak {
        word: "fs-crash",
        place: &["-p", "esker-testkit", "--lib"],
        test: "files::tests::sound_file_systems_keep_their_promises_for_a_long_time",
        times: "1000000",
        ..KILLS
    },
    Soak {
        word: "lfs-crash",
        place: &["-p", "esker-fs-lfs", "--lib"],
        test: "tests::crashes::no_crash_loses_anything_for_a_long_time",
        times: "1000000",
        ..KILLS
    },
    Soak {
        word: "cache-crash",
        place: &["-p", "esker-layer-cache", "--lib"],
        test: "tests::power::no_crash_loses_anything_for_a_long_time",
        times: "1000000",
        ..KILLS
    },
    Soak {
        word: "volume",
        place: &["-p", "esker-layer-logvol", "--lib"],
        test: "tests::collect::stress::nothing_is_lost_in_a_long_time",
        ..KILLS
    },
    Soak {
        word: "programs",
        place: &["-p", "esker-lab", "--lib"],
        test: "artc_programs_suite::tests::every_program_comes_out_as_recorded",
        ..KILLS
    },
];

/// A key for the stacks that need one: what is soaked is no secret.
const KEY: (&str, &str) = (
    "ESKER_SOAK_KEY",
    "8b0e7153bf7c3706d85c524e440066559a6656c90bd5482a90a29b9fa5ff5180\
     bc0dbc0e15637ebb8e3b91d26ab4a829a95249f512c17b8ed411fa644d35db41",
);

/// `cargo xtask soak kill [--times N] [--seed N] [--stack FILE [--pulled FILE]]`. The file holds a stack text, in which
/// DIR stands for a new empty folder; its first export is loaded. The second file holds the same stack without a part
/// of it, which is served now and then instead: a mirror with one member, say.
///
/// `cargo xtask soak mirrored [--times N]`: the same over mirror, verify and crypt on two files, one of which is pulled
/// and comes back. `cargo xtask soak layers [--times N]`: the like in one process less, with more pulls and the halves
/// compared. `cargo xtask soak named [--times N]`: a named volume, of which snapshots are made meanwhile.
///
/// `cargo xtask soak cached [--times N]`: a cache that fills, gives up and writes home under the load.
///
/// `cargo xtask soak movers [--minutes N | --times N] [--seed N]`: a tier whose extents move under the load, by
/// plans and by orders. It prints kills, moves and checks; it fails if extents hardly moved.
///
/// `cargo xtask soak mount [--times N] [--seed N]`: the server of a mounted `lfs`, in all cache modes, with its cleaner
/// at work and snapshots made meanwhile. Each kill is followed by a check of the medium and of each snapshot.
///
/// `cargo xtask soak stacks [--times N] [--seed N]`: every ordered pair of layers on files, and triples beyond 484,
/// with faults, kills, stops and live changes; it prints stacks tried, requests, restarts, wrong blocks and hangs.
///
/// `cargo xtask soak volume [--times N] [--seed N]`: volumes under load and forced collection in virtual time, killed a
/// hundred times in each round; some ten minutes.
///
/// `cargo xtask soak files [--seed N]`: 10^6 random calls on each of ext4, XFS, btrfs and tmpfs, and the same on `Ram`.
///
/// `cargo xtask soak fs-crash [--times N] [--seed N]`: the harness's own file systems. Every script of one step,
/// faults, changed bits, and 1,000 cycles of filling. Then drawn scripts of two and three steps, until N states
/// (1,000,000) of power cuts were tried on each.
///
/// `cargo xtask soak lfs-crash [--times N] [--seed N]`: N states of `lfs` by such scripts, a quarter of them beside a
/// cleaner.
///
/// `cargo xtask soak cache-crash [--times N] [--seed N]`: N states of a cache with few slots, in each mode and with
/// each mode behind the crash.
///
/// `cargo xtask soak programs`: all programs of `data/behaviour` are recorded and replayed in two modes; some minutes.
///
/// `cargo xtask soak fuzz`: see [`fuzz::main`].
pub fn main(args: &[String]) -> Result<bool, String> {
    let (word, rest) = args.split_first().ok_or(USAGE)?;
    if word == "fuzz" {
        return fuzz::main(rest);
    }
    let soak = SOAKS.iter().find(|soak| soak.word == word).ok_or(USAGE)?;
    let settings = settings(soak, rest)?;
    let own = soak.settings.iter().map(|(name, path)| (name, crate::root().join(path)));
    if !peers::main(&[])? {
        return Ok(false);
    }
    let mut command = cargo::cargo(&crate::root());
    command.args(["test", "--release"]).args(soak.place).args([
        "--",
        "--exact",
        soak.test,
        "--nocapture",
        "--include-ignored",
    ]);
    command.envs(own).envs([KEY]).envs(settings);
    if soak.word == TIMED {
        command.env("ESKER_IT_PROGRAM", program()?);
    }
    Ok(cargo::status(&mut command)?.success())
}

/// Builds `esker`, for a test that has no program of its own to serve with.
fn program() -> Result<PathBuf, String> {
    let mut command = cargo::cargo(&crate::root());
    let status = cargo::status(command.args(["build", "--release", "-p", "esker-cli", "--bin", "esker"]))?;
    let own = std::env::current_exe().map_err(|error| format!("this program lies nowhere: {error}"))?;
    // This program lies beside the folder of the release profile.
    let target = own.ancestors().nth(2).ok_or("this program lies in no target folder")?;
    if status.success() { Ok(target.join("release/esker")) } else { Err(format!("building esker ended with {status}")) }
}

/// The variables that the test reads.
fn settings(soak: &Soak, args: &[String]) -> Result<Vec<(&'static str, String)>, String> {
    let Soak { word, times, .. } = *soak;
    let mut settings = vec![("ESKER_KILL_TIMES", times.to_string())];
    for pair in args.chunks(2) {
        let [flag, value] = pair else { return Err(USAGE.into()) };
        let number = || value.parse::<u64>().map(|n| n.to_string()).map_err(|_| format!("{flag} {value}: no number"));
        settings.push(match flag.as_str() {
            "--times" => ("ESKER_KILL_TIMES", number()?),
            "--minutes" if word == TIMED => ("ESKER_KILL_MINUTES", number()?),
            "--seed" => ("ESKER_KILL_SEED", number()?),
            "--stack" => ("ESKER_KILL_STACK", whole(value)?),
            "--pulled" => ("ESKER_KILL_PULLED", whole(value)?),
            _ => return Err(USAGE.into()),
        });
    }
    Ok(settings)
}

/// The path from the root on: the test runs elsewhere.
fn whole(path: &str) -> Result<String, String> {
    let whole = std::path::Path::new(path).canonicalize().map_err(|error| format!("{path}: {error}"))?;
    Ok(whole.display().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(args: &[&str]) -> Result<Vec<(&'static str, String)>, String> {
        settings(&KILLS, &args.iter().map(ToString::to_string).collect::<Vec<_>>())
    }

    #[test]
    fn the_last_setting_counts_and_mistakes_are_named() {
        let times = |value: &str| ("ESKER_KILL_TIMES", value.to_string());
        assert_eq!(set(&[]), Ok(vec![times("200")]));
        assert_eq!(set(&["--times", "7"]), Ok(vec![times("200"), times("7")]), "later ones replace earlier ones");
        assert_eq!(set(&["--seed", "x"]), Err("--seed x: no number".into()));
        assert!(set(&["--stack", "no such file"]).is_err_and(|e| e.contains("no such file")));
        for wrong in [&["--times"][..], &["--what", "1"], &["--minutes", "1"]] {
            assert_eq!(set(wrong), Err(USAGE.into()));
        }
    }
}
