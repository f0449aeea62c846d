//! `esker umount`: takes a mounted file system away, and waits until it is flushed.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;

use esker_front_fuse::{Mount, Watch, mount_at, unmount, users_of_tree};

use crate::failure::Failure;
use crate::progress::Pace;
use crate::terminal::Terminal;
use crate::verb::{About, Example, Run, Verb};

/// The record.
pub const VERB: Verb = Verb::of::<Umount>(About {
    words: &["umount"],
    summary: "Unmount a file system of Esker, and wait until it is flushed",
    details: "umount(8) returns before the process behind the mount has flushed; this waits until that process has \
              ended. It refuses while programs use files of the mount, and names them. What a process left that was \
              killed is taken away, also if programs still use it: their calls fail. It takes the user that mounted, or \
              the superuser.",
    examples: &[Example { line: "esker umount /mnt", does: "unmounts, and returns when everything is flushed" }],
});

/// After this time a line says what is waited for.
const PATIENCE: Duration = Duration::from_secs(2);
/// Looks at the end of the process.
const PAUSE: Duration = Duration::from_secs(60);

#[derive(clap::Args)]
struct Umount {
    /// Directory on which it is mounted
    #[arg(value_name = "DIR")]
    dir: PathBuf,
}

#[derive(Debug, thiserror::Error)]
enum UmountError {
    #[error("{path}: {source}")]
    Unusable { path: String, source: std::io::Error },
    #[error("{0}: nothing is mounted there")]
    Nothing(String),
    #[error("{path}: {name} ({kind}) is no file system of Esker; umount(8) takes it away")]
    Foreign { path: String, name: String, kind: String },
    #[error("{0}: holds the files of an attachment; `esker detach` takes it away")]
    Attachment(String),
    #[error("{path}: user {user} mounted it; it takes that user or the superuser")]
    Others { path: String, user: u32 },
    #[error("{path}: not unmounted, it is in use: {users}")]
    InUse { path: String, users: String },
}

impl Run for Umount {
    const PACE: Option<Pace> = Some(Pace::Waits("the end of the process behind the mount"));

    fn run(self, terminal: &mut Terminal) -> Result<(), Failure> {
        let path = self.dir.display().to_string();
        let mount = found(&self.dir, &path)?;
        let own = rustix::process::geteuid();
        match mount.user {
            Some(user) if !own.is_root() && user != own.as_raw() => Err(UmountError::Others { path, user }.into()),
            _ => leave(&mount, path, terminal),
        }
    }
}

fn found(dir: &Path, path: &str) -> Result<Mount, UmountError> {
    let at = place(dir).map_err(|source| UmountError::Unusable { path: path.to_string(), source })?;
    let mount = mount_at(&at).ok_or_else(|| UmountError::Nothing(path.to_string()))?;
    if !mount.is_ours() {
        let Mount { source: name, kind, .. } = mount;
        return Err(UmountError::Foreign { path: path.to_string(), name, kind });
    }
    if mount.is_attachment() {
        return Err(UmountError::Attachment(path.to_string()));
    }
    Ok(mount)
}

/// The absolute path of a directory whose file system may not answer any more.
fn place(dir: &Path) -> std::io::Result<PathBuf> {
    let given = std::path::absolute(dir)?;
    match (given.parent(), given.file_name()) {
        (Some(parent), Some(name)) => {
            let at = std::fs::canonicalize(parent)?.join(name);
            // A symbolic link to a mount leads there; what is a mount itself is not entered.
            if mount_at(&at).is_some() { Ok(at) } else { std::fs::canonicalize(dir) }
        }
        _ => std::fs::canonicalize(dir),
    }
}

fn leave(mount: &Mount, path: String, terminal: &mut Terminal) -> Result<(), Failure> {
    let mut watch = Watch::of(mount);
    let is_dead =
        watch.is_none() && std::fs::metadata(&mount.at).is_err_and(|error| error.kind() == ErrorKind::NotConnected);
    match unmount(&mount.at, is_dead) {
        Ok(()) => {}
        // Another program was faster.
        Err(_) if mount_at(&mount.at).is_none() => {}
        Err(error) => {
            let users = users_of_tree(&mount.at).join("; ");
            return Err(if users.is_empty() { error.into() } else { UmountError::InUse { path, users }.into() });
        }
    }
    if is_dead {
        return terminal.say(&format!("{path}: the process that served it had ended; taken away"));
    }
    let Some(watch) = &mut watch else {
        terminal.complain(&format!("{path}: unmounted, but its process cannot be seen from here and may still flush"));
        return Ok(());
    };
    if !watch.has_ended(PATIENCE) {
        let process = watch.pid.map_or_else(|| "the process".to_string(), |pid| format!("process {pid}"));
        terminal.complain(&format!("{path}: unmounted; waiting until {process} has flushed everything"));
        while !watch.has_ended(PAUSE) {}
    }
    Ok(())
}
