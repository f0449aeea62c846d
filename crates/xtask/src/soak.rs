//! `cargo xtask soak`: the kill tests of served stacks, as often and over whichever stack is wanted.

use std::process::Command;

use crate::peers;

const USAGE: &str =
    "usage: cargo xtask soak kill [--times N] [--seed N] [--stack FILE], or cargo xtask soak layers [--times N]";

/// The tests that are run: word, where each lies, and its name.
const TESTS: [(&str, [&str; 4], &str); 2] = [
    (
        "kill",
        ["-p", "esker-cli", "--test", "serving"],
        "killed::what_was_flushed_survives_kills_and_stale_sockets_are_replaced",
    ),
    (
        "layers",
        ["-p", "esker-it", "--test", "it"],
        "kill_nine::no_flushed_write_is_lost_by_kills_while_a_half_is_pulled_and_comes_back",
    ),
];

/// `cargo xtask soak kill [--times N] [--seed N] [--stack FILE]`. The file holds a stack text, in which DIR stands for a
/// new empty folder; its first export is loaded, and must read as zeroes at first.
///
/// `cargo xtask soak layers [--times N]`: mirror, verify and crypt over two files, one of which is pulled and comes back.
pub fn main(args: &[String]) -> Result<bool, String> {
    let (word, rest) = args.split_first().ok_or(USAGE)?;
    let (_, place, name) = TESTS.iter().find(|(known, ..)| known == word).ok_or(USAGE)?;
    let settings = settings(rest)?;
    if !peers::main(&[])? {
        return Ok(false);
    }
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(["test", "--release"]).args(place).args(["--", "--exact", name, "--nocapture"]).envs(settings);
    let status = command.current_dir(crate::root()).status();
    Ok(status.map_err(|error| format!("cannot run cargo: {error}"))?.success())
}

/// The variables that the test reads.
fn settings(args: &[String]) -> Result<Vec<(&'static str, String)>, String> {
    let mut settings = vec![("ESKER_KILL_TIMES", "200".to_string())];
    for pair in args.chunks(2) {
        let [flag, value] = pair else { return Err(USAGE.into()) };
        let number = || value.parse::<u64>().map(|n| n.to_string()).map_err(|_| format!("{flag} {value}: no number"));
        settings.push(match flag.as_str() {
            "--times" => ("ESKER_KILL_TIMES", number()?),
            "--seed" => ("ESKER_KILL_SEED", number()?),
            "--stack" => {
                let path = std::path::Path::new(value).canonicalize().map_err(|e| format!("{value}: {e}"))?;
                ("ESKER_KILL_STACK", path.display().to_string())
            }
            _ => return Err(USAGE.into()),
        });
    }
    Ok(settings)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(args: &[&str]) -> Result<Vec<(&'static str, String)>, String> {
        settings(&args.iter().map(ToString::to_string).collect::<Vec<_>>())
    }

    #[test]
    fn the_last_setting_counts_and_mistakes_are_named() {
        let times = |value: &str| ("ESKER_KILL_TIMES", value.to_string());
        assert_eq!(set(&[]), Ok(vec![times("200")]));
        assert_eq!(set(&["--times", "7"]), Ok(vec![times("200"), times("7")]), "later ones replace earlier ones");
        assert_eq!(set(&["--seed", "x"]), Err("--seed x: no number".into()));
        assert!(set(&["--stack", "no such file"]).is_err_and(|e| e.contains("no such file")));
        for wrong in [&["--times"][..], &["--what", "1"]] {
            assert_eq!(set(wrong), Err(USAGE.into()));
        }
    }
}
