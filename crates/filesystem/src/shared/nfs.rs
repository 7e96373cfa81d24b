//! NFS over another file system: the options of its export, and its versions.

use super::protocol::{Protocol, last_value};
use crate::SpecError;

/// The name of NFS in the catalog.
pub use fsdyno_record::plan::NFS;

/// NFS.
pub(super) const PROTOCOL: Protocol = Protocol { name: NFS, server_options: EXPORT, check };

/// Options of the export, as exports(5) names them.
const EXPORT: &[&str] = &["sync", "async"];

/// The protocol version for a spec that names none: the newest.
pub const DEFAULT_VERSION: &str = "4.2";

/// Returns the protocol version that mount options select.
pub fn version<'a>(options: impl DoubleEndedIterator<Item = &'a str>) -> &'a str {
    last_value(options, &["vers", "nfsvers"]).unwrap_or(DEFAULT_VERSION)
}

fn check(options: &[String]) -> Result<(), SpecError> {
    if EXPORT.iter().all(|word| options.iter().any(|option| option == word)) {
        let problem = "an export cannot be both sync and async";
        return Err(SpecError::new(problem, "specify only one of them; the default is sync"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Spec;
    use crate::shared::tests::plan;

    #[test]
    fn options_after_the_at_sign_are_those_of_nfs_or_of_the_servers_file_system() {
        let planned = plan("nfs:xfs -i size=1024 @ vers=3,noatime,async,nconnect=4").unwrap();
        assert!(planned.is_shared() && planned.modules.contains(&"nfsd".to_string()));
        assert_eq!(
            (planned.kind.as_str(), planned.mount_options.as_str()),
            ("nfs", "vers=3,async,nconnect=4")
        );
        let below = planned.below.clone().unwrap();
        assert_eq!((below.kind.as_str(), below.mount_options.as_str()), ("xfs", "noatime"));
        assert!(planned.mkfs.join(" ").contains("size=1024"), "{:?}", planned.mkfs);
        assert_eq!(planned.spec, "nfs:xfs -i size=1024 @ vers=3,async,nconnect=4,noatime");
    }

    #[test]
    fn a_spec_of_nfs_round_trips_through_its_text() {
        for text in [
            "nfs:ext4",
            "a=nfs:ext4 @ vers=4.1",
            "nfs:ext4 -I 128 @ noatime",
            "nfs:xfs @ sync,noatime",
        ] {
            let spec = Spec::parse(text).unwrap();
            assert_eq!(spec.to_string(), text);
            assert_eq!(Spec::parse(&spec.to_string()), Ok(spec));
        }
        assert_eq!(Spec::parse("nfs,vers=3:ext4"), Spec::parse("nfs:ext4@vers=3"));
    }

    #[test]
    fn specs_that_cannot_be_exported_or_mounted_are_refused_with_the_reason() {
        for (text, expected) in [
            ("nfs:exfat", "nfs cannot be mounted over exfat: the kernel cannot export exFAT"),
            ("nfs:raw", "nfs cannot be mounted over raw"),
            ("nfs:fuse2fs", "nfs cannot be mounted over fuse2fs"),
            ("nfs:nfs", "'nfs' is incomplete"),
            ("nfs:overlayfs", "'overlayfs' is incomplete"),
            ("nfs", "write the lower file system, as in 'nfs:ext4"),
            ("overlayfs:nfs", "'nfs' is incomplete"),
            (
                "nfs:ext4@vers=5",
                "'vers=5' does not have a valid value; write one of: 3, 4.0, 4.1, 4.2",
            ),
            ("nfs:ext4 @ vers=2", "write one of: 3, 4.0, 4.1, 4.2"),
            ("nfs:ext4 @ nconnect=17", "write a whole number from 1 to 16: nconnect=N"),
            ("nfs:ext4 @ nconnect", "'nconnect' does not have a valid value"),
            (
                "nfs:ext4 @ rsize=64k",
                "'rsize=64k' does not have a valid value; write a whole number",
            ),
            ("nfs:ext4 @ actimeo=-1", "write a whole number: actimeo=N"),
            ("nfs:ext4 @ lookupcache=no", "write one of: all, none, pos, positive"),
            ("nfs:ext4 @ vers", "write one of: 3, 4.0, 4.1, 4.2"),
            ("nfs:ext4 @ vers=", "'vers=' does not have a valid value"),
            ("nfs:ext4 @ async,sync", "cannot be both sync and async"),
            (
                "nfs:",
                "no file system after 'nfs:' at column 1; write the lower one, as in 'nfs:ext4'",
            ),
            ("overlayfs,volatile:", "as in 'overlayfs,volatile:ext4'"),
            ("nfs:ext4 @ port=2050", "'port' cannot be used here"),
            ("nfs:ext4 @ lock", "mounted with nolock"),
            ("nfs:ext4 @ wsise=1", "ext4 has no mount option 'wsise'"),
        ] {
            let error = plan(text).unwrap_err();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }

    #[test]
    fn the_last_version_counts_and_the_newest_is_the_default() {
        assert_eq!(version(["vers=3", "nfsvers=4.1"].into_iter()), "4.1");
        assert_eq!(version(["noac"].into_iter()), DEFAULT_VERSION);
        assert!(plan(&format!("nfs:ext4 @ vers={DEFAULT_VERSION}")).is_ok());
    }
}
