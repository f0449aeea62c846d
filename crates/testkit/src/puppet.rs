//! A process with memory of its own that does as it is told, for tests of what is done to other processes. It is a
//! script of Python that first prints a number, mostly the address of its memory, and then one for each line that it
//! reads.

#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "another process is what it is for")]

use std::ffi::OsStr;
use std::io::{self, BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// The process, killed when dropped.
#[derive(Debug)]
pub struct Puppet {
    child: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
    first: u64,
}

impl Puppet {
    /// Starts `script` with an argument, and with more in its environment than this process has.
    ///
    /// # Errors
    /// If there is no python3.
    ///
    /// # Panics
    /// If the script does not begin with a number.
    pub fn start(script: &str, argument: u64, environment: &[(&str, &OsStr)]) -> io::Result<Puppet> {
        let mut command = Command::new("python3");
        command.args(["-c", script, &argument.to_string()]).envs(environment.iter().copied());
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let to = child.stdin.take().expect("it was asked for");
        let mut from = BufReader::new(child.stdout.take().expect("it was asked for"));
        let first = number(&mut from);
        Ok(Puppet { child, to, from, first })
    }

    /// Its number.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The number with which it began.
    pub fn first(&self) -> u64 {
        self.first
    }

    /// Tells it something, and waits for its answer.
    ///
    /// # Panics
    /// If it has ended, or answers something else than a number.
    pub fn send(&mut self, command: &str) -> u64 {
        self.begin(command);
        self.answer()
    }

    /// Tells it something that it does while this process does something else.
    ///
    /// # Panics
    /// If it has ended.
    pub fn begin(&mut self, command: &str) {
        writeln!(self.to, "{command}").expect("it lives and reads");
    }

    /// Waits for the answer to what was begun.
    ///
    /// # Panics
    /// As for [`Puppet::send`].
    pub fn answer(&mut self) -> u64 {
        number(&mut self.from)
    }
}

impl Drop for Puppet {
    fn drop(&mut self) {
        // It may have ended by itself.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

fn number(from: &mut impl BufRead) -> u64 {
    let mut line = String::new();
    from.read_line(&mut line).expect("its output is open");
    line.trim().parse().unwrap_or_else(|_| panic!("it says {line:?}, which is no number"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCRIPT: &str = "import sys, os\nprint(int(sys.argv[1]) + int(os.environ['MORE']), flush=True)\nfor line in sys.stdin: print(len(line.strip()), flush=True)";

    #[test]
    fn it_answers_in_turn_and_is_gone_when_dropped() {
        let mut puppet = match Puppet::start(SCRIPT, 40, &[("MORE", OsStr::new("2"))]) {
            Ok(puppet) => puppet,
            Err(error) => return crate::skip(crate::Ability::Program, format_args!("python3: {error}")),
        };
        assert_eq!((puppet.first(), puppet.send("four")), (42, 4));
        puppet.begin("seventy\nsix");
        assert_eq!((puppet.answer(), puppet.answer()), (7, 3));
        let folder = std::path::PathBuf::from(format!("/proc/{}", puppet.pid()));
        assert!(folder.exists());
        drop(puppet);
        assert!(!folder.exists());
    }
}
