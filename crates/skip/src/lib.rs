//! The one way in which a test says that this machine cannot run it: [`skip`] prints the reason and records the test.
//!
//! Invariant: never linked into what serves data. A test calls [`skip`] before each return for want of an ability, so
//! that no test passes unseen. `cargo xtask test` names the file of records in the environment, counts the records
//! afterwards, and compares them with the list of tests that may be skipped.

#![forbid(unsafe_code)]
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "the name of a test is its thread's, and the file of records is shared by all test programs"
)]

use std::fmt;
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::Path;

/// Environment variable with the path of the file of records.
pub const VARIABLE: &str = "ESKER_SKIPS";

/// Defines [`Ability`], its words and the list of all of them.
macro_rules! abilities {
    ($($(#[doc = $doc:literal])+ $name:ident = $word:literal,)+) => {
        /// What a machine may lack.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
        pub enum Ability {
            $($(#[doc = $doc])+ $name,)+
        }

        impl Ability {
            /// All of them.
            pub const ALL: &[Ability] = &[$(Ability::$name,)+];

            /// Its word in records and in the list.
            pub fn word(self) -> &'static str {
                match self {
                    $(Ability::$name => $word,)+
                }
            }
        }
    };
}

abilities! {
    /// Mounts, loop devices and FUSE, which take root and the kernel's modules.
    Attach = "attach",
    /// Extended attributes in the folder of scratch files.
    Attributes = "attributes",
    /// Programs in the kernel, and the kernel's description of its types.
    Bpf = "bpf",
    /// The kernel's monitor of accesses.
    Damon = "damon",
    /// The kernel's index of fragmentation.
    FragmentationIndex = "fragmentation-index",
    /// Control groups of memory.
    Groups = "groups",
    /// Packages of Debian for a guest.
    GuestPackages = "guest-packages",
    /// Free blocks of memory as large as huge pages.
    HugeBlocks = "huge-blocks",
    /// Huge pages and the right to manage those of other processes.
    HugePages = "huge-pages",
    /// Rings of the kernel for requests.
    IoUring = "io-uring",
    /// Merging of equal pages.
    Ksm = "ksm",
    /// Network namespaces and cables between them, which take root.
    Network = "network",
    /// The kernel's flags of page frames.
    PageFlags = "page-flags",
    /// A program of another package.
    Program = "program",
    /// Tracing of other processes.
    Ptrace = "ptrace",
    /// The rights of root.
    Root = "root",
    /// The folder of real traces beside the repository.
    Traces = "traces",
}

impl Ability {
    /// The ability of this word.
    pub fn named(word: &str) -> Option<Ability> {
        Ability::ALL.iter().copied().find(|ability| ability.word() == word)
    }
}

impl fmt::Display for Ability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// Says that the calling test cannot run here, and records it. The test then returns.
///
/// # Panics
/// If the file of records is named and cannot be written: a skip that leaves no record is a pass in disguise.
pub fn skip(lacks: Ability, why: impl fmt::Display) {
    let record = Record { test: calling_test(), lacks, why: why.to_string() };
    eprintln!("SKIPPED, NOTHING WAS TESTED: {}: lacks {}: {}", record.test, record.lacks, record.why);
    if let Some(path) = std::env::var_os(VARIABLE) {
        let written = record.append(Path::new(&path));
        written.unwrap_or_else(|error| panic!("cannot record a skip in {}: {error}", Path::new(&path).display()));
    }
}

/// The kernel's switch for FUSE over io_uring.
const FUSE_RING: &str = "/sys/module/fuse/parameters/enable_uring";
/// The kernel's bar to io_uring: with 2 no process may use it.
const IO_URING: &str = "/proc/sys/kernel/io_uring_disabled";

/// Whether servers of FUSE can use io_uring here; if not, the calling test [skips](skip) that part. The superuser
/// switches it on. It stays on: other tests may use it at the same time, and a server that does not ask for it is
/// served as before.
pub fn has_fuse_ring() -> bool {
    let lacks = switch_on().err();
    if let Some(why) = &lacks {
        skip(Ability::IoUring, why);
    }
    lacks.is_none()
}

fn switch_on() -> Result<(), String> {
    if std::fs::read_to_string(IO_URING).is_ok_and(|text| text.trim() == "2") {
        return Err(format!("{IO_URING} is 2"));
    }
    let fault = |error: io::Error| format!("{FUSE_RING}: {error}");
    match std::fs::read_to_string(FUSE_RING).map_err(fault)?.trim() {
        "Y" | "1" => Ok(()),
        _ => std::fs::write(FUSE_RING, "Y").map_err(fault),
    }
}

/// Package and path of the test: libtest names a test's thread after it.
fn calling_test() -> String {
    let package = std::env::var("CARGO_PKG_NAME").unwrap_or_default();
    format!("{package} {}", std::thread::current().name().unwrap_or("unnamed"))
}

/// One skip, as a line of the file.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Record {
    /// Package, a space, and the path of the test in its test program.
    pub test: String,
    /// What the machine lacks.
    pub lacks: Ability,
    /// The reason, on one line.
    pub why: String,
}

impl Record {
    /// Appends the record by one write, because several test programs may write at once.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn append(&self, path: &Path) -> io::Result<()> {
        let why = self.why.replace(['\n', '\t'], " ");
        let line = format!("{}\t{}\t{}\n", self.test, self.lacks, why.trim());
        OpenOptions::new().create(true).append(true).open(path)?.write_all(line.as_bytes())
    }

    /// The record of a line, if it is one.
    pub fn parse(line: &str) -> Option<Record> {
        let mut fields = line.splitn(3, '\t');
        let (test, lacks, why) = (fields.next()?, Ability::named(fields.next()?)?, fields.next()?);
        Some(Record { test: test.to_string(), lacks, why: why.to_string() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_name_one_ability_each() {
        assert!(Ability::ALL.iter().all(|ability| Ability::named(ability.word()) == Some(*ability)));
        assert_eq!(Ability::named("luck"), None);
    }

    #[test]
    fn a_record_is_one_line_whatever_the_reason_holds() {
        let folder = std::env::temp_dir().join(format!("esker-skip-{}", std::process::id()));
        let record = Record { test: "esker-a b::c".into(), lacks: Ability::Root, why: "two\nlines\tand a tab".into() };
        record.append(&folder).and_then(|()| record.append(&folder)).expect("scratch");
        let text = std::fs::read_to_string(&folder).expect("scratch");
        std::fs::remove_file(&folder).expect("scratch");
        let whole = Record { why: "two lines and a tab".into(), ..record };
        assert_eq!(text.lines().map(Record::parse).collect::<Vec<_>>(), [Some(whole.clone()), Some(whole)]);
        assert_eq!(Record::parse("esker-a b\tluck\twhy"), None);
    }

    #[test]
    fn a_test_is_named_by_its_package_and_path() {
        assert_eq!(calling_test(), "esker-skip tests::a_test_is_named_by_its_package_and_path");
    }
}
