//! SMB over another file system: the options of its server and share, and its versions.

use super::protocol::{Protocol, last_value};
use crate::SpecError;

/// The name of SMB in the catalog.
pub use fsdyno_record::plan::SMB;

/// SMB.
pub(super) const PROTOCOL: Protocol = Protocol { name: SMB, server_options: SERVER, check };

/// The protocol version for a spec that names none: the newest.
pub const DEFAULT_VERSION: &str = "3.1.1";

/// Options of the server and its share, as ksmbd.conf(5) names them, with `-` instead of blanks.
const SERVER: &[&str] = &["oplocks", "smb2-leases", "durable-handles", "store-dos-attributes"];

/// The settings of the server and its share that a spec can change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Server {
    /// Grants oplocks: a client may cache a file that no other client has open.
    pub oplocks: bool,
    /// Grants leases instead of oplocks: they also outlast the close of a file.
    pub leases: bool,
    /// Grants durable handles, which outlast a lost connection.
    pub durable_handles: bool,
    /// Stores the attributes of MS-DOS and the time of creation in an extended attribute of each file.
    pub store_dos_attributes: bool,
}

impl Server {
    /// Returns the settings that the options of a spec select; the defaults are those of ksmbd.conf(5).
    pub fn of(options: &[String]) -> Server {
        let set = |name: &str, default: bool| {
            let options = options.iter().map(String::as_str);
            last_value(options, &[name]).map_or(default, |value| value == "yes")
        };
        Server {
            oplocks: set("oplocks", true),
            leases: set("smb2-leases", false),
            durable_handles: set("durable-handles", false),
            store_dos_attributes: set("store-dos-attributes", true),
        }
    }
}

/// Returns the protocol version that mount options select.
pub fn version<'a>(options: impl DoubleEndedIterator<Item = &'a str>) -> &'a str {
    last_value(options, &["vers"]).unwrap_or(DEFAULT_VERSION)
}

fn check(options: &[String]) -> Result<(), SpecError> {
    let version = version(options.iter().map(String::as_str));
    let has = |name: &str| options.iter().any(|option| option == name);
    for (option, first, since) in
        [("posix", "3.1.1", &["3.1.1"][..]), ("seal", "3.0", &["3.0", "3.02", "3.1.1"])]
    {
        if has(option) && !since.contains(&version) {
            let problem = format!("'{option}' is not part of SMB {version}");
            return Err(SpecError::new(problem, format!("it needs vers={first} or later")));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Spec;
    use crate::shared::tests::plan;

    #[test]
    fn options_after_the_at_sign_are_those_of_smb_or_of_the_servers_file_system() {
        let planned =
            plan("smb:ext4 -I 512 @ vers=3.0,noatime,smb2-leases=yes,cache=loose").unwrap();
        assert!(planned.is_shared() && planned.modules.contains(&"ksmbd".to_string()));
        assert_eq!(
            (planned.mount_type.as_str(), planned.mount_options.as_str()),
            ("cifs", "vers=3.0,smb2-leases=yes,cache=loose")
        );
        let below = planned.below.clone().unwrap();
        assert_eq!((below.kind.as_str(), below.mount_options.as_str()), ("ext4", "noatime"));
        assert_eq!(planned.spec, "smb:ext4 -I 512 @ vers=3.0,smb2-leases=yes,cache=loose,noatime");
        for text in ["smb:xfs", "a=smb:exfat @ seal,sign,noatime"] {
            let spec = Spec::parse(text).unwrap();
            assert_eq!((spec.to_string(), Spec::parse(&spec.to_string())), (text.into(), Ok(spec)));
        }
    }

    #[test]
    fn specs_that_smb_cannot_serve_or_mount_are_refused_with_the_reason() {
        for (text, expected) in [
            ("smb:raw", "smb cannot be mounted over raw: there is no file system to share"),
            ("smb:fuse2fs", "smb cannot be mounted over fuse2fs"),
            ("smb:smb", "'smb' is incomplete"),
            ("smb:nfs", "'nfs' is incomplete"),
            ("smb", "write the lower file system, as in 'smb:ext4"),
            ("smb:", "write the lower one, as in 'smb:ext4'"),
            ("smb:ext4 @ vers=1.0", "write one of: 2.1, 3.0, 3.02, 3.1.1"),
            ("smb:ext4 @ vers=3", "write one of: 2.1, 3.0, 3.02, 3.1.1"),
            ("smb:ext4 @ cache=ro", "write one of: strict, none, loose"),
            ("smb:ext4 @ oplocks", "write one of: yes, no"),
            ("smb:ext4 @ smb2-leases=on", "write one of: yes, no"),
            ("smb:ext4 @ closetimeo=", "write a whole number: closetimeo=N"),
            ("smb:ext4 @ vers=3.0,posix", "'posix' is not part of SMB 3.0; it needs vers=3.1.1"),
            ("smb:ext4 @ seal,vers=2.1", "'seal' is not part of SMB 2.1; it needs vers=3.0"),
            ("smb:ext4 @ multichannel", "each host has one link"),
            ("smb:ext4 @ password=x", "'password' cannot be used here"),
            ("smb:ext4 @ durable-handels=yes", "ext4 has no mount option 'durable-handels"),
        ] {
            let error = plan(text).unwrap_err();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }

    #[test]
    fn the_servers_settings_are_those_of_ksmbd_unless_the_spec_changes_them() {
        let server_of = |options: &[&str]| {
            Server::of(&options.iter().map(ToString::to_string).collect::<Vec<_>>())
        };
        let defaults = Server {
            oplocks: true,
            leases: false,
            durable_handles: false,
            store_dos_attributes: true,
        };
        assert_eq!(server_of(&["vers=3.0", "cache=none"]), defaults);
        assert_eq!(
            server_of(&["oplocks=no", "oplocks=yes", "smb2-leases=yes"]),
            Server { leases: true, ..defaults }
        );
        assert_eq!(version(["vers=2.1", "vers=3.02"].into_iter()), "3.02");
        assert!(plan(&format!("smb:ext4 @ vers={DEFAULT_VERSION}")).is_ok());
        assert!(PROTOCOL.is_for_server("oplocks=no") && !PROTOCOL.is_for_server("nobrl"));
    }
}
