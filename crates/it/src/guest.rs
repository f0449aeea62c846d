//! Guests (`esker-guest`) whose own drivers use what Esker serves.
//!
//! Reading order: [`IMAGE`] (what guests are made of), [`server`] (the program under test), [`scenarios`] (what is
//! tested).

pub mod scenarios;
pub mod server;

use std::fs;
use std::path::{Path, PathBuf};

use esker_guest::image::{Image, Recipe};
use esker_guest::log::Log;
use scenarios::{Bench, SCENARIOS, Scenario};

/// The guests' kernel and programs.
pub const IMAGE: Recipe = Recipe {
    name: "image-3",
    kernels: &["linux-image-amd64"],
    packages: &[
        "busybox-static",
        "e2fsprogs",
        "xfsprogs",
        "nilfs-tools",
        "f2fs-tools",
        "btrfs-progs",
        "nbd-client",
        "util-linux",
        "libc6",
        "libgcc-s1",
    ],
    programs: &[
        "busybox",
        "mke2fs",
        "e2fsck",
        "mkfs.xfs",
        "xfs_repair",
        "mkfs.nilfs2",
        "nilfs_cleanerd",
        "lscp",
        "lssu",
        "mkcp",
        "mkfs.f2fs",
        "fsck.f2fs",
        "btrfs",
        "mkfs.btrfs",
        "nbd-client",
        "blkdiscard",
    ],
    modules: &[
        "virtio_pci",
        "virtio_blk",
        "virtio_net",
        "nbd",
        "crc32c_generic",
        "crc32_generic",
        "ext4",
        "xfs",
        "btrfs",
        "nilfs2",
        "f2fs",
    ],
};

/// Functions of the shell that the guests' jobs use.
pub const LIBRARY: &str = include_str!("guest/lib.sh");
/// Memory of a guest in MiB.
pub const MEMORY_MIB: u32 = 640;

/// What a run of guests is made from.
pub struct Options {
    /// Names of scenarios; all if there are none.
    pub only: Vec<String>,
    /// The program under test.
    pub esker: PathBuf,
    /// The program of the loads.
    pub load: PathBuf,
    /// Where kernel, logs and summary are kept.
    pub cache: PathBuf,
}

/// Runs the scenarios, prints each as it ends, and writes the summary beside the logs. True if all went well.
///
/// # Errors
/// What kept guests from being run at all.
pub fn run(options: &Options) -> Result<bool, String> {
    let unknown = options.only.iter().find(|name| !SCENARIOS.iter().any(|scenario| scenario.name == **name));
    if let Some(name) = unknown {
        let known: Vec<&str> = SCENARIOS.iter().map(|scenario| scenario.name).collect();
        return Err(format!("there is no scenario {name}; there are: {}", known.join(", ")));
    }
    let image = Image::prepare(&options.cache, &IMAGE)?;
    let wanted = |scenario: &&Scenario| options.only.is_empty() || options.only.iter().any(|n| n == scenario.name);
    let (mut summary, mut all_good) = (String::new(), true);
    for scenario in SCENARIOS.iter().filter(wanted) {
        let (good, text) = one(scenario, options, &image)?;
        print!("{text}");
        all_good &= good;
        summary.push_str(&text);
    }
    let path = options.cache.join("summary.txt");
    write(&path, &summary)?;
    println!("{}; summary: {}", if all_good { "all went well" } else { "NOT all went well" }, path.display());
    Ok(all_good)
}

/// Runs one scenario in a folder of its own.
fn one(scenario: &Scenario, options: &Options, image: &Image) -> Result<(bool, String), String> {
    let dir = tempfile::tempdir_in(&options.cache).map_err(|error| format!("{}: {error}", options.cache.display()))?;
    let bench = Bench { image, esker: &options.esker, load: &options.load, dir: dir.path() };
    let result = (scenario.run)(&bench);
    keep(&options.cache, scenario.name, "server.log", &read(&dir.path().join("server.log")))?;
    let logs = match result {
        Ok(logs) => logs,
        Err(error) => return Ok((false, format!("{}: FAILED: {error}\n", scenario.name))),
    };
    let text: String = logs.iter().map(|log| log.text.as_str()).collect();
    keep(&options.cache, scenario.name, "console.log", &text)?;
    let good = logs.iter().all(Log::is_good);
    Ok((good, described(scenario, &logs)))
}

fn described(scenario: &Scenario, logs: &[Log]) -> String {
    let (kernel, seconds) = (&logs[0].kernel, logs.iter().map(|log| log.seconds).sum::<f64>());
    let (boots, steps) = (logs.len(), logs.iter().map(|log| log.rows.len()).sum::<usize>());
    let mut text = format!("{}: {}\n", scenario.name, scenario.what);
    text += &format!("  kernel {kernel}, {boots} boots, {steps} steps, {seconds:.0} s\n");
    for log in logs {
        text += &log.table();
        if log.late {
            text += "  the guest did not end in time\n";
        } else if !log.done {
            text += "  the guest did not come to its end\n";
        }
    }
    text
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

fn keep(cache: &Path, scenario: &str, what: &str, text: &str) -> Result<(), String> {
    write(&cache.join(format!("{scenario}.{what}")), text)
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))
}
