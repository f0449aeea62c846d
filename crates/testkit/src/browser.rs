//! Pages in a real browser: on a wide and a narrow screen, light and dark, with the faults that can be measured there.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "tests start a browser, and leave screenshots in a folder that the environment names"
)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use esker_skip::{Ability, skip};

const PROGRAM: &str = "chromium";
/// Widths of the screens in pixels.
const WIDTHS: [u32; 2] = [1280, 400];
/// Height of a screenshot.
const HEIGHT: u32 = 4800;
/// Environment variable with a folder for screenshots.
const SCREENSHOTS: &str = "ESKER_SCREENSHOTS";
const PROBE: &str = include_str!("browser/probe.js");
/// The program's names of schemes.
const SCHEMES: [(&str, u8); 2] = [("dark", 0), ("light", 1)];

/// Shows a page in Chromium, and panics with the faults that it has there. A fault is a page that is wider than its
/// window, or raw markup in its text. Empty figures are faults. So are words that are cut off, covered, too small or
/// hard to read. Without the program the test is skipped. The folder of `ESKER_SCREENSHOTS` gets screenshots, which
/// `name` names.
///
/// # Panics
/// If the page has faults, or the program fails.
pub fn check(name: &str, page: &str) {
    if Command::new(PROGRAM).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_err() {
        return skip(Ability::Program, format!("{PROGRAM} is not installed"));
    }
    let folder = Folder::new(name);
    fs::write(folder.0.join("page.html"), page).expect("scratch");
    let frame = |width: u32| format!("<iframe width={width} height={HEIGHT} src=page.html style=border:0></iframe>");
    let frames = WIDTHS.map(frame).concat();
    let dress = "<style>:root { color-scheme: light dark } body { margin: 0; display: flex }</style>";
    let around = format!("<!DOCTYPE html><meta charset=utf-8>{dress}<script>{PROBE}</script><body>{frames}");
    fs::write(folder.0.join("frames.html"), around).expect("scratch");
    let faults: Vec<String> = SCHEMES.iter().flat_map(|scheme| folder.faults(*scheme)).collect();
    assert!(faults.is_empty(), "{name}: the page has faults in {PROGRAM}:\n{}", faults.join("\n"));
    if let Some(shots) = std::env::var_os(SCREENSHOTS) {
        SCHEMES
            .iter()
            .for_each(|scheme| folder.shoot(*scheme, &Path::new(&shots).join(format!("{name}-{}.png", scheme.0))));
    }
}

/// A scratch folder with the page and the profile of the browser.
struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

impl Folder {
    fn new(name: &str) -> Folder {
        let folder = std::env::temp_dir().join(format!("esker-browser-{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("scratch");
        Folder(folder)
    }

    /// What the program prints of the frames in a scheme.
    fn run(&self, scheme: u8, args: &[String]) -> String {
        let mut command = Command::new(PROGRAM);
        command.args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--hide-scrollbars",
            "--allow-file-access-from-files",
        ]);
        command.arg(format!("--user-data-dir={}", self.0.join("profile").display()));
        command.arg(format!("--window-size={},{HEIGHT}", WIDTHS.iter().sum::<u32>()));
        command.arg(format!("--blink-settings=preferredColorScheme={scheme}")).args(args);
        let output = command.arg(self.0.join("frames.html")).output().expect("the program starts");
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{PROGRAM} ended with {}: {told}", output.status);
        String::from_utf8(output.stdout).expect("documents are text")
    }

    /// The faults of the page in a scheme.
    fn faults(&self, (scheme, number): (&str, u8)) -> Vec<String> {
        let document = self.run(number, &["--dump-dom".to_string()]);
        let told = document.split_once("<title>faults ").and_then(|(_, rest)| Some(rest.split_once("</title>")?.0));
        let told = told.unwrap_or_else(|| panic!("the probe told nothing:\n{document}"));
        let is_dark = scheme == "dark";
        let faults = told.strip_prefix(&format!("[{is_dark}")).and_then(|rest| rest.strip_suffix(']'));
        let faults = faults.unwrap_or_else(|| panic!("{PROGRAM} does not take the scheme {scheme}: {told}"));
        if faults.is_empty() { Vec::new() } else { vec![faults.trim_start_matches(',').replace("\",\"", "\"\n\"")] }
    }

    fn shoot(&self, (_, number): (&str, u8), file: &Path) {
        self.run(number, &[format!("--screenshot={}", file.display())]);
    }
}
