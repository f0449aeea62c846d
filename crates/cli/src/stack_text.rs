//! The argument STACK of many verbs: a file, standard input, or the text itself.

use std::io::{self, Read};
use std::path::Path;

use esker_stack::Spec;
use esker_stack::text::BuildPlan;

use crate::failure::Failure;
use crate::terminal::Terminal;

/// A text of so many bytes is no stack text: a stack of the greatest depth takes a few KiB.
const TEXT_BYTES_MAX: u64 = 1 << 20;

/// A stack text.
#[derive(clap::Args)]
pub struct StackText {
    /// File with the stack's text, - for standard input, or the text itself (anything with a = in it)
    #[arg(value_name = "STACK")]
    source: String,
}

#[derive(Debug, thiserror::Error)]
#[error("{name}: cannot be read: {source}")]
struct Unreadable {
    name: String,
    source: io::Error,
}

impl StackText {
    /// The argument.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Its name in messages.
    pub fn name(&self) -> &str {
        match self.source.as_str() {
            "-" => "standard input",
            _ if self.is_argument() => "command line",
            path => path,
        }
    }

    /// The text that one argument names.
    pub fn of(source: String) -> StackText {
        StackText { source }
    }

    /// Its file, if it is in one.
    pub fn file(&self) -> Option<&Path> {
        let is_file = self.source != "-" && !self.is_argument();
        is_file.then(|| Path::new(&self.source))
    }

    /// Whether the argument is the text itself: it has a `=`, and is no name of a file.
    fn is_argument(&self) -> bool {
        self.source.contains('=') && !Path::new(&self.source).is_file()
    }

    /// Reads and checks it; tells warnings.
    ///
    /// # Errors
    /// An unreadable file, or everything that is wrong with the text.
    pub fn load(&self, terminal: &mut Terminal) -> Result<(Spec, BuildPlan), Failure> {
        let text = self.read()?;
        self.check(&text, terminal)
    }

    /// What stands there.
    ///
    /// # Errors
    /// An unreadable file.
    pub fn read(&self) -> Result<String, Failure> {
        Ok(self.text().map_err(|source| Unreadable { name: self.name().to_string(), source })?)
    }

    /// Reads and checks `text`, all of this text or the part of it that is a stack's; tells warnings.
    ///
    /// # Errors
    /// Everything that is wrong with the text.
    pub fn check(&self, text: &str, terminal: &mut Terminal) -> Result<(Spec, BuildPlan), Failure> {
        let (spec, plan) = self.parse(text)?;
        for warning in plan.warnings() {
            terminal.complain(&format!("warning: {warning}"));
        }
        Ok((spec, plan))
    }

    /// Reads and checks it for a verb that uses devices by their names, so that one which nothing else uses is no
    /// mistake.
    ///
    /// # Errors
    /// As [`StackText::load`].
    pub fn load_by_name(&self) -> Result<Spec, Failure> {
        Ok(self.parse(&self.read()?)?.0)
    }

    fn parse(&self, text: &str) -> Result<(Spec, BuildPlan), Failure> {
        let spec = Spec::parse(self.name(), text)?;
        let plan = spec.check(esker_kinds::ALL)?;
        #[cfg(feature = "full")]
        esker_serve::mounts::check(&spec, esker_filesystems::ALL)?;
        Ok((spec, plan))
    }

    fn text(&self) -> io::Result<String> {
        match self.source.as_str() {
            "-" => bounded(io::stdin()),
            text if self.is_argument() => Ok(text.to_string()),
            path => bounded(std::fs::File::open(path)?),
        }
    }
}

/// A text that ends before [`TEXT_BYTES_MAX`].
fn bounded(from: impl Read) -> io::Result<String> {
    let mut text = String::new();
    match from.take(TEXT_BYTES_MAX).read_to_string(&mut text)? as u64 {
        TEXT_BYTES_MAX => {
            Err(io::Error::other(format!("it has {TEXT_BYTES_MAX} bytes or more, so it is no stack text")))
        }
        _ => Ok(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_whose_name_has_an_equals_sign_is_a_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("p95=5ms.toml");
        std::fs::write(&path, "").unwrap();
        let text = StackText::of(path.to_str().unwrap().to_string());
        assert_eq!(text.file(), Some(path.as_path()));
        assert_eq!(StackText::of("vol = memory size=1MiB @".to_string()).name(), "command line");
    }
}
