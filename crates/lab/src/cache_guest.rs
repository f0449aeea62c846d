//! `cache-guest`: what a home gets behind a power cut from the kernel's dm-cache and from the kind `cache`, side by
//! side in a guest with Debian's kernel.
//!
//! Both write back, with lines of 64 KiB, over disks of equal size. A part of the home is written line by line, and
//! written back until nothing is dirty. Then some pages are written again with a sync behind each, and the machine is
//! switched off. In the next boot both are put up, and what their homes take until nothing is dirty is counted at the
//! disks. The guest's CPUs are emulated, so times say nothing and none is told.

use std::fmt::Write as _;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Duration;

use esker_base::Stream;
use esker_base::units::{KIB, MIB};
use esker_guest::image::{Image, Recipe};
use esker_guest::log::Log;
use esker_guest::machine::{Guest, Power};
use esker_lab_kit::guest_console::GuestConsole;
use esker_lab_kit::{Figure, Lab, LabError, peer};

const IMAGE: Recipe = Recipe {
    name: "dm-cache-2",
    kernels: &["linux-image-amd64"],
    packages: &["busybox-static", "coreutils", "dmsetup", "libc6", "libgcc-s1"],
    programs: &["busybox", "dd", "dmsetup"],
    modules: &["virtio_pci", "virtio_blk", "fuse", "loop", "crc32c_generic", "dm_cache", "dm_cache_smq"],
};
const MEMORY_MIB: u32 = 1536;
/// A guest that takes longer hangs.
const LIMIT: Duration = Duration::from_secs(900);
/// Home, fast device and metadata of dm-cache, then home and fast device of ours.
const DISKS: [(&str, u64); 5] =
    [("vda", 512 * MIB), ("vdb", 128 * MIB), ("vdc", 16 * MIB), ("vdd", 512 * MIB), ("vde", 128 * MIB)];
const LINE: u64 = 64 * KIB;
const PAGE: u64 = 4096;
const PROGRAM: &str = "the guest";
/// The event behind which the machine is switched off.
const CUT: &str = "all is written";

const SHELL: &str = r#"
DD="/bin/dd status=none oflag=direct"

# written DISK: bytes that the device took.
written() { read -r _ _ _ _ _ _ sectors _ </sys/block/$1/stat; echo $((sectors * 512)); }

# fail WORDS: ends the guest.
fail() { echo "EVENT failed: $*"; echo DONE; poweroff -f; }

up_theirs() {
  table="0 $HOME_SECTORS cache /dev/vdc /dev/vdb /dev/vda 128 1 writeback smq 0"
  dmsetup create theirs --noudevsync --table "$table" 2>/tmp/errors || fail "$(cat /tmp/errors)"
  dmsetup mknodes
  THEIRS=/dev/mapper/theirs
}

up_ours() {
  text="home = raw path=/dev/vdd; fast = raw path=/dev/vde; ours = cache on home, fast @"
  esker attach "$text" --name ours --background >/tmp/attached 2>/tmp/errors || fail "$(cat /tmp/errors)"
  OURS=$(sed -n 's/.* at //p' /tmp/attached)
  CONTROL=$(sed -n 's/^control socket: //p' /tmp/attached)
}

# The number of dirty blocks.
dirty_theirs() { set -- $(dmsetup status theirs); echo ${14}; }
dirty_ours() { esker status --control $CONTROL --json | sed -n 's/.*"dirty": *\([0-9]*\).*/\1/p' | head -n 1; }

# clean NAME: waits until nothing is dirty.
clean() {
  for second in $(seq 300); do
    left=$(dirty_$1)
    [ "$left" = 0 ] && return
    sleep 1
  done
  fail "$1 has $left dirty blocks left"
}

# fill DEVICE: writes the hot part line by line.
fill() { $DD if=/bin/esker of=$1 bs=64K count=$LINES && sync; }

# write_pages DEVICE: writes pages of the list, each behind a sync.
write_pages() {
  while read -r to; do $DD if=/bin/esker of=$1 bs=4096 count=1 seek=$to conv=notrunc,fsync || return; done </tmp/pages
}
"#;

pub(crate) fn run(lab: &Lab<'_>) -> Result<Vec<Figure>, LabError> {
    let failed = |error: String| peer::fault(PROGRAM, error);
    let own = std::env::current_exe().map_err(|error| failed(error.to_string()))?;
    let folder = lab.folder()?;
    let image = Image::prepare(folder.path(), &IMAGE).map_err(failed)?;
    for (disk, bytes) in DISKS {
        let path = folder.path().join(disk);
        File::create(&path).and_then(|file| file.set_len(bytes)).map_err(LabError::scratch(&path))?;
    }
    let lines = lab.scale(512, 1536);
    let boot = |job: String| -> Result<Log, LabError> {
        let guest = Guest {
            image: &image,
            programs: vec![("esker", own.as_path())],
            library: SHELL,
            job: format!("HOME_SECTORS={}\nLINES={lines}\nmkdir -p /run\nup_theirs\nup_ours\n{job}", DISKS[0].1 / 512),
            devices: drives(folder.path()),
            cpus: 2,
            memory_mib: MEMORY_MIB,
            limit: LIMIT,
        };
        let log = guest.run(folder.path(), &mut |line| {
            lab.say(format!("guest: {line}"));
            Ok(if line.contains(CUT) { Power::Off } else { Power::On })
        });
        log.map_err(failed)
    };
    let first = boot(load(lab.seed, lines, lab.scale(64, 256)))?;
    if !first.text.contains(CUT) {
        return Err(GuestConsole::new(&first.text).fault());
    }
    figures(&boot(RECOVERY.to_string())?.text, lines * LINE)
}

fn drives(folder: &Path) -> Vec<String> {
    let drive =
        |path: PathBuf| ["-drive".to_string(), format!("file={},format=raw,if=virtio,cache=unsafe", path.display())];
    DISKS.iter().flat_map(|(disk, _)| drive(folder.join(disk))).collect()
}

fn load(seed: u64, lines: u64, pages: u64) -> String {
    let mut random = Stream::named(seed, "pages in the guest");
    let mut job = "cat >/tmp/pages <<'END'\n".to_string();
    for _ in 0..pages {
        let _infallible = writeln!(job, "{}", random.below(lines * LINE / PAGE));
    }
    job + "END\nfor name in $THEIRS $OURS; do fill $name; done\nclean theirs\nclean ours\n\
           for name in $THEIRS $OURS; do write_pages $name; done\n"
        + &format!("echo \"EVENT {CUT}\"\nsleep 60\n")
}

const RECOVERY: &str = "echo \"TOLD theirs_dirty $(dirty_theirs)\"\necho \"TOLD ours_dirty $(dirty_ours)\"\n\
                        clean theirs\nclean ours\n\
                        echo \"TOLD theirs_bytes $(written vda)\"\necho \"TOLD ours_bytes $(written vdd)\"\n";

/// Of what the guest told.
fn figures(text: &str, hot_bytes: u64) -> Result<Vec<Figure>, LabError> {
    let console = GuestConsole::new(text);
    let number = |name: &str| console.number(name);
    let (ours, theirs) = (number("ours_bytes")?, number("theirs_bytes")?);
    let share = |bytes: f64| bytes / hot_bytes as f64;
    let unit = "share of the bytes that are cached";
    Ok(vec![
        Figure::alone("home_bytes_after_cut_over_dm_cache", ours / theirs, "ratio").peer("dm-cache, bytes", theirs),
        Figure::alone("home_share_after_cut", share(ours), unit).peer("dm-cache", share(theirs)),
        Figure::alone("dirty_after_cut", number("ours_dirty")?, "lines").peer("dm-cache", number("theirs_dirty")?),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONSOLE: &str =
        "TOLD theirs_dirty 512\nTOLD ours_dirty 40\n[ 1.2] a word\nTOLD theirs_bytes 1000\nTOLD ours_bytes 50\nDONE";

    #[test]
    fn numbers_come_over_the_console() {
        let values: Vec<f64> = figures(CONSOLE, 1000).unwrap().iter().map(|figure| figure.value).collect();
        assert_eq!(values, [0.05, 0.05, 40.0]);
    }

    #[test]
    fn pages_lie_within_the_hot_part() {
        let job = load(1, 8, 100);
        let pages: Vec<u64> = job.lines().filter_map(|line| line.parse().ok()).collect();
        assert!(pages.len() == 100 && pages.iter().all(|page| *page < 8 * LINE / PAGE), "{pages:?}");
    }
}
