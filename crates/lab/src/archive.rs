//! Package archives: Debian's, with all its suites, and Ubuntu's, whose kernels include ZFS.

use std::fs;
use std::path::{Path, PathBuf};

/// An archive whose package lists are cached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Archive {
    /// Debian's suites from bullseye to experimental.
    Debian,
    /// One Ubuntu suite, whose packages do not change after its release.
    Ubuntu,
}

/// Debian's suites, oldest first.
const SUITES: &[&str] = &[
    "bullseye",
    "bullseye-security",
    "bookworm",
    "bookworm-security",
    "bookworm-backports",
    "trixie",
    "trixie-security",
    "trixie-backports",
    "sid",
    "experimental",
];

/// The Ubuntu suite: 26.04.
const UBUNTU_SUITE: &str = "resolute";

/// The URL of Ubuntu's archive.
const UBUNTU: &str = "http://archive.ubuntu.com/ubuntu";

/// The suffix of Ubuntu's kernel releases.
const GENERIC: &str = "-generic";

/// The suffix of suites in a separate archive: `debian-security` instead of `debian`.
const SECURITY: &str = "-security";

/// The file with Ubuntu's public keys, in Ubuntu's cache folder. The system's apt has only the keys of its own
/// distribution.
pub const KEYRING: &str = "keyring.gpg";

/// The Debian package that contains these keys.
pub const UBUNTU_KEYS: &str = "ubuntu-keyring";

impl Archive {
    /// Returns the archive to search for a requested kernel: Ubuntu's for a full release such as 7.0.0-14-generic.
    pub fn of(request: &str) -> Archive {
        if request.ends_with(GENERIC) { Archive::Ubuntu } else { Archive::Debian }
    }

    /// Returns the cache folder of the archive's lists.
    pub fn folder(self) -> &'static str {
        match self {
            Archive::Debian => "apt",
            Archive::Ubuntu => "apt/ubuntu",
        }
    }

    /// Returns the archive's name for messages.
    pub fn name(self) -> &'static str {
        match self {
            Archive::Debian => "Debian",
            Archive::Ubuntu => "Ubuntu",
        }
    }

    /// Returns the names of the archive's suites, separated by commas.
    pub fn suites(self) -> String {
        match self {
            Archive::Debian => SUITES.join(", "),
            Archive::Ubuntu => UBUNTU_SUITE.into(),
        }
    }

    /// Returns the URL of the archive's mirror.
    pub fn mirror(self) -> String {
        match self {
            Archive::Debian => mirror_of_system(),
            Archive::Ubuntu => UBUNTU.into(),
        }
    }

    /// Returns apt's sources.list, which selects only the package index of each suite, whatever the system's settings.
    /// `folder` is the folder of the lists; it also contains the keys of an archive that the system's apt does not
    /// know.
    pub fn sources(self, folder: &Path) -> String {
        let mirror = self.mirror();
        let mirror = mirror.trim_end_matches('/');
        let options = "arch=amd64 target=Packages lang=none";
        match self {
            Archive::Debian => {
                let line = |suite: &&str| {
                    let archive = if suite.ends_with(SECURITY) { SECURITY } else { "" };
                    format!("deb [{options}] {mirror}{archive} {suite} main contrib\n")
                };
                SUITES.iter().map(line).collect()
            }
            Archive::Ubuntu => {
                let keys = folder.join(KEYRING);
                let keys = keys.display();
                format!("deb [{options} signed-by={keys}] {mirror} {UBUNTU_SUITE} main\n")
            }
        }
    }
}

/// Returns the mirror in the system's sources, or Debian's own if they name none.
fn mirror_of_system() -> String {
    let mut sources = vec![PathBuf::from("/etc/apt/sources.list")];
    let parts = fs::read_dir("/etc/apt/sources.list.d").into_iter().flatten().flatten();
    let mut parts: Vec<PathBuf> = parts.map(|entry| entry.path()).collect();
    parts.sort();
    sources.extend(parts);
    let sources = sources.iter().filter(|path| {
        path.extension().is_some_and(|extension| extension == "list" || extension == "sources")
    });
    let texts = sources.filter_map(|path| fs::read_to_string(path).ok());
    texts
        .into_iter()
        .find_map(|text| mirror_of(&text))
        .unwrap_or_else(|| "http://deb.debian.org/debian".into())
}

/// Returns the first URL of a Debian archive in a sources file of either format.
fn mirror_of(text: &str) -> Option<String> {
    text.lines()
        .filter(|line| !line.trim_start().starts_with('#'))
        .flat_map(str::split_whitespace)
        .find(|word| word.contains("://") && word.trim_end_matches('/').ends_with("/debian"))
        .map(String::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mirror_of_the_system_is_used_and_comments_are_not() {
        let deb822 = "Types: deb\n# http://snapshot.debian.org/debian\n\
                      URIs: http://mirror.example/debian\nSuites: bookworm\n";
        assert_eq!(mirror_of(deb822).as_deref(), Some("http://mirror.example/debian"));
        let list = "#deb http://a/debian x main\ndeb https://b.example/debian/ bookworm main\n";
        assert_eq!(mirror_of(list).as_deref(), Some("https://b.example/debian/"));
        assert_eq!(mirror_of("deb http://archive.ubuntu.com/ubuntu noble main"), None);
    }

    #[test]
    fn only_a_full_ubuntu_release_is_searched_for_in_ubuntus_archive_whose_lists_are_signed_by_its_keys()
     {
        assert_eq!(Archive::of("7.0.0-14-generic"), Archive::Ubuntu);
        for request in ["7.0", "7.0.0-14", "6.1.0-56-amd64"] {
            assert_eq!(Archive::of(request), Archive::Debian);
        }
        let sources = Archive::Ubuntu.sources(Path::new("/c/apt/ubuntu"));
        assert!(sources.contains("signed-by=/c/apt/ubuntu/keyring.gpg] http://"), "{sources}");
        assert_eq!(sources.lines().count(), 1);
        assert!(!Archive::Debian.sources(Path::new("/c/apt")).contains("signed-by"));
    }
}
