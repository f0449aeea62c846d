//! `fs-tree`: what people do with trees of small files, on `lfs` and on others: unpack, list, search, ask git, build
//! C, and remove.
//!
//! ext4 through our FUSE server pays the same way to the kernel, so it is the rival; ext4, XFS and btrfs of the kernel
//! stand beside it. Reading steps run cold (mounted anew) and warm. All file systems get the same made tree. Rounds
//! alternate.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use esker_base::Stream;
use esker_base::units::GIB;
use esker_lab_kit::{Figure, Lab, LabError, peer, timing};
use tempfile::TempDir;

use crate::artc::mounted::FileSystem;
use crate::fs_arms::{Arm, ArmKind};

const KINDS: [ArmKind; 5] = [
    ArmKind::Lfs,
    ArmKind::Ext4Fuse,
    ArmKind::Kernel(FileSystem::Ext4),
    ArmKind::Kernel(FileSystem::Xfs),
    ArmKind::Kernel(FileSystem::Btrfs),
];

/// A step: its name, whether memory is emptied before it, and its words for a shell in the mount.
struct TreeStep {
    name: &'static str,
    is_cold: bool,
    words: &'static str,
}

const fn step(name: &'static str, is_cold: bool, words: &'static str) -> TreeStep {
    TreeStep { name, is_cold, words }
}

const LIST: &str = "ls -lR tree > /dev/null";
const SEARCH: &str = "grep -r no_such_word tree > /dev/null || test $? = 1";
const STATUS: &str = "git -C tree status --porcelain > /dev/null";
const BUILD: &str = "make -s -C tree/c -j2 && sync -f .";

/// The steps in their order.
const STEPS: [TreeStep; 10] = [
    step("untar", false, "tar -xf \"$TREE\" && sync -f ."),
    step("list_cold", true, LIST),
    step("list_warm", false, LIST),
    step("search_cold", true, SEARCH),
    step("search_warm", false, SEARCH),
    step("status_cold", true, STATUS),
    step("status_warm", false, STATUS),
    step("build_cold", true, BUILD),
    step("build_warm", false, "make -s -C tree/c clean && make -s -C tree/c -j2 && sync -f ."),
    step("remove", false, "rm -r tree && sync -f ."),
];

pub(crate) fn run(lab: &Lab<'_>) -> Result<Vec<Figure>, LabError> {
    let (rounds, files) = lab.scale((3, 1_500), (7, 12_000));
    let tree = Tree::new(lab, files)?;
    let mut arms = KINDS.into_iter().map(|kind| Arm::new(lab, kind, GIB)).collect::<Result<Vec<_>, _>>()?;
    // Seconds by arm, step and round.
    let mut seconds = vec![vec![Vec::new(); STEPS.len()]; arms.len()];
    for round in 0..rounds {
        for turn in 0..arms.len() {
            let at = (round + turn) % arms.len();
            for (taken, step) in seconds[at].iter_mut().zip(&STEPS) {
                taken.push(took(&mut arms[at], step, &tree)?);
            }
            lab.say(format!("round {} of {rounds}: {}", round + 1, arms[at].kind.name()));
        }
    }
    Ok(figures(&seconds))
}

/// Seconds of a step.
fn took(arm: &mut Arm<'_, '_>, step: &TreeStep, tree: &Tree) -> Result<f64, LabError> {
    if step.is_cold {
        arm.forget()?;
    }
    let words = format!("cd '{}' && TREE='{}' && {}", arm.at().display(), tree.archive.display(), step.words);
    timing::seconds(|| peer::output("sh", &["-c", &words]))
}

/// Their times over ours, step by step. The worst step is the first figure.
fn figures(seconds: &[Vec<Vec<f64>>]) -> Vec<Figure> {
    let mut figures = Vec::new();
    for (kind, theirs) in KINDS.iter().zip(seconds).skip(1) {
        let steps = STEPS.iter().zip(theirs.iter().zip(&seconds[0])).map(|(step, (theirs, ours))| {
            let ratio = timing::median(theirs.iter().zip(ours).map(|(them, us)| them / us).collect());
            let rival = format!("{}, seconds", kind.name());
            let id = format!("lfs_{}_ratio_{}", step.name, kind.name());
            Figure::alone(id, ratio, "ratio").peer(rival, timing::median(theirs.clone()))
        });
        let steps: Vec<Figure> = steps.collect();
        let worst = steps.iter().map(|figure| figure.value).fold(f64::INFINITY, f64::min);
        figures.push(Figure::alone(format!("lfs_worst_ratio_{}", kind.name()), worst, "ratio"));
        figures.extend(steps);
    }
    figures
}

/// An archive of a made tree: a git repository with texts, and a program in C.
struct Tree {
    archive: PathBuf,
    _folder: TempDir,
}

/// Files of C in it.
const SOURCES: usize = 24;
/// Files of a directory.
const PER_DIRECTORY: usize = 30;
/// Bytes of a line of texts.
const LINE: usize = 40;

impl Tree {
    fn new(lab: &Lab<'_>, files: usize) -> Result<Tree, LabError> {
        let folder = lab.folder()?;
        let tree = folder.path().join("tree");
        let mut random = Stream::named(lab.seed, "tree of files");
        for nr in 0..files {
            let path = tree.join(format!("d{}/d{}/file{nr}.txt", nr / PER_DIRECTORY % 10, nr / PER_DIRECTORY));
            // Half of the files have at most 4 KiB; the mean is four times that.
            let bytes = (4096.0 * 2f64.powf(6.0 * random.unit() - 3.0)) as usize;
            put(&path, &text(&mut random, bytes))?;
        }
        for nr in 0..SOURCES {
            put(&tree.join(format!("c/part{nr}.c")), source(nr).as_bytes())?;
        }
        put(&tree.join("c/Makefile"), MAKEFILE.as_bytes())?;
        let archive = folder.path().join("tree.tar");
        let git = "git -c init.defaultBranch=main init -q . && git add . && git -c user.name=lab \
                   -c user.email=lab@localhost commit -q -m tree";
        let words = format!("cd '{}' && {git} && cd .. && tar -cf tree.tar tree && rm -r tree", tree.display());
        peer::output("sh", &["-c", &words])?;
        Ok(Tree { archive, _folder: folder })
    }
}

fn put(path: &Path, bytes: &[u8]) -> Result<(), LabError> {
    let parent = path.parent().unwrap_or(path);
    std::fs::create_dir_all(parent).map_err(LabError::scratch(parent))?;
    std::fs::write(path, bytes).map_err(LabError::scratch(path))
}

fn text(random: &mut Stream, bytes: usize) -> Vec<u8> {
    let mut text = vec![0; bytes];
    random.fill(&mut text);
    for (at, byte) in text.iter_mut().enumerate() {
        *byte = if at % LINE == LINE - 1 { b'\n' } else { b'a' + *byte % 26 };
    }
    text
}

const MAKEFILE: &str = "OBJECTS := $(patsubst %.c,%.o,$(wildcard *.c))\nprogram: $(OBJECTS)\n\t$(CC) -o $@ $^\n\
                        clean:\n\trm -f program *.o\n";

/// A part of a program in C. The first one has its main function.
fn source(nr: usize) -> String {
    let mut text = String::from("#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n");
    for function in 0..20 {
        let _infallible = writeln!(
            text,
            "int f{nr}_{function}(int n) {{ int s = {function}; for (int i = 0; i < n; i++) s += i * {nr}; return s; }}"
        );
    }
    if nr == 0 {
        text.push_str("int main(void) { printf(\"%d\\n\", f0_1(10)); return 0; }\n");
    }
    text
}
