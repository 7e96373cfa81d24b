//! Brings a kernel of the distribution with apt, as any user: `apt-get download` into the cache
//! folder, unpacked there. The system's own package lists are read and never written; a release
//! that they do not have is looked for with lists of our own, of Debian's suites.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Command;

use fsdyno_record::canonical::sha256_hex;
use tempfile::TempDir;

use crate::cache::{self, Cache};
use crate::error::LabError;
use crate::kernel::{begins, by_version};

/// Packages whose first dependency on an image is the distribution's default kernel.
const META_PACKAGES: &[&str] = &["linux-image-amd64", "linux-image-generic"];

/// The suites that an own list looks into, oldest first.
const SUITES: &[&str] =
    &["bullseye", "bookworm", "bookworm-backports", "trixie", "trixie-backports"];

/// Brings the kernel that `wish` begins, or the distribution's default; hands back its release and
/// the folder it was unpacked into, below `cache`.
///
/// # Errors
/// [`LabError::NoKernel`] with what apt said.
pub fn kernel(
    wish: Option<&str>,
    cache: &Cache,
    say: &dyn Fn(&str),
) -> Result<(String, TempDir), LabError> {
    let (apt, release) = find(wish, cache, say)?;
    let unpacked = apt.unpack(&release, cache, say)?;
    Ok((release, unpacked))
}

/// The release that [`kernel`] would bring.
///
/// # Errors
/// [`LabError::NoKernel`] where no list has one.
pub fn release(wish: Option<&str>, cache: &Cache, say: &dyn Fn(&str)) -> Result<String, LabError> {
    Ok(find(wish, cache, say)?.1)
}

/// The lists that have the kernel, and its release.
fn find(wish: Option<&str>, cache: &Cache, say: &dyn Fn(&str)) -> Result<(Apt, String), LabError> {
    let system = Apt { options: Vec::new() };
    let (apt, image) = match wish {
        None => {
            let image = system.default_image().ok_or_else(|| {
                LabError::NoKernel(
                    "apt knows none of linux-image-amd64, linux-image-generic".into(),
                )
            })?;
            (system, image)
        }
        Some(wish) => match system.newest_image(wish) {
            Some(image) => (system, image),
            None => {
                let own = own_lists(cache, say)?;
                let image = own.newest_image(wish).ok_or_else(|| {
                    let suites = SUITES.join(", ");
                    LabError::NoKernel(format!("no kernel {wish} here, nor in Debian's {suites}"))
                })?;
                (own, image)
            }
        },
    };
    Ok((apt, image.trim_start_matches("linux-image-").to_string()))
}

/// Only signed lists count, whatever apt's own settings are, and they say SHA-256.
const SIGNED: &[&str] = &[
    "-o",
    "Acquire::AllowInsecureRepositories=false",
    "-o",
    "APT::Get::AllowUnauthenticated=false",
    "-o",
    "Acquire::ForceHash=SHA256",
];

/// apt with a set of package lists.
struct Apt {
    options: Vec<String>,
}

impl Apt {
    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.args(SIGNED).args(&self.options).env("LC_ALL", "C");
        command
    }

    fn output(&self, program: &str, arguments: &[&str]) -> Result<String, String> {
        let output = self.command(program).args(arguments).output().map_err(|e| e.to_string())?;
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
        }
        let said = String::from_utf8_lossy(&output.stderr);
        Err(said.lines().last().unwrap_or("no message").to_string())
    }

    /// The image that the distribution's meta package depends on.
    fn default_image(&self) -> Option<String> {
        META_PACKAGES.iter().find_map(|meta| {
            let text = self.output("apt-cache", &["show", "--no-all-versions", meta]).ok()?;
            image_of_meta(&text)
        })
    }

    /// The newest image whose release begins with `wish`.
    fn newest_image(&self, wish: &str) -> Option<String> {
        let names = self.output("apt-cache", &["pkgnames", &format!("linux-image-{wish}")]).ok()?;
        newest_image(names.lines(), wish)
    }

    /// Downloads and unpacks all packages of one release.
    fn unpack(
        &self,
        release: &str,
        cache: &Cache,
        say: &dyn Fn(&str),
    ) -> Result<TempDir, LabError> {
        let failed = |what: &str, why: String| LabError::NoKernel(format!("{what}: {why}"));
        let [packages, root] = [temporary_in(cache)?, temporary_in(cache)?];
        // Ubuntu keeps modules in packages of their own; Debian has no such packages.
        for (package, needed) in [
            (format!("linux-image-{release}"), true),
            (format!("linux-modules-{release}"), false),
            (format!("linux-modules-extra-{release}"), false),
        ] {
            if !needed && self.output("apt-cache", &["show", &package]).is_err() {
                continue;
            }
            say(&format!("downloading {package}"));
            let file = self
                .download(&package, packages.path())
                .map_err(|why| failed(&format!("apt-get download {package}"), why))?;
            let mut unpack = Command::new("dpkg-deb");
            unpack.args(["-x", "/proc/self/fd/0"]).arg(root.path()).stdin(file);
            run(&mut unpack).map_err(|why| failed("dpkg-deb -x", why))?;
        }
        Ok(root)
    }

    /// Downloads a package; the open file has the bytes that the signed package list names.
    fn download(&self, package: &str, folder: &Path) -> Result<File, String> {
        let listed = self.output("apt-get", &["download", "--print-uris", "-q", package])?;
        let (name, sha256) = file_and_hash(&listed).ok_or("apt names no SHA-256 of it")?;
        let mut download = self.command("apt-get");
        run(download.args(["download", "-q", package]).current_dir(folder))?;
        let mut file = File::open(folder.join(name)).map_err(|error| error.to_string())?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map_err(|error| error.to_string())?;
        match sha256_hex(&bytes) {
            found if found == sha256 => Ok(file),
            found => Err(format!("{name} has the SHA-256 {found}, and the list says {sha256}")),
        }
    }
}

/// A folder that goes with its handle.
fn temporary_in(cache: &Cache) -> Result<TempDir, LabError> {
    let folder = cache.folder("")?;
    let made = tempfile::Builder::new().prefix(".unpack-").tempdir_in(&folder);
    made.map_err(LabError::io("create a folder in", &folder))
}

/// The name of the file and its hash in a line of `apt-get download --print-uris`:
/// `'URI' NAME SIZE SHA256:HASH`.
fn file_and_hash(listed: &str) -> Option<(&str, &str)> {
    let line = listed.lines().find(|line| line.starts_with('\''))?;
    let mut words = line.rsplit(' ');
    let sha256 = words.next()?.strip_prefix("SHA256:")?;
    let name = words.nth(1)?;
    (!name.contains('/')).then_some((name, sha256))
}

/// Lists of Debian's suites in the cache folder, fetched anew: a kernel is brought rarely, and an
/// old list names packages that are gone.
fn own_lists(cache: &Cache, say: &dyn Fn(&str)) -> Result<Apt, LabError> {
    let folder = cache.folder("apt")?;
    let source = folder.join("sources.list");
    for sub in ["apt/lists/partial", "apt/cache/archives/partial"] {
        cache.folder(sub)?;
    }
    let mirror = mirror_of_system();
    let lines: Vec<String> =
        SUITES.iter().map(|suite| format!("deb [arch=amd64] {mirror} {suite} main\n")).collect();
    cache::put(&folder, "sources.list", lines.concat().as_bytes())
        .map_err(LabError::io("write", &source))?;
    let mut options = Vec::new();
    for (key, value) in [
        ("Dir::Etc::SourceList", source.clone()),
        ("Dir::Etc::SourceParts", PathBuf::from("/dev/null")),
        ("Dir::State::Lists", folder.join("lists")),
        ("Dir::Cache", folder.join("cache")),
    ] {
        options.extend(["-o".to_string(), format!("{key}={}", value.display())]);
    }
    // Lists in a user's cache folder cannot be read by apt's own user; they are checked all the same.
    options.extend(["-o".to_string(), "APT::Sandbox::User=root".to_string()]);
    let apt = Apt { options };
    say(&format!("reading the package lists of {mirror}"));
    // A suite that is gone from the mirror makes this fail, though the others were read; whether
    // they have the kernel is asked next.
    if let Err(why) = apt.output("apt-get", &["update", "-q"]) {
        say(&format!("apt-get update: {why}"));
    }
    Ok(apt)
}

/// The mirror that the system's sources name, else Debian's own.
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

/// The first address of a Debian archive in a sources file of either form.
fn mirror_of(text: &str) -> Option<String> {
    text.lines()
        .filter(|line| !line.trim_start().starts_with('#'))
        .flat_map(str::split_whitespace)
        .find(|word| word.contains("://") && word.trim_end_matches('/').ends_with("/debian"))
        .map(String::from)
}

/// The image among the dependencies that `apt-cache show` prints.
fn image_of_meta(text: &str) -> Option<String> {
    let depends = text.lines().find_map(|line| line.strip_prefix("Depends:"))?;
    depends
        .split([',', '|'])
        .filter_map(|dependency| dependency.split_whitespace().next())
        .find(|name| is_image(name))
        .map(String::from)
}

fn newest_image<'a>(names: impl Iterator<Item = &'a str>, wish: &str) -> Option<String> {
    names
        .filter(|name| is_image(name) && begins(name.trim_start_matches("linux-image-"), wish))
        .max_by(|a, b| by_version(a, b))
        .map(String::from)
}

/// `linux-image-6.1.0-56-amd64`, and none of its -dbg, -unsigned, -rt-, -cloud- cousins.
fn is_image(name: &str) -> bool {
    let Some(release) = name.strip_prefix("linux-image-") else { return false };
    let Some(version) = release.strip_suffix("-amd64").or(release.strip_suffix("-generic")) else {
        return false;
    };
    // Backports carry their suite in the release: 6.12.9+bpo-amd64, 6.12.12+deb12-amd64.
    let plain = version.split('+').next().unwrap_or_default();
    version.starts_with(|c: char| c.is_ascii_digit())
        && plain.chars().all(|c| c.is_ascii_digit() || ".-~".contains(c))
        && !["rt", "cloud"].iter().any(|kind| version.split('-').any(|part| part == *kind))
}

fn run(command: &mut Command) -> Result<(), String> {
    let output = command.env("LC_ALL", "C").output().map_err(|error| error.to_string())?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(said.lines().last().unwrap_or("no message").to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_kernel_is_what_the_meta_package_depends_on() {
        let debian = "Package: linux-image-amd64\n\
                      Depends: linux-image-6.1.0-56-amd64 (= 6.1.192-2)\n";
        assert_eq!(image_of_meta(debian).as_deref(), Some("linux-image-6.1.0-56-amd64"));
        let ubuntu = "Depends: linux-firmware, linux-image-6.8.0-45-generic, \
                      linux-modules-extra-6.8.0-45-generic, intel-microcode\n";
        assert_eq!(image_of_meta(ubuntu).as_deref(), Some("linux-image-6.8.0-45-generic"));
        assert_eq!(image_of_meta("Package: linux-image-amd64\n"), None);
    }

    #[test]
    fn name_and_hash_are_read_from_what_apt_prints() {
        let printed = "'http://deb.debian.org/pool/linux-image-6.1_6.1-2_amd64.deb' \
                       linux-image-6.1_6.1-2_amd64.deb 70550672 SHA256:a86e\n";
        assert_eq!(file_and_hash(printed), Some(("linux-image-6.1_6.1-2_amd64.deb", "a86e")));
        assert_eq!(file_and_hash("'http://x/a.deb' ../a.deb 7 SHA256:a86e"), None);
        assert_eq!(file_and_hash("'http://x/a.deb' a.deb 7 MD5Sum:a86e"), None);
        assert_eq!(file_and_hash("W: nothing"), None);
    }

    #[test]
    fn the_newest_plain_image_that_fits_is_taken() {
        let names = [
            "linux-image-6.1.0-9-amd64",
            "linux-image-6.1.0-56-amd64",
            "linux-image-6.1.0-57-amd64-unsigned",
            "linux-image-6.1.0-57-amd64-dbg",
            "linux-image-6.1.0-57-rt-amd64",
            "linux-image-6.1.0-57-cloud-amd64",
            "linux-image-6.12.12+bpo-amd64",
            "linux-image-6.1-amd64-x",
        ];
        let newest = |wish| newest_image(names.into_iter(), wish);
        assert_eq!(newest("6.1").as_deref(), Some("linux-image-6.1.0-56-amd64"));
        assert_eq!(newest("6.12").as_deref(), Some("linux-image-6.12.12+bpo-amd64"));
        assert_eq!(newest("7"), None);
    }

    #[test]
    fn the_mirror_of_the_system_is_used_and_comments_are_not() {
        let deb822 = "Types: deb\n# http://snapshot.debian.org/debian\n\
                      URIs: http://mirror.example/debian\nSuites: bookworm\n";
        assert_eq!(mirror_of(deb822).as_deref(), Some("http://mirror.example/debian"));
        let list = "#deb http://a/debian x main\ndeb https://b.example/debian/ bookworm main\n";
        assert_eq!(mirror_of(list).as_deref(), Some("https://b.example/debian/"));
        assert_eq!(mirror_of("deb http://archive.ubuntu.com/ubuntu noble main"), None);
    }
}
