//! The kernel configuration that a lab needs, as a fragment for users who build their own kernel.

/// The fragment in docs/kernel.config.
pub const FRAGMENT: &str = include_str!("../../../docs/kernel.config");

/// Returns the fragment's options and their required values: `y`, or `m` if a module suffices.
pub fn options() -> impl Iterator<Item = (&'static str, &'static str)> {
    FRAGMENT.lines().filter(|line| !line.starts_with('#')).filter_map(|line| line.split_once('='))
}

/// Returns the options that do not have their required value in a kernel configuration.
pub fn missing_options(config: &str) -> Vec<&'static str> {
    let value_of = |name: &str| {
        config.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('=')).unwrap_or("n")
    };
    let is_met = |name: &str, required: &str| value_of(name) == "y" || value_of(name) == required;
    options().filter(|(name, required)| !is_met(name, required)).map(|(name, _)| name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The lines of these options in the configurations of Debian's packages.
    const DEBIAN: [(&str, &str); 4] = [
        ("5.10", include_str!("../tests/configs/debian-5.10.config")),
        ("6.1", include_str!("../tests/configs/debian-6.1.config")),
        ("6.12", include_str!("../tests/configs/debian-6.12.config")),
        ("7.3", include_str!("../tests/configs/debian-7.3.config")),
    ];

    #[test]
    fn debian_kernels_have_all_options() {
        for (series, config) in DEBIAN {
            assert!(config.starts_with(&format!("# linux-image-{series}.")), "{series}");
            // Linux 6.13 removed ReiserFS.
            let removed: &[&str] = if series == "7.3" { &["CONFIG_REISERFS_FS"] } else { &[] };
            assert_eq!(missing_options(config), removed, "{series}");
        }
        assert!(options().count() > 40);
    }

    #[test]
    fn options_that_are_off_or_modules_instead_of_built_in_are_named() {
        let config = DEBIAN[1].1.replace("CONFIG_XFS_FS=m", "# CONFIG_XFS_FS is not set");
        let config = config.replace("CONFIG_PVH=y\n", "").replace("CONFIG_UNIX=y", "CONFIG_UNIX=m");
        assert_eq!(missing_options(&config), ["CONFIG_PVH", "CONFIG_UNIX", "CONFIG_XFS_FS"]);
        let built_in = DEBIAN[1].1.replace("=m", "=y");
        assert_eq!(missing_options(&built_in), Vec::<&str>::new());
    }
}
