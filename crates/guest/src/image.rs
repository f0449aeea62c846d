//! The guest's kernel and first file system, made once and kept.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use crate::cpio::Archive;
use crate::modules::{self, Modules};
use crate::packages::{self, Entry};

/// What an image is made of.
#[derive(Debug, Clone, Copy)]
pub struct Recipe {
    /// Name of its folder. It changes when the recipe does, so that what was kept is made anew.
    pub name: &'static str,
    /// Packages that stand for a kernel: the first one in the lists of packages is taken.
    pub kernels: &'static [&'static str],
    /// Packages of programs.
    pub packages: &'static [&'static str],
    /// Programs that guests run; the rest is busybox's.
    pub programs: &'static [&'static str],
    /// Modules that guests load.
    pub modules: &'static [&'static str],
}

/// Where modules lie that any of those can need.
const MODULE_FOLDERS: &[&str] = &[
    "/kernel/fs/",
    "/kernel/lib/",
    "/kernel/crypto/",
    "/kernel/arch/x86/crypto/",
    "/kernel/drivers/block/",
    "/kernel/drivers/md/",
    "/kernel/drivers/virtio/",
    "/kernel/drivers/net/",
    "/kernel/net/core/",
];

/// Folders of the first file system.
const FOLDERS: &[&str] = &["bin", "lib", "lib64", "modules", "dev", "proc", "sys", "tmp", "mnt", "etc"];

const LOADER: &str = "ld-linux-x86-64.so.2";

/// A kernel and the archive that all guests start from.
#[derive(Debug, Clone)]
pub struct Image {
    /// The kernel.
    pub kernel: PathBuf,
    /// Programs, libraries and modules.
    pub base: PathBuf,
}

impl Image {
    /// The image of a recipe kept in `cache`, made first if it is not there.
    ///
    /// # Errors
    /// What is missing on this machine: mostly Debian's tools or lists of packages.
    pub fn prepare(cache: &Path, recipe: &Recipe) -> Result<Image, String> {
        let dir = cache.join(recipe.name);
        let image = Image { kernel: dir.join("vmlinuz"), base: dir.join("base.cpio") };
        if image.kernel.is_file() && image.base.is_file() {
            return Ok(image);
        }
        fs::create_dir_all(&dir).map_err(|error| format!("{}: {error}", dir.display()))?;
        let debs = dir.join("packages");
        let kernel = packages::kernel(recipe.kernels)?;
        let mut wanted = packages::with_libraries(recipe.packages)?;
        wanted.insert(kernel.clone());
        let files = packages::download(&wanted, &debs)?;
        let (kernels, tools): (Vec<PathBuf>, Vec<PathBuf>) = files
            .into_iter()
            .partition(|file| file.file_name().is_some_and(|n| n.to_string_lossy().starts_with(&kernel)));
        let (vmlinuz, modules) = read_kernel(kernels.last().ok_or("apt-get brought no kernel")?)?;
        let mut archive = Archive::default();
        FOLDERS.iter().for_each(|folder| archive.directory(folder));
        add_programs(&mut archive, &tools, recipe.programs)?;
        add_modules(&mut archive, &modules, recipe.modules)?;
        write_whole(&image.base, &archive.finish())?;
        write_whole(&image.kernel, &vmlinuz)?;
        // They are large and can be had again.
        fs::remove_dir_all(&debs).map_err(|error| format!("{}: {error}", debs.display()))?;
        Ok(image)
    }
}

/// Writes beside and renames, so that a file is whole or not there.
fn write_whole(path: &Path, bytes: &[u8]) -> Result<(), String> {
    let beside = path.with_extension("part");
    let written = fs::write(&beside, bytes).and_then(|()| fs::rename(&beside, path));
    written.map_err(|error| format!("{}: {error}", path.display()))
}

fn read_kernel(package: &Path) -> Result<(Vec<u8>, Modules), String> {
    let (mut kernel, mut modules) = (Vec::new(), Modules::new());
    let wanted =
        |path: &str| path.starts_with("boot/vmlinuz") || MODULE_FOLDERS.iter().any(|folder| path.contains(folder));
    packages::read(package, &wanted, &mut |path, entry| {
        match (entry, modules::name_of(path)) {
            (Entry::File(bytes), Some(name)) => drop(modules.insert(name, unpacked(path, bytes)?)),
            (Entry::File(bytes), None) if path.starts_with("boot/") => kernel = bytes,
            _ => {}
        }
        Ok(())
    })?;
    if kernel.is_empty() { Err(format!("{}: holds no kernel", package.display())) } else { Ok((kernel, modules)) }
}

fn unpacked(path: &str, bytes: Vec<u8>) -> Result<Vec<u8>, String> {
    if !path.ends_with(".xz") {
        return Ok(bytes);
    }
    let mut out = Vec::new();
    let read = std::io::Read::read_to_end(&mut lzma_rust2::XzReader::new(&bytes[..], false), &mut out);
    read.map_err(|error| format!("{path}: {error}"))?;
    Ok(out)
}

/// Programs go to `bin`, libraries to `lib`, wherever their packages have them.
fn add_programs(archive: &mut Archive, packages: &[PathBuf], programs: &[&str]) -> Result<(), String> {
    let base = |path: &str| path.rsplit('/').next().unwrap_or_default().to_string();
    let is_program = |path: &str| path.contains("bin/") && programs.contains(&base(path).as_str());
    let is_library = |path: &str| base(path).contains(".so") && !path.contains("/gconv/") && !path.contains("/audit/");
    let mut found: BTreeMap<String, Entry> = BTreeMap::new();
    for package in packages {
        packages::read(package, &|path| is_program(path) || is_library(path), &mut |path, entry| {
            let folder = if is_program(path) { "bin" } else { "lib" };
            let place = format!("{folder}/{}", base(path));
            // Packages link from one folder of libraries to the other: what is linked to is what is wanted.
            if matches!(entry, Entry::File(_)) || !found.contains_key(&place) {
                found.insert(place, entry);
            }
            Ok(())
        })?;
    }
    if let Some(missing) = programs.iter().find(|program| !found.contains_key(&format!("bin/{program}"))) {
        return Err(format!("no package brought {missing}"));
    }
    for (path, entry) in found {
        match entry {
            Entry::File(bytes) => archive.file(&path, &bytes),
            // A link whose name is its target's would lead to itself here.
            Entry::Link(target) if path == format!("lib/{}", base(&target)) => {}
            Entry::Link(target) => archive.link(&path, &base(&target)),
        }
    }
    archive.link(&format!("lib64/{LOADER}"), &format!("/lib/{LOADER}"));
    Ok(())
}

fn add_modules(archive: &mut Archive, modules: &Modules, wanted: &[&str]) -> Result<(), String> {
    let order = modules::order(modules, wanted)?;
    for name in &order {
        archive.file(&format!("modules/{name}.ko"), &modules[name]);
    }
    archive.file("modules/order", format!("{}\n", order.join("\n")).as_bytes());
    Ok(())
}
