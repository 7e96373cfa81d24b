//! Command-line defaults that model a present-day server, for workloads whose own defaults reproduce an old
//! publication. Study files use the workload's own defaults, so that a file means the same as when it was written.

use fsdyno_filesystem::Author;
use fsdyno_workload::workloads::Kind;

use crate::config::Settings;

/// A mail server: four deliverers that make Dovecot's calls with its fsyncs, while mail is retrieved.
const MAIL: &[(&str, &str)] = &[("deliverers", "4"), ("protocol", "dovecot")];

/// Parameters of the script of 2004 (docs/glossary.md): a command that sets any of them selects the script, as
/// `deliverers=0` does.
const SCRIPT: &[&str] =
    &["writes", "store", "read-store", "think", "list-source", "gap", "reads-after"];

/// The protocol of the script.
const COPY: &str = "copy";

/// Returns the default settings of the command line, or empty for most workloads.
pub fn defaults(kind: &Kind) -> &'static [(&'static str, &'static str)] {
    if kind.name == "maildir" { MAIL } else { &[] }
}

/// Returns a sentence about these defaults, if there are any.
pub fn note(kind: &Kind) -> Option<String> {
    (kind.name == "maildir").then(|| {
        format!(
            "By default, four deliverers make Dovecot's calls with its fsyncs while mail is retrieved; --set \
             protocol={COPY} selects the delivery script of 2004, which does not call fsync (the default in \
             study files)."
        )
    })
}

/// Adds the command line's defaults to the settings, unless the settings select the script of 2004.
pub fn with_defaults(kind: &Kind, mut settings: Settings, author: Author) -> Settings {
    let is_set_to = |key: &str, value: &str| settings.get(key).is_some_and(|it| it == value);
    let is_script = SCRIPT.iter().any(|key| settings.contains_key(*key))
        || is_set_to("protocol", COPY)
        || is_set_to("deliverers", "0");
    if author == Author::User && !is_script {
        for (key, value) in defaults(kind) {
            settings.entry((*key).to_string()).or_insert_with(|| (*value).to_string());
        }
    }
    settings
}

#[cfg(test)]
mod tests {
    use fsdyno_workload::workloads::find;

    use super::*;

    fn settings(name: &str, set: &[(&str, &str)], author: Author) -> Vec<String> {
        let set = set.iter().map(|(key, value)| ((*key).to_string(), (*value).to_string()));
        let all = with_defaults(find(name).unwrap(), set.collect(), author);
        all.into_iter().map(|(key, value)| format!("{key}={value}")).collect()
    }

    #[test]
    fn maildir_is_a_mail_server_in_a_command_and_the_script_of_2004_in_a_study_file() {
        let user = |set: &[(&str, &str)]| settings("maildir", set, Author::User);
        assert_eq!(user(&[("ops", "5")]), ["deliverers=4", "ops=5", "protocol=dovecot"]);
        assert_eq!(user(&[("deliverers", "8")]), ["deliverers=8", "protocol=dovecot"]);
        assert_eq!(user(&[("protocol", "postfix")]), ["deliverers=4", "protocol=postfix"]);
        assert_eq!(user(&[("protocol", "copy")]), ["protocol=copy"]);
        assert_eq!(user(&[("store", "20")]), ["store=20"]);
        assert_eq!(user(&[("deliverers", "0")]), ["deliverers=0"]);
        assert!(settings("maildir", &[], Author::File).is_empty());
        assert!(settings("dirops", &[], Author::User).is_empty());
    }
}
