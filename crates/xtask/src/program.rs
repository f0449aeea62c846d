//! Running another program to its end: bounded in time, output kept in a file, nothing left behind.

use std::fs::File;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// How a bounded run ended.
#[derive(Debug, PartialEq, Eq)]
pub enum End {
    Success,
    Failure(ExitStatus),
    /// It and its children were killed after the limit.
    TimedOut,
}

/// Runs `command` with both outputs going to `log`, and kills its process group after `limit`.
pub fn run_logged(command: &mut Command, log: &Path, limit: Duration) -> Result<End, String> {
    let open = || File::create(log).and_then(|file| Ok((file.try_clone()?, file)));
    let (out, err) = open().map_err(|error| format!("cannot write {}: {error}", log.display()))?;
    let name = command.get_program().to_string_lossy().into_owned();
    command.stdin(Stdio::null()).stdout(out).stderr(err).process_group(0);
    let mut child = command.spawn().map_err(|error| format!("cannot run {name}: {error}; install it"))?;
    let deadline = Instant::now() + limit;
    loop {
        match child.try_wait().map_err(|error| format!("cannot wait for {name}: {error}"))? {
            Some(status) if status.success() => return Ok(End::Success),
            Some(status) => return Ok(End::Failure(status)),
            None if Instant::now() < deadline => std::thread::sleep(Duration::from_millis(20)),
            None => {
                let group = format!("-{}", child.id());
                Command::new("kill").args(["-KILL", "--", &group]).status().map_err(|error| error.to_string())?;
                child.wait().map_err(|error| error.to_string())?;
                return Ok(End::TimedOut);
            }
        }
    }
}

/// Whether an executable of this name lies in a folder of `PATH`, or a file at this absolute path.
pub fn is_installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    // Administrators' programs lie where a user's PATH does not look.
    let folders = std::env::split_paths(&path).chain(["/usr/sbin".into(), "/sbin".into()]);
    folders.map(|folder| folder.join(program)).any(|file| file.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, limit: Duration) -> (End, String) {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("log");
        let end = run_logged(Command::new("sh").args(["-c", script]), &log, limit).unwrap();
        (end, std::fs::read_to_string(log).unwrap())
    }

    #[test]
    fn both_outputs_are_kept_and_the_status_told_apart() {
        let minute = Duration::from_secs(60);
        assert_eq!(shell("echo one; echo two >&2", minute), (End::Success, "one\ntwo\n".into()));
        assert!(matches!(shell("exit 3", minute).0, End::Failure(status) if status.code() == Some(3)));
    }

    #[test]
    fn a_hanging_program_is_killed_with_its_children() {
        let started = Instant::now();
        assert_eq!(shell("sleep 60 & wait", Duration::from_millis(50)).0, End::TimedOut);
        assert!(started.elapsed() < Duration::from_secs(30));
    }

    #[test]
    fn installed_programs_are_found() {
        assert!(is_installed("sh") && !is_installed("no-such-program-of-ours"));
    }
}
