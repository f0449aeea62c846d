//! Getting ready: limits, and what was open before the first action.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use esker_trace::Snapshot;
use esker_trace::compiled::{Opened, Program};
use esker_trace::words::FileKind;
use rustix::fs::{AtFlags, Mode, OFlags, StatxFlags, statx};
use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::slots::Handle;
use super::{Hand, Kernel, KernelOptions, Pipes, Slots, aio, maps};
use crate::init::SHM;
use crate::root::Root;
use crate::special::Specials;
use crate::tally::Tally;

const LOST: &str = "descriptors that were open before the trace could not be opened: their calls were not made";

impl Kernel {
    /// A target in the run directory `dir` with the tree `root`, which [`crate::init`] made.
    ///
    /// # Errors
    /// The kernel's.
    pub fn new(
        dir: &Path,
        root: Arc<Root>,
        program: &Program,
        pipes: Pipes,
        options: KernelOptions,
    ) -> Result<Kernel, Errno> {
        raise_limit();
        let kernel = Kernel::bare(dir, root, program.snapshot(), program.slots().len(), options)?;
        let kernel = Kernel { pipes, ..kernel };
        kernel.open_all(program.opened())?;
        Ok(kernel)
    }

    /// Without anything open.
    pub(super) fn bare(
        dir: &Path,
        root: Arc<Root>,
        snapshot: &Snapshot,
        slots: usize,
        options: KernelOptions,
    ) -> Result<Kernel, Errno> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Kernel {
            shm: rustix::fs::open(dir.join(SHM), flags, Mode::empty())?,
            specials: Specials::of(snapshot),
            slots: Slots::new(slots),
            maps: maps::Maps::default(),
            aio: aio::Pool::new(options.seed),
            pipes: Pipes { named: true, early: 0 },
            root,
            options,
            temporary: AtomicU64::new(0),
            tally: Tally::default(),
        })
    }

    fn open_all(&self, opened: &[Opened]) -> Result<(), Errno> {
        let hand = Hand::new(self, u32::MAX);
        let mut groups: BTreeMap<u32, Arc<Handle>> = BTreeMap::new();
        for one in opened {
            let shared = groups.get(&one.group).filter(|_| one.group > 0).cloned();
            let handle = match shared {
                Some(handle) => handle,
                None => self.open_one(&hand, one)?,
            };
            groups.insert(one.group, handle.clone());
            self.slots.put(one.slot, handle);
        }
        Ok(())
    }

    /// Files by their path; all else is outside.
    fn open_one(&self, hand: &Hand<'_>, one: &Opened) -> Result<Arc<Handle>, Errno> {
        let Some(path) = &one.path else { return hand.outside() };
        let device = self.specials.find(path).is_some();
        if !device && !matches!(one.kind, FileKind::Regular | FileKind::Directory) {
            return hand.outside();
        }
        match hand.open_before(path, one.flags, one.offset) {
            Ok(handle) => Ok(handle),
            Err(_) => {
                self.tally.add(LOST);
                hand.outside()
            }
        }
    }

    /// Closes everything, so that calls that wait for the other end of something come back.
    pub fn let_go(&self) {
        self.slots.close_all();
        self.maps.forget_all();
        self.aio.close();
    }

    /// Type of the file system of the run, as the kernel's list of mounts calls it; `unknown` before Linux 5.8.
    pub fn file_system(&self) -> String {
        let looked = statx(self.root.dir(), c"", AtFlags::EMPTY_PATH, StatxFlags::MNT_ID);
        let mount = looked.ok().filter(|look| look.stx_mask & StatxFlags::MNT_ID.bits() != 0);
        let mounts = mount.and_then(|look| Some((look.stx_mnt_id, read_mounts().ok()?)));
        mounts.and_then(|(mount, mounts)| file_system_of(mount, &mounts)).unwrap_or("unknown".to_string())
    }
}

/// Other orders may hold more descriptors open at once than the trace did.
fn raise_limit() {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    // A refusal leaves the limit as it is; then opens fail and are told.
    let _refused = setrlimit(Resource::Nofile, raised);
}

fn read_mounts() -> Result<String, Errno> {
    let file = rustix::fs::open(c"/proc/self/mountinfo", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    let (mut text, mut chunk) = (Vec::new(), vec![0; 1 << 16]);
    loop {
        match rustix::io::retry_on_intr(|| rustix::io::read(&file, &mut chunk))? {
            0 => return Ok(String::from_utf8_lossy(&text).into_owned()),
            read => text.extend_from_slice(&chunk[..read]),
        }
    }
}

/// The type of a mount by its number, because files of one Btrfs have several numbers of devices: lines are
/// `number parent major:minor root dir options fields... - type source options`.
fn file_system_of(mount: u64, mounts: &str) -> Option<String> {
    let number = mount.to_string();
    let line = mounts.lines().find(|line| line.split(' ').next() == Some(&number))?;
    line.split(" - ").nth(1)?.split(' ').next().map(str::to_string)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_type_of_a_mount_is_told_by_its_number() {
        let mounts = "36 35 98:0 /m /mnt rw,noatime master:1 - ext4 /dev/x rw\n37 35 0:22 / /proc rw - proc proc rw\n";
        assert_eq!(file_system_of(36, mounts).as_deref(), Some("ext4"));
        assert_eq!(file_system_of(37, mounts).as_deref(), Some("proc"));
        assert_eq!(file_system_of(35, mounts), None);
    }
}
