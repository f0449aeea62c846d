//! `cargo xtask release`: whether this tree can be released, and what a release holds beside programs.

mod crates;
mod debian;
mod outside;
mod packages;
mod sbom;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use serde_json::json;
use tempfile::TempDir;

use crate::cargo;
use crate::program::is_installed;

const USAGE: &str = "usage: cargo xtask release check [--quick | --sizes] [--json], or cargo xtask release sbom FILE";

/// How much is checked.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    /// With the programs that the tests have built; nothing is installed.
    Quick,
    /// The programs and packages of a release alone.
    Sizes,
    Whole,
}

/// One thing that must hold of a release.
struct Step {
    name: &'static str,
    forms: &'static [Form],
    /// Programs that only it runs, which are also the names of Debian's packages.
    needs: &'static [&'static str],
    run: fn(&Release) -> Result<Figures, String>,
}

/// What a step measured: names with units, and values.
type Figures = Vec<(&'static str, f64)>;

const STEPS: &[Step] = &[
    Step { name: "crates", forms: &[Form::Quick, Form::Whole], needs: &[], run: crates::check },
    Step { name: "outside", forms: &[Form::Quick, Form::Whole], needs: &[], run: outside::check },
    Step { name: "build", forms: &[Form::Quick, Form::Sizes, Form::Whole], needs: &[], run: packages::build },
    Step { name: "packages", forms: &[Form::Quick, Form::Sizes, Form::Whole], needs: &[], run: packages::check },
    Step { name: "lintian", forms: &[Form::Whole], needs: &["lintian"], run: debian::lint },
    Step { name: "debian", forms: &[Form::Whole], needs: &["debootstrap"], run: debian::install },
    Step { name: "static", forms: &[Form::Whole], needs: &["skopeo"], run: packages::check_static },
    Step { name: "install", forms: &[Form::Whole], needs: &[], run: outside::install },
    Step { name: "build-again", forms: &[Form::Whole], needs: &[], run: packages::build_again },
];

/// The tree that is released, and where its files go.
struct Release {
    root: PathBuf,
    /// Emptied at the start.
    out: PathBuf,
    /// For projects of others: cargo would make a project below the tree a member of its workspace.
    elsewhere: TempDir,
    /// Cargo's.
    target: PathBuf,
    /// Where the programs are that packages hold.
    built: PathBuf,
    version: String,
    form: Form,
}

/// `cargo xtask release check [--quick | --sizes] [--json]`: packs all crates, builds a project outside the workspace
/// on them, makes all packages and installs them. The quick form packs the programs that the tests have built, and
/// installs nothing. `--sizes` makes the packages and does no more.
///
/// `cargo xtask release sbom FILE`: writes the bill of materials of the program (CycloneDX 1.5).
pub fn main(args: &[String]) -> Result<bool, String> {
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["sbom", file] => sbom::write(&crate::root(), Path::new(file)).map(|()| true),
        ["check", flags @ ..] => {
            let json = flags.contains(&"--json");
            let others: Vec<&str> = flags.iter().copied().filter(|flag| *flag != "--json").collect();
            match others.as_slice() {
                [] => check(Form::Whole, json),
                ["--quick"] => check(Form::Quick, json),
                ["--sizes"] => check(Form::Sizes, json),
                _ => Err(USAGE.to_string()),
            }
        }
        _ => Err(USAGE.to_string()),
    }
}

fn check(form: Form, json: bool) -> Result<bool, String> {
    let steps: Vec<&Step> = STEPS.iter().filter(|step| step.forms.contains(&form)).collect();
    let needs = steps.iter().flat_map(|step| step.needs).copied();
    let missing: Vec<&str> = needs.filter(|program| !is_installed(program)).collect();
    if !missing.is_empty() {
        return Err(format!("missing: {}; as root: apt-get install {0}", missing.join(" ")));
    }
    let release = Release::new(crate::root(), form)?;
    let (mut figures, started) = (serde_json::Map::new(), Instant::now());
    for (at, step) in steps.iter().enumerate() {
        eprintln!("release: {} ({} of {})", step.name, at + 1, steps.len());
        let begun = Instant::now();
        let measured = (step.run)(&release).map_err(|error| format!("{}: {error}", step.name))?;
        eprintln!("release: {} holds, after {:.0} s", step.name, begun.elapsed().as_secs_f64());
        for (name, value) in measured {
            eprintln!("release:   {name} {value:.2}");
            figures.insert(name.to_string(), json!(value));
        }
    }
    figures.insert("minutes".into(), json!(started.elapsed().as_secs_f64() / 60.0));
    if json {
        println!("{}", serde_json::Value::from(figures));
    }
    Ok(true)
}

impl Release {
    fn new(root: PathBuf, form: Form) -> Result<Release, String> {
        let manifest = read(&root.join("Cargo.toml"))?;
        let manifest: toml::Table = manifest.parse().map_err(|error| format!("Cargo.toml: {error}"))?;
        let version = manifest["workspace"]["package"]["version"].as_str().ok_or("the workspace has no version")?;
        let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
        let out = target.join("release-check");
        match std::fs::remove_dir_all(&out) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(told(&out, error)),
            _ => {}
        }
        std::fs::create_dir_all(&out).map_err(|error| told(&out, error))?;
        let elsewhere = tempfile::tempdir().map_err(|error| error.to_string())?;
        let built = if form == Form::Quick { out.join("built") } else { target.join("dist") };
        Ok(Release { version: version.to_string(), out, elsewhere, target, built, root, form })
    }

    /// A folder among the files of this check.
    fn folder(&self, name: &str) -> Result<PathBuf, String> {
        let folder = self.out.join(name);
        std::fs::create_dir_all(&folder).map_err(|error| told(&folder, error))?;
        Ok(folder)
    }

    /// Cargo, at the root of the tree.
    fn cargo(&self) -> Command {
        cargo::cargo(&self.root)
    }

    fn is_quick(&self) -> bool {
        self.form == Form::Quick
    }

    /// A script of `dist`, for the programs that were built.
    fn script(&self, name: &str) -> Command {
        let mut script = Command::new(self.root.join("dist").join(name));
        script.env("BUILT", &self.built);
        script
    }
}

/// Runs a command to its end and returns what it printed; its messages are part of the error.
fn output(command: &mut Command) -> Result<String, String> {
    let name = format!("{command:?}");
    let out = command.output().map_err(|error| format!("cannot run {name}: {error}"))?;
    if !out.status.success() {
        let said = [out.stdout, out.stderr].map(|bytes| String::from_utf8_lossy(&bytes).trim().to_string());
        return Err(format!("{name} ended with {}\n{}\n{}", out.status, said[0], said[1]));
    }
    Ok(String::from_utf8_lossy(&out.stdout).into_owned())
}

fn read(path: &Path) -> Result<String, String> {
    std::fs::read_to_string(path).map_err(|error| told(path, error))
}

fn told(path: &Path, error: std::io::Error) -> String {
    format!("{}: {error}", path.display())
}

/// Size of a file in MiB.
fn mib(path: &Path) -> Result<f64, String> {
    let about = std::fs::metadata(path).map_err(|error| told(path, error))?;
    Ok(about.len() as f64 / (1 << 20) as f64)
}
