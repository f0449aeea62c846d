//! `artc-programs-suite`: whether recordings of what people run are replayed as they were. The programs are those of
//! `data/behaviour/suite.toml`. Each is recorded on this machine's own file system, and replayed as fast as possible on
//! ext4, XFS and Btrfs, in the modes `root` and `temporal`. A replay is right if no call comes out otherwise, beyond
//! those that the table lists with a reason, and if it leaves the tree that the program left.

use std::fs::File;
use std::path::{Path, PathBuf};

use esker_base::units::GIB;
use esker_trace_order::rules::Order;
use tempfile::TempDir;

use crate::artc::behaviour::{Behaviour, Wrong, programs};
use crate::artc::mounted::FileSystem;
use crate::artc::root;
use esker_lab_kit::{Figure, Lab, LabError, peer};

/// Times the least work.
const LOAD: u32 = 4;
const QUICK_LOAD: u32 = 1;
/// Of each file system; its image has holes.
const IMAGE_BYTES: u64 = 8 * GIB;
const INODES: &str = "200000";
/// What is told of one replay.
const TOLD_MAX: usize = 4;

const SYSTEMS: [FileSystem; 3] = [FileSystem::Ext4, FileSystem::Xfs, FileSystem::Btrfs];

fn modes() -> [(&'static str, Order); 2] {
    [("root", root()), ("temporal", Order::Temporal)]
}

#[derive(Default)]
struct Tally {
    programs: u64,
    missing: u64,
    unrecorded: u64,
    replays: u64,
    wrong: Wrong,
    /// Of programs whose I/O no trace holds.
    unseen: Wrong,
}

pub(crate) fn run(lab: &Lab<'_>) -> Result<Vec<Figure>, LabError> {
    let images = SYSTEMS.map(|system| Image::new(lab, system)).into_iter().collect::<Result<Vec<_>, _>>()?;
    let mut tally = Tally::default();
    for program in programs()? {
        match program.lacks() {
            Some(why) => {
                lab.say(format!("{}: skipped: {why}", program.name));
                tally.missing += 1;
            }
            None => tally.take(&program, &images, lab)?,
        }
    }
    let Tally { programs, missing, unrecorded, replays, wrong, unseen } = tally;
    let figure = |id, count: u64, unit: &'static str| Figure::alone(id, count as f64, unit);
    Ok(vec![
        figure("programs", programs, "programs that were replayed"),
        figure("programs_missing", missing, "programs that this machine does not have"),
        figure("programs_unrecorded", unrecorded, "programs that did not end as they should"),
        figure("replays", replays, "replays"),
        figure("hangs", wrong.hangs + unseen.hangs, "replays that the watchdog ended"),
        figure("tree_differences", wrong.names, "names that are not as the program left them"),
        figure("failed_calls", wrong.calls, "calls that came out otherwise, beyond the listed ones"),
        figure("unseen_differences", unseen.names, "such names of programs with I/O that no trace holds"),
        figure("unseen_failed_calls", unseen.calls, "such calls of these programs"),
    ])
}

impl Tally {
    fn take(&mut self, program: &Behaviour, images: &[Image], lab: &Lab<'_>) -> Result<(), LabError> {
        let (name, scratch) = (&program.name, lab.folder()?);
        let recorded = match program.record(scratch.path(), lab.scale(QUICK_LOAD, LOAD)) {
            Ok(recorded) => recorded,
            Err(error) => {
                lab.say(format!("{name}: not recorded: {error}"));
                self.unrecorded += 1;
                return Ok(());
            }
        };
        lab.say(format!("{name}: {} actions recorded", recorded.len()));
        self.programs += 1;
        for image in images {
            for (mode, order) in modes() {
                let on = image.system.name();
                let wrong = program.replay(&recorded, &image.run_dir(name), order, on, lab.seed)?;
                wrong.told.iter().take(TOLD_MAX).for_each(|what| lab.say(format!("{name}, {on}, {mode}: {what}")));
                self.replays += 1;
                if program.unseen.is_some() { &mut self.unseen } else { &mut self.wrong }.add(wrong);
            }
            image.empty(name)?;
        }
        Ok(())
    }
}

impl Wrong {
    fn add(&mut self, other: Wrong) {
        self.hangs += other.hangs;
        self.calls += other.calls;
        self.names += other.names;
    }
}

/// A file system in a file, mounted; undone when dropped.
struct Image {
    at: PathBuf,
    system: FileSystem,
    _folder: TempDir,
}

impl Image {
    fn new(lab: &Lab<'_>, system: FileSystem) -> Result<Image, LabError> {
        let folder = lab.folder()?;
        let [file, at] = ["image", "mounted"].map(|name| folder.path().join(name));
        let made = File::create(&file).and_then(|file| file.set_len(IMAGE_BYTES));
        made.and_then(|()| std::fs::create_dir(&at)).map_err(LabError::scratch(&file))?;
        let image = file.display().to_string();
        let words = [system.make(INODES), vec![&image]].concat();
        peer::output(words[0], &words[1..])?;
        peer::output("mount", &["-o", "loop,noatime", &image, &at.display().to_string()])?;
        Ok(Image { at, system, _folder: folder })
    }

    fn run_dir(&self, name: &str) -> PathBuf {
        self.at.join(name)
    }

    /// Makes room for the next program.
    fn empty(&self, name: &str) -> Result<(), LabError> {
        let dir = self.run_dir(name);
        std::fs::remove_dir_all(&dir).map_err(LabError::scratch(&dir))
    }
}

impl Drop for Image {
    fn drop(&mut self) {
        let _unmounted = peer::output("umount", &[Path::as_os_str(&self.at)]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Replays programs on the file system of the scratch files.
    fn check(wanted: impl Fn(&Behaviour) -> bool) {
        let (mut told, mut replays) = (Vec::new(), 0);
        for program in programs().expect("a table").iter().filter(|program| wanted(program)) {
            if let Some(why) = program.lacks() {
                println!("{}: skipped: {why}", program.name);
                continue;
            }
            let [scratch, runs] = [(); 2].map(|()| tempfile::tempdir().expect("a folder"));
            let recorded = match program.record(scratch.path(), QUICK_LOAD) {
                Ok(recorded) => recorded,
                Err(error) => {
                    told.push(format!("{}: {error}", program.name));
                    continue;
                }
            };
            println!("{}: {} actions", program.name, recorded.len());
            for (mode, order) in modes() {
                let wrong = program.replay(&recorded, &runs.path().join("run"), order, "here", 1);
                let wrong = wrong.expect("a replay");
                replays += 1;
                if let Some(why) = program.unseen.as_ref().filter(|_| wrong.hangs == 0) {
                    println!("{}, {mode}: {} calls and {} names differ: {why}", program.name, wrong.calls, wrong.names);
                    continue;
                }
                told.extend(wrong.told.into_iter().map(|what| format!("{}, {mode}: {what}", program.name)));
            }
        }
        assert!(told.is_empty(), "{}", told.join("\n"));
        assert!(replays > 0, "no program was replayed");
    }

    #[test]
    fn a_third_of_the_programs_comes_out_as_recorded() {
        check(|program| program.ci);
    }

    #[test]
    #[ignore = "takes minutes: cargo xtask soak programs"]
    fn every_program_comes_out_as_recorded() {
        let only = std::env::var("ESKER_PROGRAM").ok();
        check(|program| only.as_ref().is_none_or(|only| *only == program.name));
    }

    #[test]
    fn a_third_of_a_suite_of_at_least_38_is_for_tests_and_has_its_sources() {
        let programs = programs().expect("a table");
        assert!(programs.len() >= 38);
        let tested = programs.iter().filter(|program| program.ci).count();
        assert!(tested * 3 >= programs.len());
        let mut names: Vec<&str> = programs.iter().map(|program| &*program.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), programs.len(), "names are unique");
    }
}
