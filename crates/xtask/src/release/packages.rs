//! Packages of the programs: Debian's, RPM, and an image of the static program.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::{Figures, Release, mib, output, read, sbom, told};

/// The packages whose programs are released.
const PROGRAMS: [&str; 4] = ["-p", "esker-cli", "-p", "esker-hugepage-preload"];
/// What they are, in the folder of what was built.
const FILES_BUILT: [&str; 2] = ["esker", "libesker_hugepage_preload.so"];
/// For `rustc`: the C library becomes a part of the program.
const STATIC: &str = "-C target-feature=+crt-static";
/// Files that each package has, compressed or not.
const FILES: [&str; 7] = [
    "/usr/bin/esker",
    "/usr/lib/esker/libesker_hugepage_preload.so",
    "/usr/lib/systemd/system/esker@.service",
    "/usr/share/man/man1/esker-serve.1.gz",
    "/usr/share/bash-completion/completions/esker",
    "/usr/share/doc/esker/sbom.cdx.json",
    "/etc/esker/hugepage.toml",
];

/// Builds the programs of packages.
pub(super) fn build(release: &Release) -> Result<Figures, String> {
    if release.is_quick() {
        return gather(release).map(|()| Vec::new());
    }
    output(release.cargo().args(["build", "--quiet", "--profile", "dist"]).args(PROGRAMS))?;
    Ok(vec![("binary_mib", mib(&release.built.join(FILES_BUILT[0]))?)])
}

/// Takes the programs that the tests have built. Built by themselves they have other features, so cargo would build all
/// of them anew; it does where one is missing.
fn gather(release: &Release) -> Result<(), String> {
    let debug = release.target.join("debug");
    // Cargo leaves libraries that only tests need below.
    let found = |name: &str| [debug.join(name), debug.join("deps").join(name)].into_iter().find(|file| file.is_file());
    if !FILES_BUILT.iter().all(|name| found(name).is_some()) {
        output(release.cargo().args(["build", "--quiet"]).args(PROGRAMS))?;
    }
    std::fs::create_dir_all(&release.built).map_err(|error| told(&release.built, error))?;
    for name in FILES_BUILT {
        let file = found(name).ok_or_else(|| format!("cargo did not build {name}"))?;
        std::fs::copy(&file, release.built.join(name)).map_err(|error| told(&file, error))?;
    }
    Ok(())
}

/// Builds the programs once more in an empty folder, and compares the bytes.
pub(super) fn build_again(release: &Release) -> Result<Figures, String> {
    let again = release.folder("again")?;
    output(release.cargo().args(["build", "--quiet", "--profile", "dist", "--target-dir"]).arg(&again).args(PROGRAMS))?;
    for name in FILES_BUILT {
        let [first, second] = [&release.built, &again.join("dist")].map(|folder| folder.join(name));
        if bytes(&first)? != bytes(&second)? {
            return Err(format!("two builds of {name} differ: compare {} with {}", first.display(), second.display()));
        }
    }
    std::fs::remove_dir_all(&again).map_err(|error| told(&again, error))?;
    Ok(vec![("builds_equal", 1.0)])
}

/// Makes each package twice, compares the bytes, and looks for what each must hold.
pub(super) fn check(release: &Release) -> Result<Figures, String> {
    let bill = release.out.join("sbom.cdx.json");
    sbom::write(&release.root, &bill)?;
    let (deb, same_deb) = twice(release, "deb")?;
    demand(&output(Command::new("dpkg-deb").arg("--contents").arg(&deb))?, &deb)?;
    let (rpm, same_rpm) = twice(release, "rpm")?;
    demand(&output(Command::new("rpm").args(["-qlp"]).arg(&rpm))?, &rpm)?;
    if !(same_deb && same_rpm) {
        return Err("packages of equal programs differ".into());
    }
    let mut figures = vec![("reproducible", 1.0)];
    if !release.is_quick() {
        figures.extend([("deb_mib", mib(&deb)?), ("rpm_mib", mib(&rpm)?)]);
    }
    Ok(figures)
}

/// Builds the static program, runs it in an empty root, and does the same with an image of it.
pub(super) fn check_static(release: &Release) -> Result<Figures, String> {
    let target = sbom::target();
    let mut cargo = release.cargo();
    cargo
        .args(["build", "--quiet", "--profile", "dist", "--target", target, "-p", "esker-cli"])
        .env("RUSTFLAGS", STATIC);
    output(&mut cargo)?;
    let program = release.target.join(target).join("dist/esker");
    let empty = release.folder("empty-root")?;
    std::fs::copy(&program, empty.join("esker")).map_err(|error| told(&program, error))?;
    greet(release, &empty, "/esker")?;
    let image = output(release.script("oci").arg(&program).arg(release.folder("oci")?))?;
    let image = PathBuf::from(image.trim_end());
    check_image(release, &image)?;
    Ok(vec![("static_mib", mib(&program)?), ("image_mib", mib(&image)?)])
}

/// A tool that reads images finds the entry point, and the program of the only layer runs.
fn check_image(release: &Release, image: &Path) -> Result<(), String> {
    let source = format!("oci-archive:{}", image.display());
    let config = output(Command::new("skopeo").args(["inspect", "--config", &source]))?;
    if !config.contains("/usr/bin/esker") {
        return Err(format!("{}: its configuration names no program: {config}", image.display()));
    }
    let (parts, root) = (release.out.join("image-parts"), release.folder("image-root")?);
    output(Command::new("skopeo").args(["copy", "--quiet", &source]).arg(format!("dir:{}", parts.display())))?;
    let manifest: serde_json::Value =
        serde_json::from_str(&read(&parts.join("manifest.json"))?).map_err(|error| error.to_string())?;
    let digest = manifest["layers"][0]["digest"].as_str().ok_or("the image has no layer")?;
    let layer = parts.join(digest.trim_start_matches("sha256:"));
    output(Command::new("tar").arg("-xzf").arg(&layer).arg("-C").arg(&root))?;
    greet(release, &root, "/usr/bin/esker")
}

/// Asks a program below another root for its version.
fn greet(release: &Release, root: &Path, program: &str) -> Result<(), String> {
    let said = output(Command::new("chroot").arg(root).args([program, "--version"]))?;
    let is_right = said.contains(&release.version);
    is_right.then_some(()).ok_or_else(|| format!("{program} in {} says {said}", root.display()))
}

/// Makes a package twice: where the first is, and whether the second has the same bytes.
fn twice(release: &Release, script: &str) -> Result<(PathBuf, bool), String> {
    let make = |folder: &str| {
        let mut command = release.script(script);
        command.arg(release.folder(folder)?).env("ESKER_SBOM", release.out.join("sbom.cdx.json"));
        if release.is_quick() {
            // Programs that are not stripped are large, and their packages are thrown away.
            let fast =
                [("DPKG_DEB_COMPRESSOR_TYPE", "gzip"), ("DPKG_DEB_COMPRESSOR_LEVEL", "1"), ("RPM_PAYLOAD", "w1.gzdio")];
            command.envs(fast);
        }
        output(&mut command).map(|path| PathBuf::from(path.trim_end()))
    };
    let (first, second) = (make("packages")?, make("packages-again")?);
    let same = bytes(&first)? == bytes(&second)?;
    Ok((first, same))
}

fn demand(listed: &str, package: &Path) -> Result<(), String> {
    let is_there = |file: &&str| listed.lines().any(|line| line.ends_with(*file));
    let missing: Vec<&str> = FILES.into_iter().filter(|file| !is_there(file)).collect();
    missing.is_empty().then_some(()).ok_or_else(|| format!("{} lacks {}", package.display(), missing.join(", ")))
}

fn bytes(path: &Path) -> Result<Vec<u8>, String> {
    std::fs::read(path).map_err(|error| told(path, error))
}
