//! Settings of the kernel that are changed for a while: each is written down before it is changed, put back on every
//! way out, and by the next start if this program was killed.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};

/// A setting that was changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Saved {
    path: PathBuf,
    was: String,
    set: String,
    /// Written before `was`, where that is not taken otherwise.
    #[serde(default)]
    first: Option<(PathBuf, String)>,
}

/// Why settings cannot be kept, or this machine cannot be managed.
#[derive(Debug, thiserror::Error)]
pub enum KnobError {
    /// Another manager has the state.
    #[error("{0}: another manager of huge pages runs with this state file; stop it, or choose another with `state`")]
    Taken(PathBuf),
    /// The state cannot be kept.
    #[error("{path}: the state cannot be kept there: {source}; choose another place with `state`")]
    State {
        /// State file.
        path: PathBuf,
        /// The kernel's words.
        source: io::Error,
    },
    /// The state is not one.
    #[error("{path}: is not the state of a manager: {source}; look at it, then remove it")]
    Damaged {
        /// State file.
        path: PathBuf,
        /// What is wrong.
        source: serde_json::Error,
    },
    /// A socket of the manager cannot be opened.
    #[error(
        "{path}: no socket for preloaded libraries can be opened there: {source}; choose another place with `sharing_socket`"
    )]
    Socket {
        /// Where.
        path: PathBuf,
        /// The kernel's words.
        source: io::Error,
    },
    /// Memory of other processes cannot be managed.
    #[error("huge pages of other processes cannot be managed: {0}; `esker hugepage doctor` says what else works here")]
    Rights(String),
    /// Settings were put back for good.
    #[error("{0}: stays as it is: all settings were put back, because this manager ends")]
    Ended(PathBuf),
    /// A setting cannot be changed.
    #[error("{path}: cannot be set to {value:?}: {source}")]
    Refused {
        /// Setting.
        path: PathBuf,
        /// What it should be.
        value: String,
        /// The kernel's words.
        source: io::Error,
    },
}

/// What was put back, or not, for a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Restored {
    /// Setting.
    pub path: PathBuf,
    /// What it was before, and is again if `done`.
    pub was: String,
    /// Whether it is so again. A change by another program is not undone.
    pub done: bool,
}

impl Restored {
    /// It in a sentence.
    pub fn line(&self) -> String {
        let (path, was) = (self.path.display(), &self.was);
        match self.done {
            true => format!("{path} is {was:?} again"),
            false => format!("{path} was {was:?} and is left as another program has set it"),
        }
    }
}

/// The settings.
#[derive(Debug)]
pub struct Knobs {
    changes: Changes,
    /// Held for as long as this lives.
    _lock: File,
}

/// What was changed, for the thread of the manager and for [`PutBack`]. A thread holds the lock while it changes a
/// setting.
type Changes = Arc<Mutex<Changed>>;

#[derive(Debug)]
struct Changed {
    state: PathBuf,
    saved: Vec<Saved>,
    /// Whether they were put back for good.
    has_ended: bool,
}

/// Puts all settings back from another thread, while that of the manager is busy or waits.
#[derive(Clone, Debug)]
pub struct PutBack(Changes);

impl PutBack {
    /// Puts everything back, last change first. The manager changes no setting after it.
    pub fn for_good(&self) -> Vec<Restored> {
        let mut changed = locked(&self.0);
        changed.has_ended = true;
        changed.restore()
    }
}

/// A panic between two changes leaves the list whole.
fn locked(changes: &Changes) -> MutexGuard<'_, Changed> {
    changes.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Knobs {
    /// Takes the state file, and puts back what a killed predecessor has left changed.
    ///
    /// # Errors
    /// [`KnobError`].
    pub fn open(state: &Path) -> Result<(Knobs, Vec<Restored>), KnobError> {
        let failed = |source| KnobError::State { path: state.to_path_buf(), source };
        if let Some(folder) = state.parent() {
            fs::create_dir_all(folder).map_err(failed)?;
        }
        let lock = File::create(state.with_extension("lock")).map_err(failed)?;
        match lock.try_lock() {
            Err(fs::TryLockError::WouldBlock) => return Err(KnobError::Taken(state.to_path_buf())),
            Err(fs::TryLockError::Error(source)) => return Err(failed(source)),
            Ok(()) => {}
        }
        let saved = match fs::read_to_string(state) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(source) => return Err(failed(source)),
            Ok(text) => serde_json::from_str(&text)
                .map_err(|source| KnobError::Damaged { path: state.to_path_buf(), source })?,
        };
        let changed = Changed { state: state.to_path_buf(), saved, has_ended: false };
        let mut knobs = Knobs { changes: Arc::new(Mutex::new(changed)), _lock: lock };
        let restored = knobs.restore();
        Ok((knobs, restored))
    }

    /// What puts the settings back where this cannot.
    pub fn put_back(&self) -> PutBack {
        PutBack(self.changes.clone())
    }

    /// Sets a setting. What it was before the first change is what it will be again.
    ///
    /// # Errors
    /// [`KnobError`]; then the setting is as it was.
    pub fn set(&mut self, path: &Path, value: &str) -> Result<(), KnobError> {
        self.set_after(path, value, None)
    }

    /// The same for a setting that is put back only after `first` was written.
    ///
    /// # Errors
    /// As for [`Knobs::set`].
    pub fn set_after(&mut self, path: &Path, value: &str, first: Option<(PathBuf, String)>) -> Result<(), KnobError> {
        locked(&self.changes).set_after(path, value, first)
    }

    /// Puts everything back, last change first, and forgets it.
    pub fn restore(&mut self) -> Vec<Restored> {
        locked(&self.changes).restore()
    }
}

impl Changed {
    fn set_after(&mut self, path: &Path, value: &str, first: Option<(PathBuf, String)>) -> Result<(), KnobError> {
        if self.has_ended {
            return Err(KnobError::Ended(path.to_path_buf()));
        }
        let refused = |source| KnobError::Refused { path: path.to_path_buf(), value: value.to_string(), source };
        let now = read(path).map_err(refused)?;
        let before = self.saved.clone();
        match self.saved.iter_mut().find(|saved| saved.path == path) {
            Some(saved) => saved.set = value.to_string(),
            None if now == value => return Ok(()),
            None => self.saved.push(Saved { path: path.to_path_buf(), was: now, set: value.to_string(), first }),
        }
        self.write_down()?;
        if let Err(source) = fs::write(path, value) {
            self.saved = before;
            self.write_down()?;
            return Err(refused(source));
        }
        Ok(())
    }

    fn restore(&mut self) -> Vec<Restored> {
        let put_back = |saved: Saved| {
            let is_ours = read(&saved.path).is_ok_and(|now| now == saved.set);
            if let Some((path, value)) = saved.first.filter(|_| is_ours) {
                // It may be so already; what counts is what comes after it.
                drop(fs::write(path, value));
            }
            let done = is_ours && fs::write(&saved.path, &saved.was).is_ok();
            Restored { path: saved.path, was: saved.was, done }
        };
        let restored = self.saved.drain(..).rev().map(put_back).collect();
        // A state that stays behind says again what is so already.
        drop(fs::remove_file(&self.state));
        restored
    }

    /// Whole or not at all, and durable before the setting is changed.
    fn write_down(&self) -> Result<(), KnobError> {
        let write = || {
            let part = self.state.with_extension("part");
            let mut file = File::create(&part)?;
            file.write_all(&serde_json::to_vec_pretty(&self.saved)?)?;
            file.sync_all()?;
            fs::rename(&part, &self.state)
        };
        write().map_err(|source| KnobError::State { path: self.state.clone(), source })
    }
}

impl Drop for Knobs {
    fn drop(&mut self) {
        drop(self.restore());
    }
}

/// The value of a setting; of a choice such as `always [madvise] never` the chosen word.
pub fn read(path: &Path) -> io::Result<String> {
    let text = fs::read_to_string(path)?;
    let chosen = text.split_once('[').and_then(|(_, rest)| rest.split_once(']')).map(|(word, _)| word);
    Ok(chosen.unwrap_or(text.trim_end()).to_string())
}

/// The number behind a name, in lines of both as `memory.stat` and `ksm_stat` have them.
pub fn number<T: FromStr>(lines: &str, name: &str) -> Option<T> {
    lines.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Place {
        folder: tempfile::TempDir,
    }

    impl Place {
        fn new() -> Place {
            let place = Place { folder: tempfile::tempdir().unwrap() };
            place.put("always [madvise] never\n");
            place
        }

        fn knob(&self) -> PathBuf {
            self.folder.path().join("enabled")
        }

        fn put(&self, text: &str) {
            fs::write(self.knob(), text).unwrap();
        }

        fn open(&self) -> Result<(Knobs, Vec<Restored>), KnobError> {
            Knobs::open(&self.folder.path().join("run/state.json"))
        }
    }

    #[test]
    fn what_was_changed_is_put_back_when_the_manager_goes() {
        let place = Place::new();
        let (mut knobs, restored) = place.open().unwrap();
        assert_eq!(restored, []);
        knobs.set(&place.knob(), "never").unwrap();
        knobs.set(&place.knob(), "always").unwrap();
        assert_eq!(read(&place.knob()).unwrap(), "always");
        drop(knobs);
        assert_eq!(read(&place.knob()).unwrap(), "madvise");
        assert!(!place.folder.path().join("run/state.json").exists());
    }

    #[test]
    fn the_next_start_puts_back_what_a_killed_one_left() {
        let place = Place::new();
        let (mut knobs, _) = place.open().unwrap();
        knobs.set(&place.knob(), "never").unwrap();
        let state = fs::read(place.folder.path().join("run/state.json")).unwrap();
        drop(knobs);
        // As after a kill between writing down and setting, and after one later.
        for now in ["madvise", "never"] {
            place.put(now);
            fs::write(place.folder.path().join("run/state.json"), &state).unwrap();
            let (knobs, restored) = place.open().unwrap();
            assert_eq!((restored.len(), restored[0].done), (1, now == "never"));
            assert_eq!(read(&place.knob()).unwrap(), "madvise");
            drop(knobs);
        }
    }

    #[test]
    fn what_somebody_else_has_changed_since_stays() {
        let place = Place::new();
        let (mut knobs, _) = place.open().unwrap();
        knobs.set(&place.knob(), "never").unwrap();
        place.put("always");
        assert!(!knobs.restore()[0].done);
        assert_eq!(read(&place.knob()).unwrap(), "always");
    }

    #[test]
    fn another_thread_puts_back_for_good() {
        let place = Place::new();
        let (mut knobs, _) = place.open().unwrap();
        knobs.set(&place.knob(), "never").unwrap();
        let put_back = knobs.put_back();
        let restored = std::thread::spawn(move || put_back.for_good()).join().unwrap();
        assert_eq!((restored.len(), restored[0].done), (1, true));
        assert!(matches!(knobs.set(&place.knob(), "always"), Err(KnobError::Ended(_))));
        assert_eq!(read(&place.knob()).unwrap(), "madvise");
        assert!(!place.folder.path().join("run/state.json").exists());
    }

    #[test]
    fn a_second_manager_is_refused_and_a_setting_that_is_not_there_named() {
        let place = Place::new();
        let (mut knobs, _) = place.open().unwrap();
        assert!(matches!(place.open(), Err(KnobError::Taken(_))));
        let error = knobs.set(&place.folder.path().join("nothing"), "1").unwrap_err();
        assert!(error.to_string().contains("nothing"), "{error}");
        fs::write(place.folder.path().join("run/state.json"), "{").unwrap();
        drop(knobs);
    }
}
