//! Random writes to a block device or file, with every block stamped by its place and version.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;

use esker_base::Stream;
use esker_base::digest::mix;

use super::{Outcome, at};

const BLOCK: u64 = 4096;
/// Most blocks of one write.
const RUN_MAX: u64 = 32;
/// Writes between two flushes.
const FLUSH_EVERY: u64 = 64;

/// Which blocks are written, and what they hold in the end. Version 0 is a block that was never written.
struct Plan {
    seed: u64,
    /// First block and blocks of each write, in order.
    writes: Vec<(u64, u64)>,
    versions: Vec<u32>,
}

impl Plan {
    fn new(seed: u64, bytes: u64, writes: u64) -> Plan {
        let blocks = bytes / BLOCK;
        let mut random = Stream::named(seed, "raw");
        let write = |_| {
            let first = random.below(blocks);
            (first, (1 + random.below(RUN_MAX)).min(blocks - first))
        };
        let writes: Vec<(u64, u64)> = (0..writes).map(write).collect();
        let mut versions = vec![0; blocks as usize];
        for (first, count) in &writes {
            (*first..first + count).for_each(|block| versions[block as usize] += 1);
        }
        Plan { seed, writes, versions }
    }

    fn content(&self, block: u64, version: u32, out: &mut [u8]) {
        Stream::seeded(mix(self.seed ^ mix(block << 32 | u64::from(version)))).fill(out);
    }
}

/// Makes `writes` random writes to the first `bytes` bytes of `path`, and flushes.
///
/// # Errors
/// The system's, with the place.
pub fn write(path: &str, seed: u64, bytes: u64, writes: u64, progress: &mut dyn FnMut(u64)) -> Outcome<()> {
    let file = OpenOptions::new().read(true).write(true).open(path).map_err(at(path))?;
    let plan = Plan::new(seed, bytes, writes);
    let mut versions = vec![0u32; plan.versions.len()];
    let mut buffer = vec![0; (RUN_MAX * BLOCK) as usize];
    for (done, (first, count)) in (1..).zip(&plan.writes) {
        for (block, out) in (*first..first + count).zip(buffer.chunks_exact_mut(BLOCK as usize)) {
            versions[block as usize] += 1;
            plan.content(block, versions[block as usize], out);
        }
        let place = first * BLOCK;
        file.write_all_at(&buffer[..(count * BLOCK) as usize], place).map_err(at(format!("{path}, byte {place}")))?;
        if done % FLUSH_EVERY == 0 {
            file.sync_data().map_err(at(path))?;
        }
        progress(done);
    }
    file.sync_all().map_err(at(path))
}

/// Compares what [`write`] wrote.
///
/// # Errors
/// The first block that differs, or the system's.
pub fn verify(path: &str, seed: u64, bytes: u64, writes: u64) -> Outcome<u64> {
    let file = File::open(path).map_err(at(path))?;
    let plan = Plan::new(seed, bytes, writes);
    let (mut found, mut expected) = (vec![0; BLOCK as usize], vec![0; BLOCK as usize]);
    let mut checked = 0;
    for (block, version) in (0u64..).zip(&plan.versions).filter(|(_, version)| **version > 0) {
        file.read_exact_at(&mut found, block * BLOCK).map_err(at(format!("{path}, block {block}")))?;
        plan.content(block, *version, &mut expected);
        if found != expected {
            return Err(format!("{path}: block {block} is not version {version} of it"));
        }
        checked += 1;
    }
    Ok(checked)
}

/// Checks that the first `bytes` bytes are zeroes.
///
/// # Errors
/// The first block that is not, or the system's.
pub fn check_zero(path: &str, bytes: u64) -> Outcome<u64> {
    let file = File::open(path).map_err(at(path))?;
    let mut found = vec![0; BLOCK as usize];
    for block in 0..bytes / BLOCK {
        file.read_exact_at(&mut found, block * BLOCK).map_err(at(format!("{path}, block {block}")))?;
        if found.iter().any(|byte| *byte != 0) {
            return Err(format!("{path}: block {block} is not zero"));
        }
    }
    Ok(bytes / BLOCK)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_verified_and_a_changed_byte_is_noticed() {
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(1 << 20).unwrap();
        let path = file.path().to_str().unwrap();
        assert_eq!(check_zero(path, 1 << 20), Ok(256));
        let mut steps = 0;
        write(path, 3, 1 << 20, 40, &mut |done| steps = done).unwrap();
        assert_eq!(steps, 40);
        assert!(verify(path, 3, 1 << 20, 40).unwrap() > 100);
        assert!(verify(path, 4, 1 << 20, 40).is_err() && check_zero(path, 1 << 20).is_err());
        let (first, _) = Plan::new(3, 1 << 20, 40).writes[0];
        let mut byte = [0];
        file.as_file().read_exact_at(&mut byte, first * BLOCK + 77).unwrap();
        file.as_file().write_all_at(&[!byte[0]], first * BLOCK + 77).unwrap();
        assert!(verify(path, 3, 1 << 20, 40).unwrap_err().contains(&format!("block {first} ")));
    }
}
