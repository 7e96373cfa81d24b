//! A protocol: which options of a spec belong to it, and which of these are for its server.

use crate::{SpecError, catalog};

/// A protocol.
#[derive(Debug)]
pub struct Protocol {
    /// Its name in the catalog.
    pub name: &'static str,
    /// The options of the server, as the configuration of that server names them; the others are for the clients'
    /// mounts.
    pub(super) server_options: &'static [&'static str],
    /// Checks the options of clients and server together.
    pub(super) check: fn(&[String]) -> Result<(), SpecError>,
}

impl Protocol {
    /// Reports whether an option after the `@` belongs to the protocol rather than to the server's file system.
    pub fn has_option(&self, option: &str) -> bool {
        let name = name_of(option);
        let known = catalog::get(self.name).ok().map(catalog::Filesystem::known);
        self.is_for_server(option)
            || known.is_some_and(|known| {
                known.mount.iter().any(|own| own == name)
                    || known.refused.contains_key(&format!("mount {name}"))
            })
    }

    /// Reports whether an option of the protocol is for its server.
    pub fn is_for_server(&self, option: &str) -> bool {
        self.server_options.contains(&name_of(option))
    }

    /// Checks the options of clients and server together; each is also checked individually, as for other file systems.
    pub(crate) fn check(&self, options: &[String]) -> Result<(), SpecError> {
        if let Some(word) = options.iter().find(|option| option.chars().any(char::is_whitespace)) {
            return Err(SpecError::new(
                format!("the mount option '{word}' contains white space"),
                "remove it",
            ));
        }
        (self.check)(options)
    }
}

/// Returns the last value that options give to any of these names.
pub(super) fn last_value<'a>(
    options: impl DoubleEndedIterator<Item = &'a str>,
    names: &[&str],
) -> Option<&'a str> {
    let mut values = options.rev().filter_map(|option| option.split_once('='));
    values.find(|(name, _)| names.contains(name)).map(|(_, value)| value)
}

fn name_of(option: &str) -> &str {
    option.split('=').next().unwrap_or(option)
}
