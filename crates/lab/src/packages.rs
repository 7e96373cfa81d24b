//! Package lists in apt's output format, and the selection of a kernel's packages.
//!
//! A kernel is the package `linux-image-RELEASE` and those of its dependencies that have RELEASE in their name. Up to
//! 6.18, Debian has the image and the modules in one package, and since 6.19 in four: `linux-image-` is empty, and
//! `linux-binary-`, `linux-modules-` and `linux-base-` contain the files. Ubuntu also has separate module packages.
//!
//! A suite may have packages without their dependencies: for 7.0 to 7.1, trixie-backports has images but no modules.
//! Lists do not show the contents of packages, so an incomplete kernel may still be usable (`linux-base-` of 6.18
//! contains only documentation), and is used if no complete one matches.

use std::collections::{BTreeMap, BTreeSet};

use fsdyno_filesystem::catalog;

use crate::archive::UBUNTU_KEYS;
use crate::release::{by_version, has_prefix};
use crate::series::Series;

/// The metapackages; the first image that one of them depends on is the distribution's default kernel.
pub const META_PACKAGES: &[&str] = &["linux-image-amd64", "linux-image-generic"];

/// The prefix of the names of image packages.
const IMAGE: &str = "linux-image-";

/// A package in a list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Package {
    pub name: String,
    pub version: String,
    /// The dependencies as in the list: `kmod, linux-base (>= 4.3~)`.
    depends: String,
    /// The size of the package's file, in bytes.
    pub size: u64,
    /// The SHA-256 of the package's file, in hex.
    pub sha256: String,
}

/// The packages of a kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelPackages {
    pub release: String,
    /// The packages that are in the list.
    pub packages: Vec<Package>,
    /// Dependencies that no package in the list satisfies: `linux-modules-7.1.13-amd64 (= 7.1.13-1)`.
    pub missing: Vec<String>,
}

/// The packages in a list that a lab may need, by name: those whose names begin with `linux-`, those of tools that the
/// catalog takes from other suites, and the one with Ubuntu's public keys.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Packages(BTreeMap<String, Package>);

/// Returns true if a lab may need a package.
fn may_be_needed(name: &str) -> bool {
    let downloaded = || catalog::all().iter().flat_map(|kind| &kind.downloaded);
    name.starts_with("linux-") || name == UBUNTU_KEYS || downloaded().any(|package| package == name)
}

impl Packages {
    /// Parses a list; a package without a SHA-256 cannot be verified, and is skipped.
    pub fn read(list: &str) -> Packages {
        let packages = list.split("\n\n").map(package);
        let usable = |package: &Package| may_be_needed(&package.name) && !package.sha256.is_empty();
        let usable = packages.filter(usable);
        Packages(usable.map(|package| (package.name.clone(), package)).collect())
    }

    /// Formats the list for [`Packages::read`].
    pub fn list(&self) -> String {
        let stanza = |Package { name, version, depends, size, sha256 }: &Package| {
            format!(
                "Package: {name}\nVersion: {version}\nDepends: {depends}\nSize: {size}\nSHA256: {sha256}\n\n"
            )
        };
        self.0.values().map(stanza).collect()
    }

    /// Returns the packages with these names, or the names that are not in the list.
    pub fn named(&self, names: &[String]) -> Result<Vec<Package>, Vec<String>> {
        let missing = names.iter().filter(|name| !self.0.contains_key(*name)).cloned();
        let missing: Vec<String> = missing.collect();
        match missing.is_empty() {
            true => Ok(names.iter().filter_map(|name| self.0.get(name)).cloned().collect()),
            false => Err(missing),
        }
    }

    /// Returns the kernel that the distribution's metapackage depends on.
    pub fn default_kernel(&self) -> Option<KernelPackages> {
        let metas = META_PACKAGES.iter().filter_map(|meta| self.0.get(*meta));
        let mut dependency = metas.flat_map(|meta| clauses(&meta.depends)).flatten();
        self.kernel(dependency.find_map(|dependency| release_of(dependency.name))?)
    }

    /// Returns the newest kernel whose release begins with `request`, preferably one with all its packages in the list.
    pub fn newest(&self, request: &str) -> Option<KernelPackages> {
        let fits = self.releases().filter(|release| has_prefix(release, request));
        let kernels = fits.filter_map(|release| self.kernel(release));
        kernels.max_by(|a, b| {
            let is_complete = |kernel: &KernelPackages| kernel.missing.is_empty();
            is_complete(a).cmp(&is_complete(b)).then(by_version(&a.release, &b.release))
        })
    }

    /// Returns the series of the kernels with all their packages in the list, oldest first: `6.1, 6.12`.
    pub fn series(&self) -> String {
        let series: BTreeSet<Series> = self
            .complete_kernels()
            .iter()
            .filter_map(|kernel| Series::of(&kernel.release))
            .collect();
        let series: Vec<String> = series.iter().map(Series::to_string).collect();
        series.join(", ")
    }

    /// Returns the kernels with all their packages in the list, newest first.
    pub fn complete_kernels(&self) -> Vec<KernelPackages> {
        let kernels = self.releases().filter_map(|release| self.kernel(release));
        let mut complete: Vec<_> = kernels.filter(|kernel| kernel.missing.is_empty()).collect();
        complete.sort_by(|a, b| by_version(&b.release, &a.release));
        complete
    }

    fn releases(&self) -> impl Iterator<Item = &str> {
        self.0
            .values()
            .filter(|package| !is_metapackage(package))
            .filter_map(|it| release_of(&it.name))
    }

    /// Returns the packages of a release.
    fn kernel(&self, release: &str) -> Option<KernelPackages> {
        // Only Ubuntu's metapackage depends on modules-extra.
        let image = self.0.get(&format!("{IMAGE}{release}"))?;
        let extra = self.0.get(&format!("linux-modules-extra-{release}"));
        let mut packages: Vec<&Package> = [image].into_iter().chain(extra).collect();
        let (mut index, mut missing) = (0, Vec::new());
        while let Some(package) = packages.get(index) {
            for needed in self.needed(package, release) {
                match needed {
                    Ok(package) if packages.contains(&package) => {}
                    Ok(package) => packages.push(package),
                    Err(dependency) if missing.contains(&dependency) => {}
                    Err(dependency) => missing.push(dependency),
                }
            }
            index += 1;
        }
        let packages = packages.into_iter().cloned().collect();
        Some(KernelPackages { release: release.to_string(), packages, missing })
    }

    /// Returns the dependencies of a package that have a release in their names: for each, the package, or the text of
    /// the dependency if no package satisfies it.
    fn needed(&self, package: &Package, release: &str) -> Vec<Result<&Package, String>> {
        let relevant = clauses(&package.depends).filter_map(|clause| {
            let relevant =
                clause.into_iter().filter(|dependency| dependency.name.contains(release));
            Some(relevant.collect::<Vec<_>>()).filter(|relevant| !relevant.is_empty())
        });
        relevant
            .map(|alternatives| {
                let existing = alternatives.iter().find_map(|dependency| {
                    self.0.get(dependency.name).filter(|found| dependency.accepts(&found.version))
                });
                existing.ok_or_else(|| alternatives[0].text.to_string())
            })
            .collect()
    }
}

/// A dependency: `linux-modules-7.3.4+deb13-amd64 (= 7.3.4-1~bpo13+1)`.
#[derive(Clone, Copy)]
struct Dependency<'a> {
    text: &'a str,
    name: &'a str,
}

impl Dependency<'_> {
    /// Returns true if a version satisfies the dependency. Packages of one kernel depend on one exact version of each
    /// other, or on any version.
    fn accepts(&self, version: &str) -> bool {
        let exact = self.text.split_once("(= ").and_then(|(_, rest)| rest.strip_suffix(')'));
        exact.is_none_or(|exact| exact == version)
    }
}

/// Parses a list of dependencies, each with its alternatives.
fn clauses(depends: &str) -> impl Iterator<Item = Vec<Dependency<'_>>> {
    depends.split(',').map(|clause| {
        let alternatives = clause.split('|').map(str::trim);
        let name = |text: &'_ str| text.find([' ', ':', '(']).unwrap_or(text.len());
        alternatives.map(|text| Dependency { text, name: &text[..name(text)] }).collect()
    })
}

/// Parses a stanza of a list.
fn package(stanza: &str) -> Package {
    let mut package = Package::default();
    for (field, value) in stanza.lines().filter_map(|line| line.split_once(": ")) {
        match field {
            "Package" => package.name = value.into(),
            "Version" => package.version = value.into(),
            "Depends" => package.depends = value.into(),
            "Size" => package.size = value.parse().unwrap_or(0),
            "SHA256" => package.sha256 = value.into(),
            _ => {}
        }
    }
    package
}

/// Returns true if an image package only depends on that of a release: linux-image-6.12-amd64 of Debian's backports.
fn is_metapackage(package: &Package) -> bool {
    let other = |dependency: &Dependency<'_>| {
        dependency.name.starts_with(IMAGE) && dependency.name != package.name
    };
    clauses(&package.depends).flatten().any(|dependency| other(&dependency))
}

/// Returns the release of an image package such as `linux-image-6.1.0-56-amd64`, or `None` for its -dbg, -unsigned,
/// -rt- and -cloud- variants.
fn release_of(name: &str) -> Option<&str> {
    let release = name.strip_prefix(IMAGE)?;
    let version = release.strip_suffix("-amd64").or(release.strip_suffix("-generic"))?;
    // Backports have their suite in the release: 6.12.9+bpo-amd64, 6.12.12+deb12-amd64. Release candidates are in
    // experimental: 7.3-rc7-amd64.
    let plain = version.split('+').next().unwrap_or_default();
    let plain = plain.replacen("-rc", "-", 1);
    let is_image = version.starts_with(|c: char| c.is_ascii_digit())
        && plain.chars().all(|c| c.is_ascii_digit() || ".-~".contains(c))
        && !["rt", "cloud"].iter().any(|kind| version.split('-').any(|part| part == *kind));
    is_image.then_some(release)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Returns a list with packages with these names, version 1, and these dependencies.
    pub fn list(packages: &[(&str, &str)]) -> String {
        let stanza = |(name, depends): &(&str, &str)| {
            format!(
                "Package: {name}\nVersion: 1\nArchitecture: amd64\nDepends: {depends}\n\
                 Description: a package\n with a long text\nSize: 5\nSHA256: 5e\n\n"
            )
        };
        packages.iter().map(stanza).collect()
    }

    /// Debian's packages since 6.19, with the names of 7.3.
    pub const SPLIT: [(&str, &str); 4] = [
        (
            "linux-image-7.3.4+deb13-amd64",
            "dracut | initramfs-tools (>= 0.120+deb8u2) | linux-initramfs-tool, \
             linux-base-7.3.4+deb13-amd64 (= 1), linux-binary-7.3.4+deb13-amd64 (= 1), \
             linux-modules-7.3.4+deb13-amd64 (= 1)",
        ),
        ("linux-base-7.3.4+deb13-amd64", ""),
        ("linux-binary-7.3.4+deb13-amd64", "linux-base-7.3.4+deb13-amd64 (= 1)"),
        ("linux-modules-7.3.4+deb13-amd64", "kmod, linux-base-7.3.4+deb13-amd64 (= 1)"),
    ];

    fn names(kernel: Option<KernelPackages>) -> Vec<String> {
        kernel.unwrap().packages.into_iter().map(|package| package.name).collect()
    }

    #[test]
    fn the_default_kernel_is_the_one_that_the_metapackage_depends_on() {
        let debian = list(&[
            ("linux-image-amd64", "linux-image-6.1.0-56-amd64 (= 1)"),
            ("linux-image-6.1.0-56-amd64", "kmod, linux-base (>= 4.3~), initramfs-tools"),
            ("linux-image-6.1.0-57-amd64", ""),
            ("linux-base", ""),
        ]);
        let kernel = Packages::read(&debian).default_kernel();
        assert_eq!(kernel.as_ref().unwrap().release, "6.1.0-56-amd64");
        assert_eq!(names(kernel), ["linux-image-6.1.0-56-amd64"]);
        let ubuntu = list(&[
            (
                "linux-image-generic",
                "linux-firmware, linux-image-6.8.0-45-generic, \
                 linux-modules-extra-6.8.0-45-generic, intel-microcode",
            ),
            ("linux-image-6.8.0-45-generic", "kmod, linux-modules-6.8.0-45-generic"),
            ("linux-modules-6.8.0-45-generic", ""),
            ("linux-modules-extra-6.8.0-45-generic", "linux-modules-6.8.0-45-generic, wireless"),
            ("linux-headers-6.8.0-45-generic", ""),
        ]);
        assert_eq!(
            names(Packages::read(&ubuntu).default_kernel()),
            [
                "linux-image-6.8.0-45-generic",
                "linux-modules-extra-6.8.0-45-generic",
                "linux-modules-6.8.0-45-generic"
            ]
        );
        let empty = Packages::read(&list(&[("linux-image-amd64", "")]));
        assert_eq!(empty.default_kernel(), None);
    }

    #[test]
    fn a_kernel_in_several_packages_includes_all_that_its_image_depends_on() {
        let split = Packages::read(&list(&SPLIT));
        let kernel = split.newest("7").unwrap();
        assert_eq!(kernel.release, "7.3.4+deb13-amd64");
        assert_eq!(names(Some(kernel)), SPLIT.map(|(name, _)| name));
        assert_eq!(
            split,
            Packages::read(&split.list()),
            "a list is unchanged by formatting and parsing"
        );
        // Package names of unknown kinds are included, and of two alternatives the one that exists.
        let other = list(&[
            ("linux-image-9.0-amd64", "linux-a-9.0-amd64 | linux-b-9.0-amd64:amd64 (>= 1)"),
            ("linux-b-9.0-amd64", "linux-c-9.0-amd64-fs"),
            ("linux-c-9.0-amd64-fs", "linux-image-9.0-amd64"),
        ]);
        assert_eq!(
            names(Packages::read(&other).newest("9.0")),
            ["linux-image-9.0-amd64", "linux-b-9.0-amd64", "linux-c-9.0-amd64-fs"]
        );
    }

    #[test]
    fn a_kernel_of_ubuntu_has_the_modules_of_zfs() {
        let packages = list(&[
            ("linux-image-7.0.0-14-generic", "kmod, linux-modules-7.0.0-14-generic"),
            ("linux-modules-7.0.0-14-generic", "linux-main-modules-zfs-7.0.0-14-generic, regdb"),
            (
                "linux-main-modules-zfs-7.0.0-14-generic",
                "kmod, linux-image-7.0.0-14-generic | linux-image-unsigned-7.0.0-14-generic",
            ),
        ]);
        let expected = ["linux-image-", "linux-modules-", "linux-main-modules-zfs-"];
        let expected = expected.map(|name| format!("{name}7.0.0-14-generic"));
        assert_eq!(names(Packages::read(&packages).newest("7.0.0-14-generic")), expected);
    }

    #[test]
    fn an_older_complete_kernel_is_preferred_to_an_image_whose_modules_are_gone() {
        let mut packages: Vec<_> = SPLIT.to_vec();
        packages.push(("linux-image-7.9.1-amd64", "linux-modules-7.9.1-amd64 (= 1)"));
        packages.push(("linux-image-7.10.1-amd64", "linux-modules-7.10.1-amd64 (= 2)"));
        packages.push(("linux-modules-7.10.1-amd64", ""));
        let packages = Packages::read(&list(&packages));
        assert_eq!(packages.newest("7").unwrap().release, "7.3.4+deb13-amd64");
        assert_eq!(packages.series(), "7.3");
        let kernel = packages.newest("7.9").unwrap();
        assert_eq!(kernel.packages.len(), 1);
        assert_eq!(kernel.missing, ["linux-modules-7.9.1-amd64 (= 1)"]);
        // The list has the modules of this kernel in a different version.
        let kernel = packages.newest("7.10").unwrap();
        assert_eq!(kernel.missing, ["linux-modules-7.10.1-amd64 (= 2)"]);
    }

    #[test]
    fn a_metapackage_of_a_series_is_not_a_kernel() {
        let image = "linux-image-6.1.0-56-amd64";
        let packages = [(image, ""), ("linux-image-6.1-amd64", "linux-image-6.1.0-56-amd64 (= 1)")];
        let packages = Packages::read(&list(&packages));
        assert_eq!(packages.newest("6.1").unwrap().release, "6.1.0-56-amd64");
        assert_eq!(packages.complete_kernels().len(), 1);
    }

    #[test]
    fn the_newest_matching_image_that_is_no_variant_is_chosen() {
        let names = [
            "linux-image-6.1.0-9-amd64",
            "linux-image-6.1.0-56-amd64",
            "linux-image-6.1.0-57-amd64-unsigned",
            "linux-image-6.1.0-57-amd64-dbg",
            "linux-image-6.1.0-57-rt-amd64",
            "linux-image-6.1.0-57-cloud-amd64",
            "linux-image-6.12.12+bpo-amd64",
            "linux-image-6.13-rc7-amd64",
            "linux-image-6.1-amd64-x",
        ];
        let packages = Packages::read(&list(&names.map(|name| (name, ""))));
        let newest = |request| packages.newest(request).map(|kernel| kernel.release);
        assert_eq!(newest("6.1").as_deref(), Some("6.1.0-56-amd64"));
        assert_eq!(newest("6.12").as_deref(), Some("6.12.12+bpo-amd64"));
        assert_eq!(newest("7"), None);
        assert_eq!(newest("6.13").as_deref(), Some("6.13-rc7-amd64"));
        assert_eq!(packages.series(), "6.1, 6.12, 6.13");
        let complete: Vec<String> =
            packages.complete_kernels().into_iter().map(|it| it.release).collect();
        let expected = ["6.13-rc7-amd64", "6.12.12+bpo-amd64", "6.1.0-56-amd64", "6.1.0-9-amd64"];
        assert_eq!(complete, expected);
        let without_hash = list(&[(names[0], "")]).replace("SHA256: 5e\n", "");
        assert_eq!(Packages::read(&without_hash).newest("6.1"), None);
    }
}
