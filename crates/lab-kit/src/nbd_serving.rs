//! NBD servers side by side: a rival's program, and ours on a thread of its own; both are loaded by fio's own client.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use esker_front_nbd::listen::listen;
use esker_front_nbd::{Config, Export, Server};
use esker_rt::Rt;
use esker_rt::net::Address;
use esker_rt::sync::race;

use crate::bound::{BEGUN_WITHIN, Bound, connect};
use crate::experiment::LabError;
use crate::serving::{Serving, Stop};
use crate::{peer, rig};

/// What tells fio to use the export of `bytes` at `socket`.
pub fn export(socket: &Path, bytes: u64) -> [String; 3] {
    let uri = format!("--uri=nbd+unix:///?socket={}", socket.display());
    ["--ioengine=nbd".to_string(), uri, format!("--size={bytes}")]
}

/// A rival's server; killed when dropped.
pub struct Rival {
    program: Bound,
    /// Where it listens.
    pub socket: PathBuf,
}

impl Rival {
    /// Runs `command`, which is to listen at `socket`, and waits until it does.
    ///
    /// # Errors
    /// [`LabError::Rival`].
    pub fn start(program: &str, command: &mut Command, socket: PathBuf) -> Result<Rival, LabError> {
        // Left over by the last one, which was killed.
        let _gone = std::fs::remove_file(&socket);
        // It complains of each look whether it listens already.
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut rival = Rival { program: Bound::spawn(program.to_string(), command)?, socket };
        rival.program.connect(&rival.socket, BEGUN_WITHIN)?;
        Ok(rival)
    }

    /// Lets it end by itself, with everything stored.
    ///
    /// # Errors
    /// [`LabError::Rival`].
    pub fn end(mut self) -> Result<(), LabError> {
        peer::output("kill", &["-TERM", &self.program.pid().to_string()])?;
        self.program.child().wait().map(drop).map_err(|e| peer::fault("a rival's server", e))
    }
}

/// Our server of device `vol` of a stack, at `socket`. Before it listens, layer `vm` is asked for what `words` say,
/// if any.
///
/// # Errors
/// [`LabError::Rival`] if it does not listen.
pub fn ours(seed: u64, text: String, vol: &'static str, socket: &Path, words: &[&str]) -> Result<Serving, LabError> {
    // Left over by the last one.
    let _gone = std::fs::remove_file(socket);
    let (address, words) = (Address::Unix(socket.to_path_buf()), words.iter().map(ToString::to_string).collect());
    let serving = Serving::start(seed, move |rt, stop| serve(rt, text, vol, address, words, stop));
    connect(socket, BEGUN_WITHIN, || Ok(false)).map_err(|error| peer::fault("our own server", error))?;
    Ok(serving)
}

async fn serve(rt: Rt, text: String, vol: &'static str, address: Address, words: Vec<String>, stop: Stop) {
    let stack = rig::stack(&rt, &rig::spec(&text)).unwrap_or_else(|e| panic!("{e}"));
    stack.opened().await;
    if !words.is_empty() {
        stack.order("vm", &words).await.unwrap_or_else(|e| panic!("{e}"));
    }
    let device = rig::device(&stack, vol);
    let exports = vec![Export::new("vol", device)];
    let server = Server::new(&rt, stack.pool(), exports, Config::production()).unwrap_or_else(|e| panic!("{e}"));
    let listener = listen(&rt, &address).unwrap_or_else(|e| panic!("{e}"));
    race(server.serve(&listener), stop.asked(&rt)).await;
    server.stop().await;
    stack.close().await;
}
