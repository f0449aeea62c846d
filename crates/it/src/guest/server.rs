//! The program under test, as a process of its own.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// How long a server stands still before it is killed.
const STOPPED: Duration = Duration::from_millis(1500);

/// `esker serve` with its arguments, started as often as it is killed.
pub struct Server {
    esker: PathBuf,
    dir: PathBuf,
    args: Vec<String>,
    child: Child,
    /// The port of the exports on TCP.
    pub port: Option<u16>,
}

impl Server {
    /// Serves `stack`, in which DIR stands for `dir`; `disks` are exports with a vhost-user socket, `dir/EXPORT.vhost`.
    ///
    /// # Errors
    /// A server that does not come up.
    pub fn start(esker: &Path, dir: &Path, stack: &str, disks: &[&str]) -> Result<Server, String> {
        let place = dir.display();
        let mut args = vec!["serve".to_string(), stack.replace("DIR", &place.to_string()), "--json".to_string()];
        args.extend(["--control".to_string(), format!("{place}/esker.ctl")]);
        for disk in disks {
            args.extend(["--vhost-user".to_string(), format!("{disk}={place}/{disk}.vhost")]);
        }
        let (child, port) = spawn(esker, dir, &args)?;
        Ok(Server { esker: esker.to_path_buf(), dir: dir.to_path_buf(), args, child, port })
    }

    /// Kills it as a crash would, and starts it again. It stands still before that, while its clients ask for more
    /// and are not answered: requests are in flight when it dies.
    ///
    /// # Errors
    /// A server that does not come up again.
    pub fn crash(&mut self) -> Result<(), String> {
        self.signal("-STOP")?;
        std::thread::sleep(STOPPED);
        self.kill()?;
        self.again()
    }

    /// Kills it as a crash would.
    ///
    /// # Errors
    /// The system's.
    pub fn kill(&mut self) -> Result<(), String> {
        self.child.kill().and_then(|()| self.child.wait()).map(drop).map_err(|error| format!("the server: {error}"))
    }

    /// Starts it again.
    ///
    /// # Errors
    /// A server that does not come up again.
    pub fn again(&mut self) -> Result<(), String> {
        (self.child, self.port) = spawn(&self.esker, &self.dir, &self.args)?;
        Ok(())
    }

    /// What it tells about itself.
    ///
    /// # Errors
    /// A server that does not answer.
    pub fn status(&self) -> Result<serde_json::Value, String> {
        let control = self.dir.join("esker.ctl");
        let output = Command::new(&self.esker).args(["status", "--json", "--control"]).arg(control).output();
        let output = output.map_err(|error| format!("esker status: {error}"))?;
        serde_json::from_slice(&output.stdout)
            .map_err(|_| format!("esker status: {}", String::from_utf8_lossy(&output.stderr)))
    }

    /// The sum of a statistic over all parts that have it.
    ///
    /// # Errors
    /// As for [`Server::status`].
    pub fn stat(&self, name: &str) -> Result<f64, String> {
        let status = self.status()?;
        let parts = status["parts"].as_array().cloned().unwrap_or_default();
        let counts = parts.iter().filter_map(|part| part["stats"][name].as_f64());
        Ok(counts.fold(0.0, |sum, count| sum + count))
    }

    /// Stops it as an operator does; it must end well.
    ///
    /// # Errors
    /// Its log, if it does not.
    pub fn stop(mut self) -> Result<(), String> {
        self.signal("-TERM")?;
        match self.child.wait() {
            Ok(status) if status.success() => Ok(()),
            other => Err(format!("the server ended badly: {other:?}\n{}", log(&self.dir))),
        }
    }

    fn signal(&self, signal: &str) -> Result<(), String> {
        let id = self.child.id().to_string();
        Command::new("kill").args([signal, &id]).status().map(drop).map_err(|error| format!("kill: {error}"))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Ended already is fine.
        let _ended = self.child.kill();
        let _reaped = self.child.wait();
    }
}

fn log(dir: &Path) -> String {
    fs::read_to_string(dir.join("server.log")).unwrap_or_default()
}

/// Starts it and waits until clients may connect.
fn spawn(esker: &Path, dir: &Path, args: &[String]) -> Result<(Child, Option<u16>), String> {
    let told = |error: std::io::Error| format!("{}: {error}", esker.display());
    let file = fs::File::options().create(true).append(true).open(dir.join("server.log")).map_err(told)?;
    let mut child = Command::new(esker).args(args).stdout(Stdio::piped()).stderr(file).spawn().map_err(told)?;
    let mut port = None;
    for line in BufReader::new(child.stdout.take().expect("it is piped")).lines() {
        let line: serde_json::Value = line.ok().and_then(|l| serde_json::from_str(&l).ok()).unwrap_or_default();
        if let Some(uri) = line["uri"].as_str() {
            let rest = uri.strip_prefix("nbd://127.0.0.1:").and_then(|rest| rest.split('/').next());
            port = port.or(rest.and_then(|port| port.parse().ok()));
        }
        if line["control"].is_string() {
            return Ok((child, port));
        }
    }
    let _reaped = child.wait();
    Err(format!("the server ended at once:\n{}", log(dir)))
}
