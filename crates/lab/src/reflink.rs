//! What file systems that share blocks take for `cp --reflink`: on an image of their own, mounted through a loop
//! device.

use std::path::{Path, PathBuf};

use esker_base::units::GIB;

use esker_lab_kit::{Lab, LabError, peer, scratch, timing};

/// Bytes of the image: room for the file, and for whatever the file system keeps.
const IMAGE: u64 = 3 * GIB;

/// A mounted image; unmounted when dropped.
struct Mounted(PathBuf);

impl Drop for Mounted {
    fn drop(&mut self) {
        // A failure leaves a mount that the user sees and ends.
        let _gone = peer::output("umount", &[self.0.display().to_string()]);
    }
}

/// Milliseconds of `cp --reflink=always` of 1 GiB that was written in order, on what `mkfs` makes: the median of
/// `rounds`, less that of an empty file, which is what starting the program takes.
///
/// # Errors
/// [`LabError::Rival`]: without root nothing can be mounted.
pub(crate) fn milliseconds(mkfs: &str, rounds: u32, lab: &Lab<'_>) -> Result<f64, LabError> {
    let dir = lab.folder()?;
    let fault = LabError::scratch(dir.path());
    let (image, mount) = (dir.path().join("image"), dir.path().join("mount"));
    std::fs::File::create_new(&image).and_then(|file| file.set_len(IMAGE)).map_err(fault)?;
    std::fs::create_dir(&mount).map_err(fault)?;
    let text = |path: &Path| path.display().to_string();
    peer::output(mkfs, &["-q", &text(&image)])?;
    let mounted = peer::output("mount", &["-o", "loop", &text(&image), &text(&mount)]);
    mounted.map_err(|e| peer::fault("mount", format!("{e}; this experiment takes root")))?;
    let _mounted = Mounted(mount.clone());
    scratch::random_file(&mount.join("whole"), GIB, lab.seed)?;
    std::fs::File::create_new(mount.join("empty")).map_err(fault)?;
    let copy = |from: &str| {
        timing::median_of(rounds, |round| {
            let to = text(&mount.join(format!("{from}-{round}")));
            let words = ["--reflink=always", &text(&mount.join(from)), &to];
            Ok(timing::seconds(|| peer::output("cp", &words))? * 1e3)
        })
    };
    Ok(copy("whole")? - copy("empty")?)
}
