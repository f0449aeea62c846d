//! Projects outside the workspace: they see the packed crates alone.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::Command;

use super::{Figures, Release, crates, output, read, told};

/// Programs of the library's folder of examples that a project copies and runs.
const EXAMPLES: [&str; 2] = ["open", "snapshots"];

/// A new project depends on the packed library, and runs its front page and two of its examples.
pub(super) fn check(release: &Release) -> Result<Figures, String> {
    let project = release.elsewhere.path().join("outside");
    output(release.cargo().args(["new", "--quiet", "--vcs", "none", "--name", "outside"]).arg(&project))?;
    let manifest = project.join("Cargo.toml");
    let mut text = read(&manifest)?;
    let _ = write!(text, "esker = \"{}\"\n\n[profile.dev]\ndebug = false\n\n", release.version);
    text += &patches(release)?;
    std::fs::write(&manifest, text).map_err(|error| told(&manifest, error))?;
    let main = format!("fn main() -> Result<(), esker::Error> {{\n{}}}\n", front_page(release)?);
    std::fs::write(project.join("src/main.rs"), main).map_err(|error| told(&project, error))?;
    std::fs::create_dir_all(project.join("src/bin")).map_err(|error| told(&project, error))?;
    for name in EXAMPLES {
        let from = release.root.join(format!("crates/esker/examples/{name}.rs"));
        std::fs::copy(&from, project.join(format!("src/bin/{name}.rs"))).map_err(|error| told(&from, error))?;
    }
    // The versions that were tested.
    let lock = release.root.join("Cargo.lock");
    std::fs::copy(&lock, project.join("Cargo.lock")).map_err(|error| told(&lock, error))?;
    output(release.cargo().args(["build", "--quiet", "--bins"]).current_dir(&project).env_remove("CARGO_TARGET_DIR"))?;
    let media = release.folder("outside-media")?;
    for name in ["outside"].into_iter().chain(EXAMPLES) {
        output(Command::new(project.join("target/debug").join(name)).arg(&media))?;
    }
    Ok(vec![("outside_programs", 1.0 + EXAMPLES.len() as f64)])
}

/// Installs the program from its packed crate, and asks it for its version.
pub(super) fn install(release: &Release) -> Result<Figures, String> {
    let (from, to) = (unpacked(release, "esker-cli")?, release.folder("installed")?);
    let manifest = from.join("Cargo.toml");
    let text = read(&manifest)? + "\n" + &patches(release)?;
    std::fs::write(&manifest, text).map_err(|error| told(&manifest, error))?;
    output(release.cargo().args(["install", "--quiet", "--debug", "--path"]).arg(&from).arg("--root").arg(&to))?;
    let version = output(Command::new(to.join("bin/esker")).arg("--version"))?;
    if !version.contains(&release.version) {
        return Err(format!("the installed program says {}, not {}", version.trim(), release.version));
    }
    Ok(Vec::new())
}

/// Sends cargo to the packed crates in place of an index.
fn patches(release: &Release) -> Result<String, String> {
    let mut text = String::from("[patch.crates-io]\n");
    for package in crates::published(release)? {
        let _ = writeln!(text, "{} = {{ path = {:?} }}", package.name, unpacked(release, &package.name)?);
    }
    Ok(text)
}

/// Where the files of a packed crate lie, which are unpacked if they are not.
fn unpacked(release: &Release, name: &str) -> Result<PathBuf, String> {
    let (all, full) = (release.elsewhere.path(), format!("{name}-{}", release.version));
    let folder = all.join(&full);
    if !folder.exists() {
        let file = crates::folder(release).join(format!("{full}.crate"));
        output(Command::new("tar").arg("-xzf").arg(&file).arg("-C").arg(all))?;
    }
    Ok(folder)
}

/// The code of the library's front page, with the lines that its text hides.
fn front_page(release: &Release) -> Result<String, String> {
    let page = release.root.join("crates/esker/README.md");
    let text = read(&page)?;
    code(&text).ok_or_else(|| format!("{}: no code in Rust", page.display()))
}

fn code(page: &str) -> Option<String> {
    let (_, rest) = page.split_once("```rust\n")?;
    let (code, _) = rest.split_once("```")?;
    let lines = code.lines().map(|line| line.strip_prefix("# ").unwrap_or(line));
    // The last line of an example of a page names the type of its errors.
    Some(lines.map(|line| format!("    {}\n", line.replace("Ok::<(), esker::Error>(())", "Ok(())"))).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_code_of_a_page_is_a_body() {
        let page = "# a\n\n```rust\nlet a = 1;\n# let b = a;\n# Ok::<(), esker::Error>(())\n```\nmore\n";
        assert_eq!(code(page).unwrap(), "    let a = 1;\n    let b = a;\n    Ok(())\n");
        assert_eq!(code("no code"), None);
    }
}
