//! A key of `crypt` that a stack text holds by mistake, or that it refers to in a file or in the environment, and a
//! look for it in all that esker says.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use esker_lab_kit::serve_process::{ServeProcess, failed};
use esker_lab_kit::{Lab, LabError, peer, scratch};

/// The key in hexadecimal digits.
const KEY: &str = "00112233445566778899aabbccddeeff0f1e2d3c4b5a69788796a5b4c3d2e1f0";
/// So much of it in an output is a part of it, and no accident.
const SHOWN: usize = 16;
const VARIABLE: &str = "ESKER_LAB_PLANTED";
/// Ways in which a text holds a key by mistake.
const MISTAKES: [&str; 6] = ["key=KEY", "key=env:KEY", "key=file:KEY", "key= KEY", "kye=KEY", "KEY"];
/// Verbs that read a stack text, and refuse such a one.
const READERS: [&[&str]; 5] =
    [&["stack", "check"], &["stack", "dump"], &["stack", "dump", "--json"], &["stack", "explain"], &["serve"]];
/// Verbs that ask a server.
const ASKERS: [&[&str]; 4] = [&["status"], &["status", "--json"], &["stack", "dump"], &["top", "--once"]];

/// The outputs that show the key or a part of it.
///
/// # Errors
/// Servers that do not start, and outputs that are not there.
pub(crate) fn outputs_that_show_keys(parent: &Path, lab: &Lab<'_>) -> Result<Vec<String>, LabError> {
    // A server whose dumps are not off is to leave a core, where the kernel writes them beside it.
    let cores = getrlimit(Resource::Core);
    let widened = setrlimit(Resource::Core, Rlimit { current: cores.maximum, ..cores });
    widened.map_err(|error| failed(error.into()))?;
    let mut search = Search::default();
    for mistake in MISTAKES.map(|mistake| mistake.replace("KEY", KEY)) {
        let text = format!("d = memory size=1MiB | crypt {mistake} @ nbd=unix:/nowhere/sock");
        for verb in READERS {
            search.output(&[verb, &[&text]].concat(), false)?;
        }
    }
    for reference in [format!("env:{VARIABLE}"), "file:FOLDER/key".to_string()] {
        search.server(parent, &reference)?;
    }
    lab.say(format!("{} outputs were searched for a planted key, and {} show it", search.looked, search.found.len()));
    search.found.iter().for_each(|output| lab.say(format!("the key is in {output}")));
    Ok(search.found)
}

#[derive(Default)]
struct Search {
    looked: u32,
    found: Vec<String>,
}

impl Search {
    fn look(&mut self, name: String, bytes: &[u8]) {
        self.looked += 1;
        if shows_key(bytes) {
            self.found.push(name);
        }
    }

    /// Both streams of a verb, which is to succeed or not.
    fn output(&mut self, args: &[&str], succeeds: bool) -> Result<(), LabError> {
        let own = std::env::current_exe().map_err(failed)?;
        let output = Command::new(own).args(args).stdin(Stdio::null()).output().map_err(failed)?;
        let all = [output.stdout, output.stderr].concat();
        if output.status.success() != succeeds || all.is_empty() {
            let told = format!("`esker {}`: {}", args[..2.min(args.len())].join(" "), output.status);
            return Err(peer::fault("the search for keys", told));
        }
        self.look(format!("the output of `esker {}`", args[..2.min(args.len())].join(" ")), &all);
        Ok(())
    }

    /// A server whose stack refers to the key: what it tells, its log, and what it leaves when it dies.
    fn server(&mut self, parent: &Path, reference: &str) -> Result<(), LabError> {
        let folder = scratch::folder(parent)?;
        let at = |name: &str| folder.path().join(name);
        let private = |name: &str| File::options().write(true).create_new(true).mode(0o600).open(at(name));
        private("key").and_then(|mut file| file.write_all(KEY.as_bytes())).map_err(failed)?;
        let (log, cwd) = (private("log").map_err(failed)?, folder.path().to_path_buf());
        let text = format!(
            "[device.d]\nkind = \"memory\"\nsize = \"1MiB\"\n[device.c]\nkind = \"crypt\"\non = \"d\"\nkey = \"{reference}\"\n\
             [[export]]\nname = \"vol\"\ndevice = \"c\"\nnbd = \"unix:FOLDER/nbd\"\n"
        );
        let args = ["--log", "debug", "--metrics", "unix:FOLDER/metrics"];
        let errors = log.try_clone().map_err(failed)?;
        let mut server = ServeProcess::start_in(folder, &[], &text, &args, |command| {
            if reference.starts_with("env:") {
                command.env(VARIABLE, KEY);
            }
            command.current_dir(cwd).stdout(log).stderr(errors)
        })?;
        let control = server.at("control").display().to_string();
        for verb in ASKERS {
            self.output(&[verb, &["--control", &control]].concat(), true)?;
        }
        for layer in [format!("x = crypt key={KEY}"), format!("x = crypt {KEY}")] {
            self.output(&["stack", "insert", &layer, "--above", "c", "--control", &control], false)?;
        }
        self.look(format!("the metrics of a server with {reference}"), &page(&server.at("metrics")).map_err(failed)?);
        for name in ["environ", "cmdline"] {
            let bytes = std::fs::read(format!("/proc/{}/{name}", server.pid())).map_err(failed)?;
            self.look(format!("`/proc/PID/{name}` of a server with {reference}"), &bytes);
        }
        // As a fault does, which writes a core where the kernel is set so.
        peer::output("kill", &["-ABRT", &server.pid().to_string()])?;
        server.wait()?;
        self.left_behind(&server, reference)
    }

    /// Every file in the folder of a server that has died, but the one that is the key.
    fn left_behind(&mut self, server: &ServeProcess, reference: &str) -> Result<(), LabError> {
        let folder = server.at(".");
        for entry in std::fs::read_dir(folder).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            if entry.file_type().map_err(failed)?.is_file() && entry.file_name() != OsStr::new("key") {
                let name = format!("{:?} of a server with {reference}", entry.file_name());
                self.look(name, &std::fs::read(entry.path()).map_err(failed)?);
            }
        }
        Ok(())
    }
}

fn page(metrics: &Path) -> std::io::Result<Vec<u8>> {
    let mut stream = UnixStream::connect(metrics)?;
    stream.write_all(b"GET /metrics HTTP/1.1\r\n\r\n")?;
    let mut page = Vec::new();
    stream.read_to_end(&mut page)?;
    Ok(page)
}

/// Whether some bytes hold the beginning of the key, as digits or as it is.
fn shows_key(bytes: &[u8]) -> bool {
    let digits = &KEY.as_bytes()[..SHOWN];
    let raw: Vec<u8> = digits.chunks(2).map(|pair| byte(pair[0]) << 4 | byte(pair[1])).collect();
    let holds = |part: &[u8]| bytes.windows(part.len()).any(|window| window.eq_ignore_ascii_case(part));
    holds(digits) || bytes.windows(raw.len()).any(|window| window == raw)
}

fn byte(digit: u8) -> u8 {
    char::from(digit).to_digit(16).expect("a digit of the key") as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_found_as_digits_in_either_case_and_as_bytes() {
        let text = |key: &str| format!("a core with {key} in it").into_bytes();
        assert!(shows_key(&text(KEY)) && shows_key(&text(&KEY.to_uppercase())) && shows_key(&text(&KEY[..SHOWN])));
        let raw = [0x00, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77];
        assert!(shows_key(&[&b"before"[..], &raw, &b"after"[..]].concat()));
        assert!(!shows_key(&text(&KEY[1..SHOWN])) && !shows_key(b"") && !shows_key(&raw[1..]));
    }
}
