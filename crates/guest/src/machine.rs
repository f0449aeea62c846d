//! One boot of a guest: qemu without hardware help, the kernel's console as the way back.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use crate::cpio::Archive;
use crate::image::Image;
use crate::log::Log;

const QEMU: &str = "qemu-system-x86_64";
const INIT: &str = include_str!("init.sh");
const CONSOLE: &str = "console=ttyS0 quiet panic=-1 mitigations=off nokaslr rdinit=/init";

/// What a guest is made from.
#[derive(Debug, Clone)]
pub struct Guest<'a> {
    /// Kernel and programs.
    pub image: &'a Image,
    /// Programs beside those of the image: their names, and where they are here.
    pub programs: Vec<(&'a str, &'a Path)>,
    /// Functions of the shell that the job uses.
    pub library: &'a str,
    /// Commands of the shell.
    pub job: String,
    /// Arguments of qemu for the devices.
    pub devices: Vec<String>,
    /// Processors.
    pub cpus: u32,
    /// Memory in MiB.
    pub memory_mib: u32,
    /// Killed after that.
    pub limit: Duration,
}

/// A running machine; killed when dropped.
struct Machine(Child);

impl Drop for Machine {
    fn drop(&mut self) {
        // Ended already is fine.
        let _ended = self.0.kill();
        let _reaped = self.0.wait();
    }
}

impl Guest<'_> {
    /// Boots, runs the job and gives what it told. `event` hears every `EVENT` line at once; when it says so, the
    /// machine is switched off without warning.
    ///
    /// # Errors
    /// qemu that cannot be run, or what `event` says. A guest that does not come to its end is no error: its log shows
    /// it.
    pub fn run(&self, dir: &Path, event: &mut dyn FnMut(&str) -> Result<Power, String>) -> Result<Log, String> {
        let initrd = self.initrd(dir)?;
        let started = Instant::now();
        let mut machine = Machine(self.command(&initrd).spawn().map_err(|error| {
            format!("{QEMU} cannot be run ({error}); install it with `cargo xtask peers` (package qemu-system-x86)")
        })?);
        let output = machine.0.stdout.take().expect("it is piped");
        let (sender, lines) = mpsc::channel();
        std::thread::spawn(move || {
            let mut reader = BufReader::new(output);
            let mut line = Vec::new();
            while matches!(reader.read_until(b'\n', &mut line), Ok(1..)) {
                let text = String::from_utf8_lossy(&line).trim_end().to_string();
                if sender.send(text).is_err() {
                    return;
                }
                line.clear();
            }
        });
        let mut log = Log::default();
        loop {
            let left = self.limit.saturating_sub(started.elapsed());
            match lines.recv_timeout(left) {
                Ok(line) => match log.add(&line) {
                    Some(what) if event(&what)? == Power::Off => break,
                    _ => {}
                },
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => {
                    log.late = true;
                    break;
                }
            }
        }
        drop(machine);
        log.seconds = started.elapsed().as_secs_f64();
        fs::remove_file(&initrd).map_err(|error| format!("{}: {error}", initrd.display()))?;
        Ok(log)
    }

    /// The base and behind it what this guest has beyond it.
    fn initrd(&self, dir: &Path) -> Result<PathBuf, String> {
        let told = |path: &Path| format!("{}: ", path.display());
        let mut own = Archive::default();
        own.file("init", INIT.as_bytes());
        own.file("lib.sh", self.library.as_bytes());
        own.file("job.sh", self.job.as_bytes());
        for (name, path) in &self.programs {
            let program = fs::read(path).map_err(|error| told(path) + &error.to_string())?;
            own.file(&format!("bin/{name}"), &program);
        }
        let base = &self.image.base;
        let mut bytes = fs::read(base).map_err(|error| told(base) + &error.to_string())?;
        bytes.extend(own.finish());
        let path = dir.join("initrd");
        fs::write(&path, bytes).map_err(|error| told(&path) + &error.to_string())?;
        Ok(path)
    }

    fn command(&self, initrd: &Path) -> Command {
        let (cpus, mib) = (self.cpus.to_string(), self.memory_mib);
        let mut command = Command::new(QEMU);
        command
            .args(["-accel", "tcg", "-nodefaults", "-display", "none", "-serial", "stdio", "-no-reboot", "-smp", &cpus])
            // Memory that a vhost-user server can map.
            .args(["-m", &format!("{mib}M"), "-object"])
            .arg(format!("memory-backend-memfd,id=mem,size={mib}M,share=on"))
            .args(["-machine", "pc,memory-backend=mem"])
            .arg("-kernel")
            .arg(&self.image.kernel)
            .arg("-initrd")
            .arg(initrd)
            .args(["-append", CONSOLE])
            .args(&self.devices)
            .stdin(Stdio::null())
            .stdout(Stdio::piped());
        command
    }
}

/// What becomes of a machine after an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Power {
    /// It goes on.
    On,
    /// It is cut off.
    Off,
}

/// Arguments of a network in which the guest reaches this machine's loopback interface as 10.0.2.2.
pub fn network() -> Vec<String> {
    ["-netdev", "user,id=net0", "-device", "virtio-net-pci,netdev=net0,romfile="].map(str::to_string).to_vec()
}

/// Arguments of a disk that qemu reaches as an NBD client; `reconnect` is for how many seconds it waits for a server
/// that has gone.
pub fn nbd_disk(number: u32, socket: &Path, export: &str, reconnect: u32) -> Vec<String> {
    let socket = socket.display();
    vec![
        "-blockdev".to_string(),
        format!(
            "driver=nbd,node-name=nbd{number},server.type=unix,server.path={socket},export={export},\
             reconnect-delay={reconnect},discard=unmap,cache.direct=on,cache.no-flush=off"
        ),
        "-device".to_string(),
        format!("virtio-blk-pci,drive=nbd{number},discard=on,write-zeroes=on"),
    ]
}

/// Arguments of a disk that a vhost-user server is; qemu connects again when the server has gone.
pub fn vhost_disk(number: u32, socket: &Path, queues: u32) -> Vec<String> {
    let socket = socket.display();
    vec![
        "-chardev".to_string(),
        format!("socket,id=vhost{number},path={socket},reconnect=1"),
        "-device".to_string(),
        format!("vhost-user-blk-pci,chardev=vhost{number},num-queues={queues}"),
    ]
}
