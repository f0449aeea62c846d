//! Scripts in a folder of this machine. A process of its own plays each, because rights, umask, working directory and
//! root belong to a whole process. It is this program again, with the script as its standard input.

use std::fs::{self, Permissions};
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use esker_base::Unit;
use esker_fs_host::Host;
use esker_fs_host::place::{enter, obstacle};
use esker_fs_posix::script::{Player, ScriptLine, at_once};

use crate::failure::Failure;
use crate::progress::Watcher;
use crate::terminal::Terminal;

/// Why a script was not played.
#[derive(Debug, thiserror::Error)]
enum InPlaceError {
    #[error("{dir}: no folder can be made there: {source}")]
    Folder { dir: String, source: io::Error },
    #[error("{name}:{line}: {call}: {why}")]
    Obstacle { name: String, line: usize, call: String, why: &'static str },
    #[error("the process that plays {0} cannot be started: {1}")]
    Start(String, io::Error),
    #[error("{name}: the process that plays it said: {said}")]
    Ended { name: String, said: String },
    #[error("{folder}: the folder of the script cannot be entered: {source}")]
    Enter { folder: String, source: io::Error },
    #[error("{folder}: the folder of the script cannot be removed: {source}")]
    Left { folder: String, source: io::Error },
}

/// Plays a script in a new folder of a directory, which is removed behind it. Answers a line for each call.
///
/// # Errors
/// What keeps it from being played.
pub(super) fn play(dir: &Path, name: &str, lines: &[ScriptLine], watcher: &Watcher) -> Result<Vec<String>, Failure> {
    if !rustix::process::geteuid().is_root() {
        let found = lines.iter().find_map(|line| Some((line, obstacle(&line.op)?)));
        if let Some((ScriptLine { op, number, .. }, why)) = found {
            let (name, call) = (name.to_string(), op.to_string());
            return Err(InPlaceError::Obstacle { name, line: *number, call, why }.into());
        }
    }
    let unusable = |source| InPlaceError::Folder { dir: dir.display().to_string(), source };
    fs::metadata(dir).map_err(unusable)?;
    let folder = tempfile::Builder::new().prefix("esker-play-").tempdir_in(dir).map_err(unusable)?;
    // As the root of a new file system: all users search it.
    fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).map_err(unusable)?;
    let told = in_a_process(folder.path(), name, lines, watcher);
    remove(folder)?;
    told
}

fn in_a_process(folder: &Path, name: &str, lines: &[ScriptLine], watcher: &Watcher) -> Result<Vec<String>, Failure> {
    let start = |error| InPlaceError::Start(name.to_string(), error);
    let program = std::env::current_exe().map_err(start)?;
    let mut child = Command::new(program)
        .args(["fs", "play", "-", "--inside"])
        .arg(folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(start)?;
    let text: String = lines.iter().map(|line| format!("{}\n", line.op)).collect();
    // A process that does not read it has ended, and says why.
    let _unread = child.stdin.take().map(|mut input| input.write_all(text.as_bytes()));
    let part = watcher.part(name, Unit::Of("calls"), Some(lines.len() as u64));
    let mut told = Vec::new();
    for line in child.stdout.take().into_iter().flat_map(|out| BufReader::new(out).split(b'\n')) {
        told.push(String::from_utf8_lossy(&line.map_err(start)?).into_owned());
        part.more(1);
    }
    // It says why it ends when it ends.
    let output = child.wait_with_output().map_err(start)?;
    if output.status.success() && told.len() == lines.len() {
        return Ok(told);
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let said: Vec<&str> = said.lines().map(|line| line.trim_start_matches("error: ")).collect();
    let said = if said.is_empty() { output.status.to_string() } else { said.join("\n") };
    Err(InPlaceError::Ended { name: name.to_string(), said }.into())
}

/// Is the process that plays: plays a script in a folder that is there.
///
/// # Errors
/// What keeps it from being played.
pub(super) fn inside(folder: &Path, lines: &[ScriptLine], terminal: &mut Terminal) -> Result<(), Failure> {
    let entered = enter(folder).and_then(|()| Host::at(Path::new(".")));
    let mut host = entered.map_err(|source| InPlaceError::Enter { folder: folder.display().to_string(), source })?;
    for line in lines {
        terminal.say(&at_once(host.call(&line.op)).to_string())?;
    }
    Ok(())
}

fn remove(folder: tempfile::TempDir) -> Result<(), InPlaceError> {
    let path = folder.keep();
    let left = |source| InPlaceError::Left { folder: path.display().to_string(), source };
    fs::remove_dir_all(&path)
        .or_else(|_| {
            // A script may have left directories that their owner may not search.
            unlock(&path)?;
            fs::remove_dir_all(&path)
        })
        .map_err(left)
}

/// Gives the owner of a directory, and of those below it, every right to them.
fn unlock(dir: &Path) -> io::Result<()> {
    fs::set_permissions(dir, Permissions::from_mode(0o700))?;
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            unlock(&entry.path())?;
        }
    }
    Ok(())
}
