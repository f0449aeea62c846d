//! Settings of the kernel that experiments change.

use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};

use esker_hugepage_linux::linux::knobs::{KnobError, Knobs};

use esker_lab_kit::{Lab, LabError, peer};

/// When a virtual machine gives free memory back to its host: what has been free for so long, in milliseconds, and
/// what is more than so much, in MiB. Not all kernels that report free pages have these. Here: the longest, and more
/// than any machine has.
const FREE_BEFORE: [(&str, &str); 2] = [
    ("/sys/module/page_reporting/parameters/min_free_ms", "60000"),
    ("/sys/module/page_reporting/parameters/max_waiting_mib", "1048576"),
];

/// Has the kernel keep memory that is free for a moment, where it can be told to. Memory that its host takes back costs
/// 3 to 6 ms for each huge page that is made in it afterwards. That is the host's, by whatever makes them, and not what
/// is measured.
///
/// # Errors
/// As [`Settings::take`].
pub(crate) fn keep_memory(lab: &Lab<'_>) -> Result<Option<Settings>, LabError> {
    let settings = FREE_BEFORE.map(|(path, value)| (Path::new(path), value));
    let there: Vec<_> = settings.into_iter().filter(|(path, _)| path.exists()).collect();
    (!there.is_empty()).then(|| Settings::take(lab.scratch, "esker-lab-memory.json", &there)).transpose()
}

/// What a guard does: nothing until the other end of its input is gone, with the process that held it, and then only if
/// settings are left to be put back. It waits until the lock of the dead is gone too.
const GUARD: &str = r#"trap "" INT TERM HUP; cat > /dev/null
[ ! -e "$1" ] || { sleep 0.2; exec "$0" hugepage restore --state "$1"; }"#;

/// Settings that an experiment changes, put back when dropped, and by a guard if this program is killed; those that
/// one that was killed has left behind, at once.
pub(crate) struct Settings {
    knobs: Knobs,
    guard: Child,
    alive: Option<ChildStdin>,
}

impl Settings {
    /// Puts these in force, with a state file of this name in a folder.
    ///
    /// # Errors
    /// The kernel's; if another experiment has the state.
    pub(crate) fn take(parent: &Path, name: &str, settings: &[(&Path, &str)]) -> Result<Settings, LabError> {
        let mut taken = Settings::begin(parent, name)?;
        for (path, value) in settings {
            taken.knobs.set(path, value).map_err(refused)?;
        }
        Ok(taken)
    }

    /// Puts one in force that can be put back only after another one, `first`, has this value.
    ///
    /// # Errors
    /// As [`Settings::take`].
    pub(crate) fn take_after(
        parent: &Path,
        name: &str,
        path: &Path,
        value: &str,
        first: (PathBuf, String),
    ) -> Result<Settings, LabError> {
        let mut taken = Settings::begin(parent, name)?;
        taken.knobs.set_after(path, value, Some(first)).map_err(refused)?;
        Ok(taken)
    }

    fn begin(parent: &Path, name: &str) -> Result<Settings, LabError> {
        let failed = |error: std::io::Error| peer::fault("the guard of settings", error);
        let state = parent.join(name);
        let (knobs, _) = Knobs::open(&state).map_err(refused)?;
        let mut command = Command::new("sh");
        command.args(["-c", GUARD]).arg(std::env::current_exe().map_err(failed)?).arg(state);
        let mut guard = command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().map_err(failed)?;
        let alive = guard.stdin.take();
        Ok(Settings { knobs, guard, alive })
    }
}

fn refused(error: KnobError) -> LabError {
    peer::fault("the settings of huge pages", error)
}

impl Drop for Settings {
    fn drop(&mut self) {
        // Before the guard looks, so that it finds nothing to do.
        drop(self.knobs.restore());
        drop(self.alive.take());
        // No process waits for its end.
        drop(self.guard.wait());
    }
}
