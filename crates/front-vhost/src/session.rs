//! One monitor's connection on the reactor: its rings, and obeying its commands.

use std::cell::Cell;
use std::os::fd::OwnedFd;
use std::rc::Rc;

use crate::disk::Disk;
use crate::handler::{Answer, Command, Handler, serve};
use crate::inflight::Area;
use crate::mailbox::{Letter, mailbox};
use crate::ring::Ring;

/// Why a monitor is dropped.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SessionError {
    /// No ring, thread or socket for it.
    #[error(transparent)]
    System(#[from] std::io::Error),
    /// It broke the protocol.
    #[error(transparent)]
    Protocol(#[from] vhost::vhost_user::Error),
    /// It took memory away that requests use.
    #[error("it has shortened a memory file that is in use")]
    Shortened,
}

/// Serves one monitor until it goes away; requests under way are finished first.
///
/// # Errors
/// What the monitor did wrong, or why there is no thread for it.
pub(crate) async fn run(disk: Rc<Disk>, socket: OwnedFd) -> Result<(), SessionError> {
    let rt = disk.rt.clone();
    let kernel = rt.kernel()?;
    let rings: Vec<Rc<Ring>> = (0..disk.config.queues_max).map(|index| Ring::new(&disk, index)).collect();
    let loss = Loss::new(&socket)?;
    for ring in &rings {
        let loss = loss.clone();
        ring.on_loss(Rc::new(move || loss.disconnect()));
        rt.spawn("vhost-ring", ring.clone().run(kernel.clone())).detach();
    }
    let (asker, answerer) = mailbox();
    let handler = Handler::new(&disk, asker);
    let thread_rt = rt.clone();
    let thread = rt.spawn("vhost-monitor", async move {
        thread_rt.agent("esker-vhost", move |_| async move { serve(socket, handler) }).await
    });
    while let Some(Letter { question, reply }) = answerer.next().await {
        let answer = obey(&disk, &rings, question).await;
        for ring in &rings {
            ring.looks_for_loss();
        }
        // An asker that went away does not hear it.
        let _gone = reply.send(answer);
    }
    for ring in &rings {
        ring.stop().await;
        ring.end();
    }
    let end = thread.await?;
    if loss.is_told.get() { Err(SessionError::Shortened) } else { Ok(end?) }
}

/// Memory of the guest that is gone: its monitor is disconnected.
struct Loss {
    socket: OwnedFd,
    is_told: Cell<bool>,
}

impl Loss {
    fn new(socket: &OwnedFd) -> std::io::Result<Rc<Loss>> {
        Ok(Rc::new(Loss { socket: socket.try_clone()?, is_told: Cell::new(false) }))
    }

    fn disconnect(&self) {
        self.is_told.set(true);
        // Not connected any more is as good as shut down.
        let _gone = rustix::net::shutdown(&self.socket, rustix::net::Shutdown::Both);
    }
}

/// Carries out one command.
async fn obey(disk: &Disk, rings: &[Rc<Ring>], command: Command) -> Answer {
    let at = |ring: u16| &rings[usize::from(ring)];
    match command {
        Command::Features { by_index, flushes, enable } => {
            for ring in rings {
                ring.set_features(by_index, flushes);
                if enable {
                    ring.enable(true);
                }
            }
        }
        Command::Memory(memory) => rings.iter().for_each(|ring| ring.set_memory(memory.clone())),
        Command::Track { region, len } => {
            for (index, ring) in (0..).zip(rings) {
                ring.set_area(Area::new(&region, index, len));
            }
        }
        Command::Len { ring, len } => at(ring).set_len(len)?,
        Command::Addresses { ring, at: place } => at(ring).set_addresses(place)?,
        Command::Base { ring, index } => at(ring).set_base(index),
        Command::Start { ring, kick } => at(ring).start(Some(kick))?,
        Command::Call { ring, call } => at(ring).set_call(call),
        Command::Enable { ring, enabled } => at(ring).enable(enabled),
        Command::Stop { ring } => return Ok(at(ring).stop().await.into()),
        Command::Size => return Ok(disk.device.size()),
        Command::Reset => {
            for ring in rings {
                ring.enable(false);
                ring.stop().await;
            }
        }
    }
    Ok(0)
}
