//! Words of `-o`.

use esker_front_fuse::MountOptions;

use crate::failure::Failure;

/// Options of the mount, and those that are left for the file system, each with its value.
///
/// # Errors
/// A word without a value that only makes sense with one.
pub(super) fn read(kind: &str, words: &[String]) -> Result<(MountOptions, Vec<(String, String)>), Failure> {
    let is_root = rustix::process::geteuid().is_root();
    let mut options = MountOptions {
        source: kind.to_string(),
        read_only: false,
        exec: true,
        suid: false,
        dev: false,
        // As with any file system that the superuser mounts.
        allow_other: is_root,
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
                None => {
                    let text = format!("-o {other} is no option; `esker help mount` lists them");
                    return Err(Failure::Usage(text));
                }
            },
        }
    }
    if !is_root && (options.suid || options.dev) {
        return Err(Failure::Usage("-o suid and -o dev take the superuser".to_string()));
    }
    Ok((options, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split(',').map(str::to_string).collect()
    }

    #[test]
    fn words_of_mounts_are_taken_and_others_left_for_the_file_system() {
        let (options, rest) = read("ram", &words("ro,noexec,size=1GiB,source=x")).unwrap();
        assert_eq!((options.read_only, options.exec, options.suid, &*options.source), (true, false, false, "x"));
        assert_eq!(rest, [("size".to_string(), "1GiB".to_string())]);
        assert!(matches!(read("ram", &words("sise")), Err(Failure::Usage(text)) if text.contains("-o sise")));
    }
}
