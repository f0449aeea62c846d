//! Sharing of equal pages by the kernel (KSM): its settings, what it saves, and the processes that can be told to take
//! part.

use std::path::{Path, PathBuf};

use esker_base::Nanos;

use super::knobs::{KnobError, Knobs, number, read};
use super::preload::RequestSocket;
use esker_hugepage::PAGE_BYTES;

const FOLDER: &str = "/sys/kernel/mm/ksm";

/// How pages are shared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Where preloaded libraries connect.
    pub socket: PathBuf,
    /// Pages that the kernel looks at in one go; nothing: as it is set.
    pub pages: Option<u64>,
    /// Its rest between two; nothing: as it is set.
    pub sleep: Option<Nanos>,
}

/// The kernel at work, and the socket.
#[derive(Debug)]
pub struct Merging {
    /// The connected processes.
    pub door: RequestSocket,
}

/// What sharing saves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Saved {
    /// Bytes that would be taken without it.
    pub bytes: u64,
    /// The same without what the kernel keeps to find equal pages.
    pub profit: i64,
    /// How often the kernel has looked at all pages.
    pub scans: u64,
    /// Connections of processes that are not managed.
    pub refused: u64,
}

impl Merging {
    /// Opens the socket and makes the kernel share, until `knobs` puts it back: then what is shared stays so.
    ///
    /// # Errors
    /// [`KnobError`].
    pub fn open(settings: &Settings, knobs: &mut Knobs) -> Result<Merging, KnobError> {
        let failed = |source| KnobError::Socket { path: settings.socket.clone(), source };
        let door = RequestSocket::open(&settings.socket).map_err(failed)?;
        let knob = |name: &str| Path::new(FOLDER).join(name);
        if let Some(pages) = settings.pages {
            knobs.set(&knob("pages_to_scan"), &pages.to_string())?;
        }
        if let Some(sleep) = settings.sleep {
            knobs.set(&knob("sleep_millisecs"), &(sleep.0 / 1_000_000).to_string())?;
        }
        knobs.set(&knob("run"), "1")?;
        Ok(Merging { door })
    }

    /// What it saves now.
    pub fn saved(&self) -> Saved {
        Saved { refused: self.door.refused, ..saved() }
    }
}

/// What sharing saves on this machine now.
pub fn saved() -> Saved {
    let number = |name: &str| -> i64 {
        read(&Path::new(FOLDER).join(name)).ok().and_then(|text| text.parse().ok()).unwrap_or(0)
    };
    Saved {
        bytes: number("pages_sharing").max(0) as u64 * PAGE_BYTES,
        profit: number("general_profit"),
        scans: number("full_scans").max(0) as u64,
        refused: 0,
    }
}

/// Bytes of a process' pages that are shared, and what that saves, as the kernel counts it (`ksm_stat`, Linux 6.1 and
/// later).
pub fn of_process(pid: u32) -> (u64, i64) {
    let text = std::fs::read_to_string(format!("/proc/{pid}/ksm_stat")).unwrap_or_default();
    let pages: u64 = number(&text, "ksm_merging_pages").unwrap_or(0);
    (pages * PAGE_BYTES, number(&text, "ksm_process_profit").unwrap_or(0))
}

/// Whether the kernel shares pages now.
pub fn is_running() -> bool {
    read(&Path::new(FOLDER).join("run")).is_ok_and(|run| run == "1")
}

/// Whether the kernel can share pages at all.
pub fn is_there() -> bool {
    Path::new(FOLDER).join("run").is_file()
}
