//! Checks for contradictions between parameters of the workload `maildir`.

use crate::params::{ParamError, Values};

/// Refuses parameters that would have no effect.
///
/// # Errors
/// The contradiction, in one line.
pub fn check(values: &Values) -> Result<(), ParamError> {
    let refuse = |message: String| Err(ParamError::Conflict(message));
    let (fill, read_store) = (values.number_or_zero("fill"), values.number_or_zero("read-store"));
    if fill > read_store {
        return refuse(format!(
            "fill={fill} is more than read-store={read_store}, which the maildirs are filled from; \
             use fill={read_store} or less, or a larger read-store"
        ));
    }
    let (protocol, mail_fsync) = (values.text("protocol"), values.text("mail-fsync"));
    if protocol != "dovecot" && mail_fsync != "optimized" {
        return refuse(format!(
            "mail-fsync={mail_fsync} is a setting of protocol=dovecot and has no effect with \
             protocol={protocol}; omit it"
        ));
    }
    let deliverers = values.text("deliverers");
    if deliverers == "0" {
        return match values.text("retrieve") {
            "delete" => refuse(
                "retrieve=delete needs deliverers: the script of 2004 (deliverers=0) retrieves nothing; use \
                 deliverers=1 or more"
                    .to_string(),
            ),
            _ => Ok(()),
        };
    }
    for (key, expected) in [
        ("list-source", ["auto", "none"]),
        ("think", ["off", "off"]),
        ("writes", ["80", "80"]),
        ("gap", ["sync", "sync"]),
        ("reads-after", ["0", "0"]),
    ] {
        let value = values.text(key);
        if !expected.contains(&value) {
            return refuse(format!(
                "{key}={value} applies only to the script of 2004; omit {key}, or set deliverers=0"
            ));
        }
    }
    Ok(())
}
