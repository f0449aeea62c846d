//! Mounts in a stack text: file systems that a server holds in the tree of its machine.

use std::path::Path;

use super::{Location, is_sound_name};

/// What the kernel keeps of a mounted file system.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum KernelCache {
    /// Each write reaches the file system before it returns.
    #[default]
    Through,
    /// The kernel holds writes back.
    WriteBack,
    /// The kernel keeps nothing of files.
    None,
}

impl KernelCache {
    /// Every mode.
    pub const ALL: [KernelCache; 3] = [KernelCache::Through, KernelCache::WriteBack, KernelCache::None];

    /// How texts and command lines call it.
    pub fn word(self) -> &'static str {
        match self {
            KernelCache::Through => "through",
            KernelCache::WriteBack => "writeback",
            KernelCache::None => "none",
        }
    }

    /// The mode of that word.
    pub fn of(word: &str) -> Option<KernelCache> {
        KernelCache::ALL.into_iter().find(|mode| mode.word() == word)
    }
}

/// One file system that a server mounts. Two are equal if they say the same, wherever they stand.
#[derive(Clone, Debug)]
pub struct MountSpec {
    /// Its name.
    pub name: String,
    /// The kind of file system.
    pub fs: String,
    /// The directory (`at`), as written.
    pub dir: String,
    /// The device on which it lies, if its kind lies on one: `NAME` or `NAME.PORT`.
    pub device: Option<String>,
    /// What the kernel keeps.
    pub cache: KernelCache,
    /// Options of the mount and of its kind; none is empty or holds a comma.
    pub options: Vec<String>,
    /// Where it begins.
    pub at: Location,
}

impl PartialEq for MountSpec {
    fn eq(&self, other: &MountSpec) -> bool {
        (&self.name, &self.fs, &self.dir, &self.device, self.cache, &self.options)
            == (&other.name, &other.fs, &other.dir, &other.device, other.cache, &other.options)
    }
}

/// The name of a mount that has none of its own: the last component of its directory, if that can name anything.
pub(super) fn name_of(dir: &str) -> Option<String> {
    let last = Path::new(dir).file_name()?.to_str()?;
    is_sound_name(last).then(|| last.to_string())
}

/// The options in a text, which has commas between them.
pub(super) fn split_options(text: &str) -> impl Iterator<Item = String> + '_ {
    text.split(',').filter(|option| !option.is_empty()).map(str::to_string)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_names_its_mount_if_its_name_is_sound() {
        let names = ["/mnt/x", "y", "/mnt/z/", "/", "/mnt/my disk", ".."].map(name_of);
        assert_eq!(names.map(|name| name.unwrap_or_default()), ["x", "y", "z", "", "", ""]);
    }

    #[test]
    fn modes_are_found_by_their_words() {
        assert!(KernelCache::ALL.into_iter().all(|mode| KernelCache::of(mode.word()) == Some(mode)));
        assert_eq!(KernelCache::of("write-back"), None);
    }
}
