//! Words of `-o`: those of every mount, and those that are left for the file system.

use crate::mounting::MountOptions;

/// Why words are no options of a mount.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MountOptionError {
    /// A word without a value that only makes sense with one.
    #[error("-o {0} is no option; `esker help mount` lists them")]
    Unknown(String),
    /// Rights that an ordinary user cannot give.
    #[error("-o suid and -o dev take the superuser")]
    Privileged,
}

impl MountOptions {
    /// Options of the mount in `words`, and the others, each with its value. The source is `kind`, unless a word names
    /// one.
    ///
    /// # Errors
    /// [`MountOptionError::Unknown`].
    pub fn read(kind: &str, words: &[String]) -> Result<(MountOptions, Vec<(String, String)>), MountOptionError> {
        let mut options = MountOptions {
            source: kind.to_string(),
            read_only: false,
            exec: true,
            suid: false,
            dev: false,
            // As with any file system that the superuser mounts.
            allow_other: rustix::process::geteuid().is_root(),
            check_permissions: true,
        };
        let mut rest = Vec::new();
        for word in words.iter().filter(|word| !word.is_empty()) {
            match &**word {
                "ro" => options.read_only = true,
                "rw" => options.read_only = false,
                "exec" => options.exec = true,
                "noexec" => options.exec = false,
                "suid" => options.suid = true,
                "nosuid" => options.suid = false,
                "dev" => options.dev = true,
                "nodev" => options.dev = false,
                "allow_other" => options.allow_other = true,
                "noallow_other" => options.allow_other = false,
                other => match other.split_once('=') {
                    Some(("source", value)) => options.source = value.to_string(),
                    Some((word, value)) => rest.push((word.to_string(), value.to_string())),
                    None => return Err(MountOptionError::Unknown(other.to_string())),
                },
            }
        }
        Ok((options, rest))
    }

    /// Whether the user of this process may mount so.
    ///
    /// # Errors
    /// [`MountOptionError::Privileged`].
    pub fn check_rights(&self) -> Result<(), MountOptionError> {
        match (self.suid || self.dev) && !rustix::process::geteuid().is_root() {
            true => Err(MountOptionError::Privileged),
            false => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split(',').map(str::to_string).collect()
    }

    #[test]
    fn words_of_mounts_are_taken_and_others_left_for_the_file_system() {
        let (options, rest) = MountOptions::read("ram", &words("ro,noexec,size=1GiB,source=x")).unwrap();
        assert_eq!((options.read_only, options.exec, options.suid, &*options.source), (true, false, false, "x"));
        assert_eq!(rest, [("size".to_string(), "1GiB".to_string())]);
        assert_eq!(MountOptions::read("ram", &words("sise")), Err(MountOptionError::Unknown("sise".to_string())));
    }
}
