//! Opening files in folders that other users may write to: no link that another user planted is followed.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::OFlags;
use rustix::io::Errno;

/// Creates `path` anew. What stands there is removed, so a link leads nowhere.
///
/// # Errors
/// What the system refuses; among it a name that another process creates at the same time.
pub fn create_anew(path: &Path) -> io::Result<File> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    File::options().write(true).create_new(true).open(path)
}

/// Opens `path` for appending, and creates it with the permission bits `mode`. A link is followed if it belongs to root
/// or to the caller, as `/dev/stderr` does.
///
/// # Errors
/// A link of another user, and what the system refuses.
pub fn append(path: &Path, mode: u32) -> io::Result<File> {
    let options = |flags| File::options().append(true).create(true).mode(mode).custom_flags(flags).open(path);
    match options(OFlags::NOFOLLOW.bits() as i32) {
        Err(error) if error.raw_os_error() == Some(Errno::LOOP.raw_os_error()) => {
            let owner = fs::symlink_metadata(path)?.uid();
            if owner != 0 && owner != rustix::process::geteuid().as_raw() {
                return Err(io::Error::other(format!("it is a link that user {owner} made; name the file itself")));
            }
            options(0)
        }
        opened => opened,
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::fs::{lchown, symlink};

    use esker_testkit::{Ability, skip};

    use super::*;

    #[test]
    fn a_file_is_made_anew_in_the_place_of_a_planted_link() {
        let folder = tempfile::tempdir().unwrap();
        let (victim, part) = (folder.path().join("victim"), folder.path().join("out.part"));
        fs::write(&victim, "kept").unwrap();
        symlink(&victim, &part).unwrap();
        create_anew(&part).unwrap().write_all(b"new").unwrap();
        assert_eq!((fs::read(&victim).unwrap(), fs::read(&part).unwrap()), (b"kept".to_vec(), b"new".to_vec()));
    }

    #[test]
    fn a_log_follows_a_link_of_its_owner_and_none_of_another_user() {
        let folder = tempfile::tempdir().unwrap();
        let (victim, link) = (folder.path().join("victim"), folder.path().join("log"));
        symlink(&victim, &link).unwrap();
        append(&link, 0o640).unwrap().write_all(b"one").unwrap();
        assert_eq!(fs::read(&victim).unwrap(), b"one");
        if lchown(&link, Some(65534), Some(65534)).is_err() {
            return skip(Ability::Root, "only root gives a link to another user");
        }
        assert!(append(&link, 0o640).unwrap_err().to_string().contains("65534"));
        assert_eq!(fs::read(&victim).unwrap(), b"one");
    }
}
