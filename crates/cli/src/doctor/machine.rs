//! The machine that is examined: this one, or a tree of files that a test has made.

use std::fs;
use std::io;
use std::path::PathBuf;

use esker_hugepage_linux::linux::doctor as hugepages;
use esker_rt::real::{Backend, Reactor, RealConfig, StartError};
use rustix::fs::Access;

use super::finding::{Finding, Subject};

/// Where a machine's files are, and how it is tried.
pub struct Machine {
    /// `/`, or the root of a tree.
    pub root: PathBuf,
    /// Folders of programs.
    pub folders: Vec<PathBuf>,
    /// What no file tells.
    pub probes: Probes,
}

/// Trials on this process itself.
pub struct Probes {
    /// Makes a ring of the kernel. Says whether it takes commands to files.
    pub ring: fn() -> io::Result<bool>,
    /// Starts the programs in the kernel that record system calls, and ends them.
    pub recorder: fn() -> Result<(), String>,
    /// Tries what a manager of huge pages needs.
    pub huge_pages: fn() -> Vec<hugepages::Finding>,
}

/// A right of `linux/capability.h`, by its number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Capability {
    /// To lock any amount of memory.
    IpcLock = 14,
    /// To trace processes of others.
    SysPtrace = 19,
    /// To mount, and to set devices up.
    SysAdmin = 21,
}

impl Capability {
    fn name(self) -> &'static str {
        match self {
            Capability::IpcLock => "CAP_IPC_LOCK",
            Capability::SysPtrace => "CAP_SYS_PTRACE",
            Capability::SysAdmin => "CAP_SYS_ADMIN",
        }
    }
}

/// What the kernel says of this process; hidden in some containers.
const STATUS: &str = "proc/self/status";
/// The name space of users that the machine began with.
const FIRST_USERS: &str = "user:[4026531837]";
/// Administrators' programs lie where a user's PATH does not look.
const ADMIN_FOLDERS: [&str; 2] = ["/usr/sbin", "/sbin"];

impl Machine {
    /// This machine.
    pub fn here() -> Machine {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let folders = std::env::split_paths(&path).chain(ADMIN_FOLDERS.map(PathBuf::from)).collect();
        let recorder = || esker_trace_record::try_kernel().map_err(|error| error.to_string());
        Machine { root: "/".into(), folders, probes: Probes { ring, recorder, huge_pages: hugepages::examine } }
    }

    /// Where a file is, named without the leading `/`.
    pub fn path(&self, file: &str) -> PathBuf {
        self.root.join(file)
    }

    /// The text of a file without blanks around it; `None` if it cannot be read.
    pub fn text(&self, file: &str) -> Option<String> {
        Some(fs::read_to_string(self.path(file)).ok()?.trim().to_string())
    }

    /// Whether a file or folder is there.
    pub fn has(&self, file: &str) -> bool {
        self.path(file).exists()
    }

    /// Whether one of the folders of programs has an executable file of this name.
    pub fn has_program(&self, name: &str) -> bool {
        let is_program = |folder: &PathBuf| {
            let file = folder.join(name);
            file.is_file() && rustix::fs::access(&file, Access::EXEC_OK).is_ok()
        };
        self.folders.iter().any(is_program)
    }

    /// The names in a folder, in order; none if it is not there.
    pub fn names(&self, folder: &str) -> Vec<String> {
        let entries = fs::read_dir(self.path(folder)).into_iter().flatten().flatten();
        let mut names: Vec<String> = entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
        names.sort_unstable();
        names
    }

    /// Whether this process acts as root, though perhaps without all rights of root.
    pub fn is_root(&self) -> bool {
        match self.text(STATUS) {
            Some(_) => self.status("Uid:").is_some_and(|ids| ids.split_whitespace().nth(1) == Some("0")),
            None => rustix::process::geteuid().is_root(),
        }
    }

    /// Whether this process has a right on the machine. Rights inside a user name space do not count.
    pub fn holds(&self, capability: Capability) -> bool {
        let space = fs::read_link(self.path("proc/self/ns/user"));
        if space.is_ok_and(|space| space.as_os_str() != FIRST_USERS) {
            return false;
        }
        match self.text(STATUS) {
            Some(_) => {
                let held = self.status("CapEff:").and_then(|bits| u64::from_str_radix(&bits, 16).ok()).unwrap_or(0);
                held & 1 << capability as u32 != 0
            }
            None => self.is_root(),
        }
    }

    /// A line of what the kernel says of this process.
    pub fn status(&self, name: &str) -> Option<String> {
        let status = self.text(STATUS)?;
        status.lines().find_map(|line| Some(line.strip_prefix(name)?.trim().to_string()))
    }

    /// The finding of a right that this process lacks. A user can become root; the root of a container gets no more.
    pub fn lacks_right(&self, subject: &Subject, capability: Capability) -> Option<Finding> {
        let name = capability.name();
        match (self.holds(capability), self.is_root()) {
            (true, _) => None,
            (false, true) => {
                let advice = format!("start the container with {name} (--cap-add {name})");
                Some(subject.missing(format!("root has no {name} here"), advice))
            }
            (false, false) => Some(subject.note(format!("takes root ({name})"), "run the verb as root")),
        }
    }

    /// The finding of a device that this process may not use; `for_users` is what helps a user. Opening a device could
    /// load its module, so the kernel is asked for the permission alone.
    pub fn lacks_device(&self, subject: &Subject, file: &str, module: &str, for_users: &str) -> Option<Finding> {
        let found = self.permits(file).err()?;
        let container = format!("in a container, pass the device on (--device /{file})");
        Some(match (found.kind() == io::ErrorKind::NotFound, self.is_root()) {
            (true, _) => {
                let advice = format!("load its module (modprobe {module}, as root); {container}");
                subject.missing(format!("/{file} is not there"), advice)
            }
            (false, true) => subject.missing(format!("/{file} may not be used: {found}"), container),
            (false, false) => subject.note(format!("/{file} is not for this user: {found}"), for_users),
        })
    }

    fn permits(&self, file: &str) -> io::Result<()> {
        Ok(rustix::fs::access(self.path(file), Access::READ_OK | Access::WRITE_OK)?)
    }
}

/// Makes a ring as servers do.
fn ring() -> io::Result<bool> {
    let config = RealConfig { backend: Backend::Uring, commands: true, ..RealConfig::seeded(1) };
    match Reactor::new(config) {
        Ok(reactor) => Ok(reactor.rt().kernel().is_ok_and(|kernel| kernel.takes_commands())),
        Err(StartError::Uring(error) | StartError::Bell(error) | StartError::Owner(error)) => Err(error),
    }
}

#[cfg(test)]
pub mod testing {
    //! Machines that are trees of files.

    use std::ops::{Deref, DerefMut};

    use super::*;

    /// A machine of which only these files exist, with a root that has all rights. Trials on it succeed.
    pub struct Made {
        machine: Machine,
        folder: tempfile::TempDir,
    }

    /// The status of a process of root.
    const ROOT: &str = "Uid:\t0\t0\t0\t0\nCapEff:\t000001ffffffffff\nCpus_allowed:\t3\n";
    /// The status of a process of a user.
    const USER: &str = "Uid:\t1000\t1000\t1000\t1000\nCapEff:\t0000000000000000\nCpus_allowed:\t3\n";
    /// The status of the root of a container.
    const CONTAINED: &str = "Uid:\t0\t0\t0\t0\nCapEff:\t0000000000000000\nCpus_allowed:\t3\n";

    impl Deref for Made {
        type Target = Machine;

        fn deref(&self) -> &Machine {
            &self.machine
        }
    }

    impl DerefMut for Made {
        fn deref_mut(&mut self) -> &mut Machine {
            &mut self.machine
        }
    }

    impl Made {
        /// With these files and their texts.
        pub fn of(files: &[(&str, &str)]) -> Made {
            let folder = tempfile::tempdir().unwrap();
            let probes = Probes { ring: || Ok(true), recorder: || Ok(()), huge_pages: Vec::new };
            let machine = Machine { root: folder.path().into(), folders: vec![folder.path().join("bin")], probes };
            let made = Made { machine, folder };
            made.put(STATUS, ROOT);
            files.iter().for_each(|(file, text)| made.put(file, text));
            made
        }

        /// The same machine for a user without rights.
        pub fn for_user(self) -> Made {
            self.put(STATUS, USER);
            self
        }

        /// The same machine for a root without rights.
        pub fn for_contained_root(self) -> Made {
            self.put(STATUS, CONTAINED);
            self
        }

        /// Writes a file.
        pub fn put(&self, file: &str, text: &str) {
            let path = self.folder.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }

        /// Makes a link.
        pub fn link(&self, file: &str, target: &str) {
            let path = self.folder.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::os::unix::fs::symlink(target, path).unwrap();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::finding::State;
    use super::testing::Made;
    use super::*;

    const SUBJECT: Subject = Subject { check: "thing", verbs: &["attach"] };

    #[test]
    fn a_right_that_is_lacking_is_a_note_for_users_and_missing_for_the_root_of_a_container() {
        let told = |made: Made| made.lacks_right(&SUBJECT, Capability::SysAdmin).map(|found| found.state);
        assert_eq!(told(Made::of(&[])), None);
        assert_eq!(told(Made::of(&[]).for_user()), Some(State::Note));
        assert_eq!(told(Made::of(&[]).for_contained_root()), Some(State::Missing));
        let one = Made::of(&[(STATUS, "Uid:\t5\t5\t5\t5\nCapEff:\t0000000000080000\n")]);
        assert!(one.holds(Capability::SysPtrace) && !one.holds(Capability::SysAdmin) && !one.is_root());
        let made = Made::of(&[]);
        made.link("proc/self/ns/user", "user:[4026532999]");
        assert_eq!(told(made), Some(State::Missing), "a root of a user name space");
        let none = Made::of(&[(STATUS, "CapEff: what\n")]);
        assert!(!none.holds(Capability::IpcLock) && !none.is_root());
    }

    #[test]
    fn a_device_that_is_not_there_is_told_with_its_module() {
        let made = Made::of(&[("dev/there", "")]);
        assert_eq!(made.lacks_device(&SUBJECT, "dev/there", "m", "x"), None);
        let found = made.lacks_device(&SUBJECT, "dev/gone", "m", "x").unwrap();
        assert_eq!((found.state, found.found.as_str()), (State::Missing, "/dev/gone is not there"));
        assert!(found.advice.unwrap().contains("modprobe m"));
    }

    #[test]
    fn a_program_is_a_file_that_may_be_executed() {
        use std::os::unix::fs::PermissionsExt;
        let made = Made::of(&[("bin/yes", ""), ("bin/no", ""), ("bin/dir/x", "")]);
        fs::set_permissions(made.path("bin/yes"), fs::Permissions::from_mode(0o755)).unwrap();
        assert_eq!(["yes", "no", "dir", "gone"].map(|name| made.has_program(name)), [true, false, false, false]);
    }
}
