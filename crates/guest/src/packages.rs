//! Debian packages: found with what they need, downloaded and read, never installed.

use std::collections::BTreeSet;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Libraries that no program of ours loads, though packages name them: the tables of Unicode alone are 30 MB.
const NOT_NEEDED: &[&str] = &["libicu", "libc-bin", "libpam", "libsystemd", "libcrypt1"];

/// Runs a program and gives what it printed.
fn output(program: &str, args: &[&str], dir: &Path) -> Result<String, String> {
    let output = Command::new(program).args(args).current_dir(dir).stdin(Stdio::null()).output();
    let output = output.map_err(|error| format!("{program} cannot be run ({error}): guests need Debian's packages"))?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => Err(format!("{program} {}: {}", args.join(" "), String::from_utf8_lossy(&output.stderr).trim_end())),
    }
}

const PLAIN: &[&str] =
    &["depends", "--no-recommends", "--no-suggests", "--no-conflicts", "--no-breaks", "--no-replaces", "--no-enhances"];

/// Packages that `packages` depend on.
fn depends(packages: &[&str]) -> Result<Vec<String>, String> {
    let told = output("apt-cache", &[PLAIN, packages].concat(), Path::new("."))?;
    Ok(dependencies(&told))
}

/// The names in what `apt-cache depends` prints; those of virtual packages are left out.
fn dependencies(told: &str) -> Vec<String> {
    let name = |line: &str| {
        let (kind, name) = line.trim().trim_start_matches('|').split_once(": ")?;
        (matches!(kind, "Depends" | "PreDepends") && !name.starts_with('<')).then(|| name.to_string())
    };
    told.lines().filter_map(name).collect()
}

/// The package of the kernel that the first known one of `kernels` stands for.
///
/// # Errors
/// No such package: the lists are missing.
pub fn kernel(kernels: &[&str]) -> Result<String, String> {
    let of = |name: &&str| depends(&[*name]).ok()?.into_iter().find(|name| name.starts_with("linux-image-"));
    kernels.iter().find_map(of).ok_or_else(|| {
        let names = kernels.join(", ");
        format!("Debian's kernel ({names}) is not in the lists of packages: run `apt-get update` as root")
    })
}

/// `packages` and all libraries that they need.
///
/// # Errors
/// A package that is not in the lists.
pub fn with_libraries(packages: &[&str]) -> Result<BTreeSet<String>, String> {
    let library = |name: &String| {
        (name.starts_with("lib") || name.starts_with("zlib")) && !NOT_NEEDED.iter().any(|no| name.starts_with(no))
    };
    let mut found: BTreeSet<String> = BTreeSet::new();
    let mut level: BTreeSet<String> = packages.iter().map(ToString::to_string).collect();
    while !level.is_empty() {
        let names: Vec<&str> = level.iter().map(String::as_str).collect();
        let needed = depends(&names)?;
        found.append(&mut level);
        level = needed.into_iter().filter(library).filter(|name| !found.contains(name)).collect();
    }
    Ok(found)
}

/// Downloads `packages` into `dir` and gives their files.
///
/// # Errors
/// What apt-get says.
pub fn download(packages: &BTreeSet<String>, dir: &Path) -> Result<Vec<PathBuf>, String> {
    std::fs::create_dir_all(dir).map_err(|error| format!("{}: {error}", dir.display()))?;
    let names: Vec<&str> = packages.iter().map(String::as_str).collect();
    // As the user that we are: apt's own one may not see the folder.
    output("apt-get", &[&["download", "-o", "APT::Sandbox::User=root"][..], &names].concat(), dir)?;
    let entries = std::fs::read_dir(dir).map_err(|error| format!("{}: {error}", dir.display()))?;
    let files = entries.filter_map(|entry| Some(entry.ok()?.path()));
    Ok(files.filter(|file| file.extension().is_some_and(|kind| kind == "deb")).collect())
}

/// An entry of a package: its path without `./`, and what it is.
pub enum Entry {
    /// A file's bytes.
    File(Vec<u8>),
    /// A link's target.
    Link(String),
}

/// Calls `each` for the files and links in a package whose path `wanted` accepts.
///
/// # Errors
/// dpkg-deb's, or those of `each`.
pub fn read(
    package: &Path,
    wanted: &dyn Fn(&str) -> bool,
    each: &mut dyn FnMut(&str, Entry) -> Result<(), String>,
) -> Result<(), String> {
    let place = package.display();
    let mut child = Command::new("dpkg-deb")
        .arg("--fsys-tarfile")
        .arg(package)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| format!("dpkg-deb cannot be run: {error}"))?;
    let mut archive = tar::Archive::new(child.stdout.take().expect("it is piped"));
    let entries = archive.entries().map_err(|error| format!("{place}: {error}"))?;
    for entry in entries {
        let mut entry = entry.map_err(|error| format!("{place}: {error}"))?;
        let path = entry.path().map_err(|error| format!("{place}: {error}"))?.display().to_string();
        let path = path.trim_start_matches("./").to_string();
        if !wanted(&path) {
            continue;
        }
        let kind = entry.header().entry_type();
        if kind.is_symlink() {
            let target = entry.link_name().ok().flatten().map(|target| target.display().to_string());
            each(&path, Entry::Link(target.unwrap_or_default()))?;
        } else if kind.is_file() {
            let mut bytes = Vec::new();
            entry.read_to_end(&mut bytes).map_err(|error| format!("{place}: {error}"))?;
            each(&path, Entry::File(bytes))?;
        }
    }
    match child.wait() {
        Ok(status) if status.success() => Ok(()),
        other => Err(format!("dpkg-deb of {place} ended badly: {other:?}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dependencies_are_read_from_what_apt_prints() {
        let told = "nbd-client\n  PreDepends: libc6\n  Depends: libgnutls30\n |Depends: debconf\n  \
                    Depends: <debconf-2.0>\n    cdebconf\n  Suggests: x\n";
        assert_eq!(dependencies(told), ["libc6", "libgnutls30", "debconf"]);
    }
}
