//! Formats of other systems: qemu-nbd opens them, and serves them at a socket that nothing else can reach.

use std::io::{self, ErrorKind, Read};
use std::ops::Range;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf, absolute};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use esker_front_nbd::Uri;
use esker_layer_thin::images::{Sink, Source};
use esker_rt::net::Address;
use serde_json::Value;
use tempfile::TempDir;

use super::remote::Remote;
use super::{Format, ImageError};

const IMG: &str = "qemu-img";
const NBD: &str = "qemu-nbd";
/// Time within which qemu-nbd listens, and how often that is looked for.
const BEGUN_WITHIN: Duration = Duration::from_secs(30);
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// An image that qemu-nbd serves.
pub struct Served {
    remote: Option<Remote>,
    child: Child,
    /// Holds the socket.
    _folder: TempDir,
}

/// Opens an image for reading. Unless it is `trusted`, one that names other files is refused.
///
/// # Errors
/// [`ImageError`].
pub fn open(path: &str, format: Format, trusted: bool) -> Result<Served, ImageError> {
    let place = absolute(path).map_err(|error| ImageError::Unread(path.to_string(), error))?;
    let told = run(IMG, Command::new(IMG).args(["info", "--output=json", "-f", format.word()]).arg(&place))?;
    let info: Value = serde_json::from_str(&told).map_err(|error| ImageError::Tool(IMG, error.to_string()))?;
    match elsewhere(&info, &place) {
        Some(other) if !trusted => Err(ImageError::Elsewhere(path.to_string(), other, format.word())),
        Some(_) | None => Served::start(&place, format, &["--read-only"]),
    }
}

/// Another file that an image says to hold a part of its data.
fn elsewhere(info: &Value, place: &Path) -> Option<String> {
    let data = &info["format-specific"]["data"];
    let extents = data["extents"].as_array().into_iter().flatten().map(|extent| &extent["filename"]);
    let named = [&info["backing-filename"], &data["data-file"]].into_iter().chain(extents);
    named.filter_map(Value::as_str).find(|name| Path::new(name) != place).map(str::to_string)
}

/// Runs a program to its end, and gives what it prints.
fn run(program: &'static str, command: &mut Command) -> Result<String, ImageError> {
    let output = command.stdin(Stdio::null()).output().map_err(|error| unstarted(program, &error))?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => Err(ImageError::Tool(program, String::from_utf8_lossy(&output.stderr).trim_end().to_string())),
    }
}

fn unstarted(program: &'static str, error: &io::Error) -> ImageError {
    match error.kind() {
        ErrorKind::NotFound => ImageError::Absent(program),
        _ => ImageError::Tool(program, error.to_string()),
    }
}

impl Served {
    fn start(place: &Path, format: Format, options: &[&str]) -> Result<Served, ImageError> {
        let failed = |error: io::Error| ImageError::Tool(NBD, error.to_string());
        let folder = tempfile::tempdir().map_err(failed)?;
        let socket = folder.path().join("image.sock");
        let mut command = Command::new(NBD);
        command.arg("--socket").arg(&socket).args(["--format", format.word()]).args(options).arg(place);
        // Signals of a terminal are for this program alone: what they stop is cleaned up.
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).process_group(0);
        let child = command.spawn().map_err(|error| unstarted(NBD, &error))?;
        let mut served = Served { remote: None, child, _folder: folder };
        served.remote = Some(served.connect(socket)?);
        Ok(served)
    }

    fn connect(&mut self, socket: PathBuf) -> Result<Remote, ImageError> {
        let begun = Instant::now();
        let uri = Uri { address: Address::Unix(socket.clone()), export: String::new(), tls: false };
        while !socket.exists() {
            let ended = self.child.try_wait().map_err(|error| ImageError::Tool(NBD, error.to_string()))?;
            if ended.is_some() || begun.elapsed() > BEGUN_WITHIN {
                let _ended = self.child.kill();
                return Err(ImageError::Tool(NBD, self.complaint()));
            }
            sleep(LOOK_EVERY);
        }
        Remote::connect(&uri).map_err(|why| ImageError::Tool(NBD, why))
    }

    /// The last words of qemu-nbd, which has ended.
    fn complaint(&mut self) -> String {
        let mut text = String::new();
        let read = self.child.stderr.take().map(|mut errors| errors.read_to_string(&mut text));
        match read {
            Some(Ok(_)) if !text.trim().is_empty() => text.trim_end().to_string(),
            _ => "it ended without a word".to_string(),
        }
    }

    fn remote(&mut self) -> &mut Remote {
        self.remote.as_mut().expect("it is connected until it is closed")
    }

    /// Makes everything durable, and waits until qemu-nbd has closed the image.
    fn close(&mut self) -> io::Result<()> {
        self.remote().flush()?;
        self.remote.take().expect("it was there").close()?;
        match self.child.wait()?.success() {
            true => Ok(()),
            false => Err(io::Error::other(ImageError::Tool(NBD, self.complaint()))),
        }
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        // Ended already is fine.
        let _ended = self.child.kill();
        let _reaped = self.child.wait();
    }
}

impl Source for Served {
    fn bytes(&self) -> u64 {
        self.remote.as_ref().expect("a source is not closed").bytes()
    }

    fn next_data(&mut self, from: u64) -> io::Result<Option<Range<u64>>> {
        self.remote().next_data(from)
    }

    fn read(&mut self, at: u64, bytes: &mut [u8]) -> io::Result<()> {
        self.remote().read(at, bytes)
    }
}

/// A new image that is written.
pub struct ForeignSink {
    place: PathBuf,
    format: Format,
    served: Option<Served>,
}

impl ForeignSink {
    /// An image at `path`. A file that is there is replaced.
    ///
    /// # Errors
    /// The programs for it are not installed.
    pub fn new(path: &str, format: Format) -> Result<ForeignSink, ImageError> {
        for program in [IMG, NBD] {
            run(program, Command::new(program).arg("--version"))?;
        }
        let place = absolute(path).map_err(|error| ImageError::Unread(path.to_string(), error))?;
        Ok(ForeignSink { place, format, served: None })
    }

    fn served(&mut self) -> &mut Served {
        self.served.as_mut().expect("it has begun")
    }
}

impl Sink for ForeignSink {
    fn begin(&mut self, bytes: u64) -> io::Result<()> {
        let mut create = Command::new(IMG);
        create.args(["create", "-q", "-f", self.format.word()]).arg(&self.place).arg(bytes.to_string());
        run(IMG, &mut create).map_err(io::Error::other)?;
        let options = ["--discard=unmap", "--detect-zeroes=unmap"];
        self.served = Some(Served::start(&self.place, self.format, &options).map_err(io::Error::other)?);
        Ok(())
    }

    fn write(&mut self, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.served().remote().write(at, bytes)
    }

    fn end(&mut self) -> io::Result<()> {
        self.served().close()
    }
}
