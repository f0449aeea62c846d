//! Notices to the kernel that others changed what it remembers.
//!
//! They leave one at a time on a thread of their own, never where requests are read or answered. The kernel takes the
//! lock of a directory inside the write of a notice, and a caller that holds it may wait for an answer of ours.

use std::os::fd::OwnedFd;
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread;

use esker_block::Step;
use esker_rt::real::cross;
use esker_vfs::Change;
use esker_vfs::system::Hearer;

use super::numbers::Numbers;
use crate::proto::reply;
use crate::wire::Channel;

/// A notice, and what hears that the kernel has dropped its state.
type Notice = (Vec<u8>, cross::Sender<()>);

/// Writes notices. Its thread starts with the first one and ends with the last handle.
pub(super) struct Noticer {
    /// Not kept open: a mount whose session ended must not wait for a file system that still lives.
    fd: Weak<OwnedFd>,
    numbers: Numbers,
    line: Mutex<Option<Sender<Notice>>>,
}

impl Noticer {
    /// What a file system tells its changes.
    pub(super) fn hearer(channel: &Channel, numbers: Numbers) -> Hearer {
        let noticer = Noticer { fd: Arc::downgrade(&channel.fd()), numbers, line: Mutex::default() };
        Arc::new(move |change| noticer.tell(&change))
    }

    fn tell(&self, change: &Change) -> Step<()> {
        let (dropped, heard) = cross::oneshot();
        let mut line = self.line.lock().unwrap_or_else(PoisonError::into_inner);
        let sent = line.get_or_insert_with(|| start(&self.fd)).send((self.message(change), dropped));
        // If the thread could not start, or has ended, the notice is dropped, and the wait below ends.
        drop(sent);
        Step::later(async move {
            heard.await;
        })
    }

    fn message(&self, change: &Change) -> Vec<u8> {
        match change {
            Change::Range(ino, range) => {
                let [offset, len] = [range.start(), range.len()].map(|n| i64::try_from(n).unwrap_or(i64::MAX));
                reply::drop_inode(self.numbers.node(*ino), offset, len)
            }
            Change::Name(dir, name) => reply::drop_entry(self.numbers.node(*dir), name.name().bytes()),
            Change::Gone(ino) => reply::drop_inode(self.numbers.node(*ino), 0, 0),
        }
    }
}

fn start(fd: &Weak<OwnedFd>) -> Sender<Notice> {
    let (sender, notices) = mpsc::channel::<Notice>();
    let fd = fd.clone();
    let run = move || {
        for (bytes, dropped) in notices {
            // A kernel that does not know the inode has nothing to drop, and so has one whose mount is gone.
            let _unknown = fd.upgrade().map(|fd| rustix::io::write(&*fd, &bytes));
            dropped.send(());
        }
    };
    // Without the thread the receiver is gone, and `tell` does not wait.
    drop(thread::Builder::new().name("fuse-notices".into()).spawn(run));
    sender
}
