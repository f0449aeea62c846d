//! Images of volumes: files of sectors, exports of NBD servers, and the formats that qemu-nbd opens.

mod file;
mod foreign;
mod remote;
mod stopped;

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use esker_front_nbd::Uri;
use esker_layer_thin::images::Source;

use crate::failure::Failure;
pub use file::RawSink;
pub use foreign::ForeignSink;
use remote::Remote;
pub use stopped::Stoppable;

/// The format of an image.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub enum Format {
    /// The sectors, one after the other
    Raw,
    /// QEMU
    Qcow2,
    /// QEMU, earlier
    Qed,
    /// VirtualBox
    Vdi,
    /// Hyper-V
    Vhdx,
    /// VMware
    Vmdk,
    /// Virtual PC (.vhd)
    Vpc,
}

/// How the bytes of an image begin.
const MARKS: [(&[u8], Format); 7] = [
    (b"QFI\xfb", Format::Qcow2),
    (b"QED\0", Format::Qed),
    (b"<<< ", Format::Vdi),
    (b"vhdxfile", Format::Vhdx),
    (b"KDMV", Format::Vmdk),
    (b"# Disk DescriptorFile", Format::Vmdk),
    (b"conectix", Format::Vpc),
];

/// How the URIs of exports begin.
const SCHEMES: [&str; 4] = ["nbd://", "nbd+unix://", "nbds://", "nbds+unix://"];

/// Why an image cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ImageError {
    /// It cannot be read.
    #[error("{0}: cannot be read: {1}")]
    Unread(String, io::Error),
    /// The program for the format is not there.
    #[error(
        "{0} is not installed; it is in Debian's package `qemu-utils`. An image in format raw needs no other program"
    )]
    Absent(&'static str),
    /// The program for the format fails.
    #[error("{0} fails: {1}")]
    Tool(&'static str, String),
    /// Its bytes are in other files, too.
    #[error(
        "{0}: its data is in \"{1}\", too, and an image from elsewhere may name any file; if you trust it, say so with \
         --format {2}"
    )]
    Elsewhere(String, String, &'static str),
    /// An export inside TLS.
    #[error("{0}: exports inside TLS are not read; copy it to a file with `nbdcopy`, and import that")]
    Tls(String),
    /// The export cannot be used.
    #[error("{0}: {1}")]
    Export(String, String),
}

impl Format {
    /// Its name, as qemu-img has it.
    pub fn word(self) -> &'static str {
        match self {
            Format::Raw => "raw",
            Format::Qcow2 => "qcow2",
            Format::Qed => "qed",
            Format::Vdi => "vdi",
            Format::Vhdx => "vhdx",
            Format::Vmdk => "vmdk",
            Format::Vpc => "vpc",
        }
    }

    /// The format that the ending of a file's name tells.
    pub fn of_name(path: &str) -> Format {
        match Path::new(path).extension().and_then(|ending| ending.to_str()) {
            Some("qcow2") => Format::Qcow2,
            Some("qed") => Format::Qed,
            Some("vdi") => Format::Vdi,
            Some("vhdx") => Format::Vhdx,
            Some("vmdk") => Format::Vmdk,
            Some("vhd" | "vpc") => Format::Vpc,
            Some(_) | None => Format::Raw,
        }
    }

    /// The format that a file's first bytes tell.
    fn of_start(start: &[u8]) -> Format {
        MARKS.iter().find(|(mark, _)| start.starts_with(mark)).map_or(Format::Raw, |(_, format)| *format)
    }
}

/// Opens the image at a path, or the export at an NBD URI. A format that is not given is told by the first bytes, and
/// an image that names other files is then refused.
///
/// # Errors
/// [`ImageError`].
pub fn open(place: &str, format: Option<Format>) -> Result<Box<dyn Source>, Failure> {
    if SCHEMES.iter().any(|scheme| place.starts_with(scheme)) {
        let uri: Uri = place.parse()?;
        if uri.tls {
            return Err(ImageError::Tls(place.to_string()).into());
        }
        return Ok(Box::new(Remote::connect(&uri).map_err(|why| ImageError::Export(place.to_string(), why))?));
    }
    let unread = |error| ImageError::Unread(place.to_string(), error);
    let file = File::open(place).map_err(unread)?;
    let mut start = [0; 32];
    let read = file.read_at(&mut start, 0).map_err(unread)?;
    Ok(match format.unwrap_or_else(|| Format::of_start(&start[..read])) {
        Format::Raw => Box::new(file::RawSource::of(file).map_err(unread)?),
        other => Box::new(foreign::open(place, other, format.is_some())?),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_are_told_by_first_bytes_and_by_endings() {
        for (start, format) in [(&b"QFI\xfb\0\0\0\x03"[..], Format::Qcow2), (b"KDMV", Format::Vmdk), (b"", Format::Raw)]
        {
            assert_eq!(Format::of_start(start), format);
        }
        for (name, format) in [("a.qcow2", Format::Qcow2), ("a.vhd", Format::Vpc), ("qcow2", Format::Raw)] {
            assert_eq!(Format::of_name(name), format, "{name}");
        }
    }
}
