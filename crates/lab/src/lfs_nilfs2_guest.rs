//! `lfs-nilfs2-guest`: the same writes on the kernel's nilfs2 and on `lfs`, mounted beside each other in a guest with
//! Debian's kernel. What each device took is counted at the device.
//!
//! A file is filled, overwritten at random places with `fdatasync` or `fsync` behind each write, then overwritten
//! without, and synced at the end. `dd` makes the writes, because fio and its libraries are larger than the guest. Then
//! the kernel reads our image, and we read the kernel's: the file must be the same. The guest's CPUs are emulated, so
//! times say nothing and none is told.

use std::fmt::Write as _;
use std::fs::File;
use std::path::PathBuf;
use std::time::Duration;

use esker_base::Stream;
use esker_base::units::{GIB, MIB};
use esker_guest::image::{Image, Recipe};
use esker_guest::machine::{Guest, Power};
use esker_lab_kit::guest_console::GuestConsole;
use esker_lab_kit::{Figure, Lab, LabError, peer};

const IMAGE: Recipe = Recipe {
    name: "nilfs2-3",
    kernels: &["linux-image-amd64"],
    packages: &["busybox-static", "coreutils", "nilfs-tools", "util-linux", "libc6", "libgcc-s1"],
    programs: &["busybox", "cksum", "dd", "mkfs.nilfs2"],
    modules: &["virtio_pci", "virtio_blk", "nilfs2", "fuse"],
};
const MEMORY_MIB: u32 = 1536;
/// A guest that takes longer hangs. A write on both file systems takes a third of a second, with an emulated process
/// for each.
const LIMIT: Duration = Duration::from_secs(1_500);
const DEVICE_BYTES: u64 = GIB;
/// Bytes of the file.
const FILE: u64 = 48 * MIB;
const PAGE: u64 = 4096;
/// How writes are synced, with the share of writes of which that is true.
const WAYS: [(&str, f64); 3] = [("fdatasync", 0.3), ("fsync", 0.1), ("", 0.6)];
const PROGRAM: &str = "the guest";

const SHELL: &str = r#"
# That of busybox knows no fdatasync.
DD="/bin/dd status=none"

# written DISK: bytes that the device took.
written() { read -r _ _ _ _ _ _ sectors _ </sys/block/$1/stat; echo $((sectors * 512)); }

# load NAME: fills the file and overwrites it, and says how far it is.
load() {
  made=0
  $DD if=/bin/esker of=/mnt/file bs=1M count=$FILE_MIB || return
  sync
  while read -r from to how; do
    $DD if=/bin/esker of=/mnt/file bs=4096 count=1 skip=$from seek=$to conv=notrunc${how:+,$how} || return
    made=$((made + 1))
    [ $((made % 500)) -ne 0 ] || echo "EVENT $1 made $made writes"
  done </tmp/writes
  sync
}

sum() { set -- $(/bin/cksum </mnt/file); echo $1; }

mount_theirs() { mount -t nilfs2 /dev/$1 /mnt; }
mount_ours() { esker mount lfs /mnt --on "d = raw path=/dev/$1 @" --background --log-file /tmp/log; }

# use NAME DISK: mounts, loads and unmounts; the bytes of all that are told.
use() {
  before=$(written $2)
  mount_$1 $2 && load $1 || { echo "EVENT $1 failed"; return; }
  echo "TOLD $1_sum $(sum)"
  esker umount /mnt 2>/dev/null || umount /mnt
  echo "TOLD $1_bytes $(($(written $2) - before))"
  echo "EVENT $1 is loaded"
}

# look NAME DISK WORD: the file as that file system sees it on that disk.
look() { mount_$1 $2 && echo "TOLD $3 $(sum)"; esker umount /mnt 2>/dev/null || umount /mnt; }
"#;

pub(crate) fn run(lab: &Lab<'_>) -> Result<Vec<Figure>, LabError> {
    let failed = |error: String| peer::fault(PROGRAM, error);
    let own = std::env::current_exe().map_err(|error| failed(error.to_string()))?;
    let folder = lab.folder()?;
    let image = Image::prepare(folder.path(), &IMAGE).map_err(failed)?;
    let disks = ["vda", "vdb"].map(|disk| folder.path().join(disk));
    for path in &disks {
        File::create(path).and_then(|file| file.set_len(DEVICE_BYTES)).map_err(LabError::scratch(path))?;
    }
    let drive =
        |path: &PathBuf| ["-drive".to_string(), format!("file={},format=raw,if=virtio,cache=unsafe", path.display())];
    let devices = disks.iter().flat_map(drive).collect();
    let writes = lab.scale(600, 2_000);
    let (programs, job) = (vec![("esker", own.as_path())], job(lab.seed, writes));
    let guest =
        Guest { image: &image, programs, library: SHELL, job, devices, cpus: 2, memory_mib: MEMORY_MIB, limit: LIMIT };
    let log = guest.run(folder.path(), &mut |line| {
        lab.say(format!("guest: {line}"));
        Ok(Power::On)
    });
    let log = log.map_err(failed)?;
    lab.say(format!("the guest's kernel: {}; {:.0} s", log.kernel, log.seconds));
    figures(&log.text, FILE + writes as u64 * PAGE)
}

fn job(seed: u64, writes: usize) -> String {
    let mut random = Stream::named(seed, "writes in the guest");
    let mut job = format!("FILE_MIB={}\ncat >/tmp/writes <<'END'\n", FILE / MIB);
    for _ in 0..writes {
        let (from, to) = (random.below(FILE / PAGE), random.below(FILE / PAGE));
        let mut drawn = random.unit();
        let way = WAYS.iter().find(|(_, share)| {
            drawn -= share;
            drawn < 0.0
        });
        let _infallible = writeln!(job, "{from} {to} {}", way.map_or("", |(word, _)| word));
    }
    job + "END\nmkfs.nilfs2 -q -f /dev/vda\nesker fs mkfs lfs --on 'd = raw path=/dev/vdb @' >/dev/null\n\
           use theirs vda\nuse ours vdb\nlook theirs vdb theirs_sees_ours\nlook ours vda ours_sees_theirs\n"
}

/// Of what the guest told.
fn figures(text: &str, user_bytes: u64) -> Result<Vec<Figure>, LabError> {
    let console = GuestConsole::new(text);
    let number = |name: &str| console.number(name);
    let (ours, theirs) = (number("ours_bytes")?, number("theirs_bytes")?);
    let sums = ["theirs_sum", "ours_sum", "theirs_sees_ours", "ours_sees_theirs"].map(number);
    let [first, rest @ ..] = sums;
    let first = first?;
    let mut agree = true;
    for sum in rest {
        agree &= sum? == first;
    }
    let amplification = |bytes: f64| bytes / user_bytes as f64;
    let unit = "bytes that the device took for each byte written";
    Ok(vec![
        Figure::alone("write_amplification_over_nilfs2", ours / theirs, "ratio").peer("nilfs2, bytes", theirs),
        Figure::alone("images_agree", f64::from(u8::from(agree)), "1 if all readings are equal"),
        Figure::alone("lfs_write_amplification", amplification(ours), unit),
        Figure::alone("nilfs2_write_amplification", amplification(theirs), unit),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONSOLE: &str = "TOLD theirs_sum 7\nTOLD theirs_bytes 400\n[ 1.2] a word of the kernel's\nTOLD ours_sum 7\n\
                           TOLD ours_bytes 300\nTOLD theirs_sees_ours 7\nTOLD ours_sees_theirs 7\nDONE";

    #[test]
    fn numbers_come_over_the_console() {
        let found = figures(CONSOLE, 200).unwrap();
        let values: Vec<f64> = found.iter().map(|figure| figure.value).collect();
        assert_eq!(values, [0.75, 1.0, 1.5, 2.0]);
        let other = figures(&CONSOLE.replace("ours_sees_theirs 7", "ours_sees_theirs 8"), 200).unwrap();
        assert_eq!(other[1].value, 0.0);
    }

    #[test]
    fn writes_are_synced_in_all_ways() {
        let job = job(1, 300);
        for (word, share) in WAYS {
            let count = job.lines().filter(|line| line.split(' ').nth(2) == Some(word)).count() as f64;
            assert!((count / 300.0 - share).abs() < 0.1, "{word} {count}");
        }
    }
}
