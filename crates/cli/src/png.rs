//! Plots as PNG: drawn as SVG, and converted by a program of the user's.
//!
//! A rasteriser in this program would be larger than all that draws, and it would bring fonts of its own.

use std::ffi::OsStr;
use std::io::{self, Write};
use std::path::Path;
use std::process::Command;

use tempfile::NamedTempFile;

const PROGRAM: &str = "rsvg-convert";
/// Pixels for each unit of a drawing.
const ZOOM: &str = "--zoom=2";

/// Why there is no PNG.
#[derive(Debug, thiserror::Error)]
pub enum PngError {
    /// The program is not there.
    #[error(
        "{PROGRAM} draws PNG files, and it cannot be run: {0}; install it (Debian: librsvg2-bin), or name a file that ends with .svg"
    )]
    NoProgram(io::Error),
    /// The program refuses the drawing.
    #[error("{PROGRAM} failed: {0}; name a file that ends with .svg")]
    Failed(String),
    /// There is no file to hand the drawing over in.
    #[error("a scratch file for {PROGRAM} fails: {0}; make room in the folder for temporary files")]
    Scratch(io::Error),
}

/// Whether a file's name is that of a PNG file.
pub fn is_name(path: &str) -> bool {
    Path::new(path).extension() == Some(OsStr::new("png"))
}

/// Makes sure that the program can be run.
///
/// # Errors
/// [`PngError::NoProgram`].
pub fn demand() -> Result<(), PngError> {
    Command::new(PROGRAM).arg("--version").output().map(drop).map_err(PngError::NoProgram)
}

/// The bytes of a PNG file of a drawing.
///
/// # Errors
/// [`PngError`].
pub fn of_svg(svg: &[u8]) -> Result<Vec<u8>, PngError> {
    let written = NamedTempFile::new().and_then(|mut file| file.write_all(svg).map(|()| file));
    let file = written.map_err(PngError::Scratch)?;
    let output = Command::new(PROGRAM).args(["--format=png", ZOOM]).arg(file.path()).output();
    let output = output.map_err(PngError::NoProgram)?;
    match output.status.success() {
        true => Ok(output.stdout),
        false => Err(PngError::Failed(String::from_utf8_lossy(&output.stderr).trim().to_string())),
    }
}
