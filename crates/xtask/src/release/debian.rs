//! The Debian package in an empty Debian: installed, used, upgraded on a full disk and on a free one, and purged.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::{Figures, Release, output, told};

/// The release of Debian, and the size of the disk that it gets.
const SUITE: &str = "bookworm";
const DISK: &str = "size=700m";
/// A stack that an administrator wrote: no package removes it.
const OWN: &str = "etc/esker/mine.toml";

/// What `lintian` says. A finding that has no remedy here is let pass by its tag.
pub(super) fn lint(release: &Release) -> Result<Figures, String> {
    // `esker doctor` asks the package manager which package brings a program. Stacks are handed over by `systemctl
    // reload`, which deb-systemd-invoke does not have.
    let passed = ["uses-dpkg-database-directly", "maintainer-script-calls-systemctl"];
    let deb = package(release)?;
    output(
        Command::new("lintian").args(["--fail-on", "error,warning", "--suppress-tags", &passed.join(",")]).arg(deb),
    )?;
    Ok(Vec::new())
}

/// A file system in memory that is unmounted when dropped.
struct Disk(PathBuf);

impl Disk {
    fn mount(at: PathBuf) -> Result<Disk, String> {
        output(Command::new("mount").args(["-t", "tmpfs", "-o", DISK, "esker-release"]).arg(&at))?;
        Ok(Disk(at))
    }

    /// Runs a command in the Debian on this disk.
    fn run(&self, words: &[&str]) -> Result<String, String> {
        output(Command::new("chroot").arg(&self.0).args(words).env("DEBIAN_FRONTEND", "noninteractive"))
    }

    fn dpkg(&self, words: &[&str]) -> Result<String, String> {
        self.run(&[&["dpkg"], words].concat())
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        for at in [self.0.join("proc"), self.0.clone()] {
            let _ = Command::new("umount").arg(at).output();
        }
    }
}

/// Needs root, `debootstrap`, and the archive of Debian.
pub(super) fn install(release: &Release) -> Result<Figures, String> {
    let disk = Disk::mount(release.folder("debian")?)?;
    output(Command::new("debootstrap").args(["--variant=minbase", SUITE]).arg(&disk.0))?;
    output(Command::new("mount").args(["-t", "proc", "proc"]).arg(disk.0.join("proc")))?;
    let from = package(release)?;
    std::fs::copy(&from, disk.0.join("esker.deb")).map_err(|error| told(&from, error))?;
    disk.dpkg(&["--install", "/esker.deb"])?;
    disk.run(&["getent", "passwd", "esker"])?;
    disk.run(&["sh", "-c", "cd /tmp && esker try && test -s esker-try/stack.toml"])?;
    // It finds things that this root lacks, and says so by its status.
    let doctor = disk.run(&["sh", "-c", "esker doctor || test $? -eq 1"])?;
    if !doctor.contains("io_uring") {
        return Err(format!("esker doctor says nothing of io_uring:\n{doctor}"));
    }
    let own = disk.0.join(OWN);
    std::fs::write(&own, "# mine\n").map_err(|error| told(&own, error))?;
    upgrade_on_a_full_disk(release, &disk)?;
    disk.dpkg(&["--install", "/esker.deb"])?;
    disk.dpkg(&["--purge", "esker"])?;
    let is_left = |path: &str| disk.0.join(path).exists();
    if is_left("usr/bin/esker") || is_left("etc/esker/hugepage.toml") || !is_left(OWN) {
        return Err("a purge must remove the program and its configuration, and leave the administrator's".into());
    }
    Ok(Vec::new())
}

/// An upgrade for which there is no room fails, and the program before it still runs.
fn upgrade_on_a_full_disk(release: &Release, disk: &Disk) -> Result<(), String> {
    let filler = disk.0.join("filler");
    // It ends when the disk is full.
    let _ = Command::new("dd").args(["if=/dev/zero", "bs=1M"]).arg(format!("of={}", filler.display())).output();
    if disk.dpkg(&["--install", "/esker.deb"]).is_ok() {
        return Err("an upgrade on a full disk did not fail".into());
    }
    std::fs::remove_file(&filler).map_err(|error| told(&filler, error))?;
    let said = disk.run(&["esker", "--version"])?;
    let is_right = said.contains(&release.version);
    is_right.then_some(()).ok_or_else(|| format!("after an upgrade that failed, the program says {said}"))
}

/// The package that was made before.
fn package(release: &Release) -> Result<PathBuf, String> {
    let folder = release.folder("packages")?;
    let files = std::fs::read_dir(&folder).map_err(|error| told(&folder, error))?;
    let is_deb = |path: &PathBuf| path.extension() == Some(Path::new("deb").as_os_str());
    files.filter_map(Result::ok).map(|file| file.path()).find(is_deb).ok_or_else(|| "no package was made".to_string())
}
