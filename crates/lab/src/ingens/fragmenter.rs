//! Fragments the free memory of this machine, so that compaction cannot undo it: what lies in a pipe is not moved.

use std::fs::File;
use std::io::{Read, Write};

use esker_base::units::MIB;
use esker_hugepage::PAGE_BYTES;
use rustix::pipe::{PipeFlags, fcntl_setpipe_size, pipe_with};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use esker_lab_kit::{LabError, machine::told_bytes, peer};

/// What a pipe holds at most without further rights.
const PIPE: usize = MIB as usize;
/// Free memory is looked at after so many pipes.
const LOOKED_EVERY: usize = 64;
/// Descriptors that are left for others.
const SPARE: usize = 256;

/// Fragmented memory, until this is dropped.
pub(crate) struct Fragmenter {
    pipes: Vec<File>,
}

impl Fragmenter {
    /// Takes free memory until `leave` bytes are free, and gives back all but one page of each MiB.
    ///
    /// # Errors
    /// The kernel's.
    pub(crate) fn fragment(leave: u64) -> Result<Fragmenter, LabError> {
        let failed = |error: std::io::Error| peer::fault("the fragmenter", error);
        let limit = getrlimit(Resource::Nofile);
        setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit })
            .map_err(|error| failed(error.into()))?;
        let most = limit.maximum.map_or(usize::MAX, |most| most as usize).saturating_sub(SPARE);
        let content = vec![0x5a; PIPE];
        let mut pipes = Vec::new();
        while pipes.len() < most && (pipes.len() % LOOKED_EVERY != 0 || free_bytes() > leave) {
            pipes.push(full_pipe(&content).map_err(failed)?);
        }
        let mut page = vec![0; PIPE - PAGE_BYTES as usize];
        pipes.iter_mut().try_for_each(|pipe| pipe.read_exact(&mut page)).map_err(failed)?;
        Ok(Fragmenter { pipes })
    }

    /// Bytes that it still holds.
    pub(crate) fn held(&self) -> u64 {
        self.pipes.len() as u64 * PAGE_BYTES
    }
}

/// The end of a full pipe from which it can be read.
fn full_pipe(content: &[u8]) -> std::io::Result<File> {
    // A pipe that would be smaller than asked for must fail, not wait.
    let (reader, writer) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
    fcntl_setpipe_size(&writer, content.len())?;
    File::from(writer).write_all(content)?;
    Ok(File::from(reader))
}

fn free_bytes() -> u64 {
    told_bytes("/proc/meminfo", "MemFree").unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pipe_holds_a_page_of_each_mebibyte() {
        let mut fragmenter = Fragmenter::fragment(free_bytes().saturating_sub(8 * MIB)).unwrap();
        assert_eq!(fragmenter.held(), fragmenter.pipes.len() as u64 * 4096);
        assert!(!fragmenter.pipes.is_empty());
        let mut left = vec![0; 4096];
        fragmenter.pipes[0].read_exact(&mut left).unwrap();
        assert!(left.iter().all(|byte| *byte == 0x5a));
        assert_eq!(fragmenter.pipes[0].read(&mut left).unwrap(), 0, "it was the last one");
    }
}
