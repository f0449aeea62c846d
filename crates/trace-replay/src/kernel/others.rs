//! Calls about processes. Their effects on descriptors are known without them.

use esker_trace_calls::{Call, Object};
use rustix::fs::{Mode, OFlags};

use super::{CallExecutor, Fail, Reply, Skip, Turn};

/// What the kernel reads of a program to find out what it is.
const HEAD: u64 = 256;

impl CallExecutor<'_> {
    pub(super) fn others(&mut self, turn: &Turn<'_>) -> Reply {
        match &turn.step.call {
            Call::Chdir { file } => self.look_at_directory(file),
            Call::Exec { file } => self.exec(file),
            _ => Err(Fail::Skip(Skip::NotFiles)),
        }
    }

    /// Paths of the trace do not depend on working directories any more; what is left is the look-up.
    fn look_at_directory(&mut self, file: &Object) -> Reply {
        match file {
            Object::Fd(fd) => Ok(rustix::fs::fstat(&*self.inside(*fd)?).map(|_| 0)?),
            Object::Path { at, .. } => {
                self.open_at(at, OFlags::PATH | OFlags::DIRECTORY, Mode::empty())?;
                Ok(0)
            }
        }
    }

    /// Reads what the kernel reads first. What the program maps and reads later is in the trace.
    fn exec(&mut self, file: &Object) -> Reply {
        let buffer = match file {
            Object::Fd(fd) => {
                let file = self.inside(*fd)?;
                rustix::io::pread(&*file, self.buffers.room_to_read(HEAD), 0)
            }
            Object::Path { at, .. } => {
                let program = self.open_at(at, OFlags::RDONLY, Mode::empty())?;
                rustix::io::pread(&program, self.buffers.room_to_read(HEAD), 0)
            }
        };
        Ok(buffer.map(|_| 0)?)
    }
}
