//! Derives the commands of a stored plan again, so that a file never supplies a command.
//!
//! A plan holds the command lines and the environment of its file system, so that a record shows what ran. To run a
//! stored plan, they are derived again here from the catalog and the plan's spec; a plan that differs is refused.

use std::collections::BTreeSet;

use fsdyno_record::Bytes;
use fsdyno_record::plan::{FilesystemPlan, MediumPlan, VenuePlan};
use fsdyno_record::quote;
use serde_json::Value;

use crate::catalog::{self, Backing, Filesystem};
use crate::{Context, Spec, SpecError, memory, period};

/// Derives a plan's file system from the catalog, its spec and its medium.
///
/// Some options exist only in newer tools, and a plan does not record the tool's version, so the plan is compared with
/// the catalog's commands for each version.
///
/// # Errors
/// A plan that differs from all of these; the error states the first difference.
pub fn rederive(
    stored: &FilesystemPlan,
    medium: &MediumPlan,
    venue: &VenuePlan,
) -> Result<FilesystemPlan, SpecError> {
    let (context, size) = match (venue, medium) {
        (VenuePlan::Lab(_), MediumPlan::Modelled(_) | MediumPlan::Memory { .. }) => {
            (Context::of_lab(medium.raid()), medium.size())
        }
        (VenuePlan::Host, medium) if medium.is_host_device() => (Context::Host, None),
        (
            VenuePlan::Host | VenuePlan::Lab(_) | VenuePlan::Model { .. } | VenuePlan::Ranks(_),
            _,
        ) => {
            let problem = "it has file system commands, but its medium takes no file system";
            return Err(refused(problem.to_string()));
        }
    };
    let spec = Spec::parse(&stored.spec)?;
    let unknown = |error: catalog::Unknown| refused(error.to_string());
    let (top, base) = (
        catalog::get(&spec.kind).map_err(unknown)?,
        catalog::get(&spec.base().kind).map_err(unknown)?,
    );
    let mut nearest: Option<Vec<String>> = None;
    for tool in versions(base) {
        let fresh = derive(top, base, &spec, stored, (context, size, tool))?;
        if fresh == *stored {
            return Ok(fresh);
        }
        let differing = differences(stored, &fresh);
        if nearest.as_ref().is_none_or(|nearest| differing.len() < nearest.len()) {
            nearest = Some(differing);
        }
    }
    let first = nearest.into_iter().flatten().next();
    Err(refused(first.unwrap_or_default()))
}

fn derive(
    top: &Filesystem,
    base: &Filesystem,
    spec: &Spec,
    stored: &FilesystemPlan,
    (context, size, tool): (Context, Option<Bytes>, Option<&str>),
) -> Result<FilesystemPlan, SpecError> {
    let unknown = |error: period::Unknown| refused(error.to_string());
    let period = stored.period.as_deref().map(period::get).transpose().map_err(unknown)?;
    let period =
        period.and_then(|period| period.settings_for(&spec.kind, size.unwrap_or_default()));
    let mut fresh = top.plan_for_period(spec, context, tool, period.as_ref())?;
    if base.lies_on == Backing::Memory {
        memory::set_size(&mut fresh, spec, size);
    }
    fresh.age.clone_from(&stored.age);
    Ok(fresh)
}

/// Returns the tool versions for which the commands of a file system differ: none, and each version that adds options.
fn versions(base: &Filesystem) -> impl Iterator<Item = Option<&str>> {
    let since = base.mkfs.add.iter().filter_map(|addition| addition.since.as_deref());
    std::iter::once(None).chain(since.map(Some))
}

/// Returns the fields in which two plans differ, with the first different word of each.
fn differences(stored: &FilesystemPlan, fresh: &FilesystemPlan) -> Vec<String> {
    let fields = |plan| match serde_json::to_value(plan) {
        Ok(Value::Object(fields)) => fields,
        _ => serde_json::Map::new(),
    };
    let (stored, fresh) = (fields(stored), fields(fresh));
    let names: BTreeSet<&String> = stored.keys().chain(fresh.keys()).collect();
    let names = names.into_iter().filter(|name| stored.get(*name) != fresh.get(*name));
    let shown = |value: Option<&Value>| match value {
        Some(value) => quote::short(&value.to_string()),
        None => "nothing".into(),
    };
    let difference = |name: &String| {
        let (stored, derived) = match (stored.get(name), fresh.get(name)) {
            (Some(Value::Array(stored)), Some(Value::Array(derived))) => {
                let both = stored.iter().zip(derived);
                let at = both.take_while(|(stored, derived)| stored == derived).count();
                (stored.get(at), derived.get(at))
            }
            whole => whole,
        };
        format!("its '{name}' has {}, but the catalog has {}", shown(stored), shown(derived))
    };
    names.map(difference).collect()
}

fn refused(problem: String) -> SpecError {
    let hint = "commands come only from the catalog of this fsdyno, never from a file, so the plan is not run; \
                run it again with this fsdyno";
    SpecError::new(problem, hint)
}

#[cfg(test)]
mod tests {
    use fsdyno_record::plan::{LabPlan, Target};

    use super::*;

    type Location = (MediumPlan, VenuePlan);

    fn lab(size: Option<Bytes>) -> Location {
        (MediumPlan::Memory { size }, VenuePlan::Lab(LabPlan::new("6.1", Bytes(1 << 30))))
    }

    fn device() -> Location {
        let Target::Ephemeral(device) = Target::parse("loop:1G").unwrap() else { panic!() };
        (device.into(), VenuePlan::Host)
    }

    fn rederive(
        stored: &FilesystemPlan,
        (medium, venue): &Location,
    ) -> Result<FilesystemPlan, SpecError> {
        super::rederive(stored, medium, venue)
    }

    fn plan(spec: &str, context: Context, tool: Option<&str>) -> FilesystemPlan {
        let spec = Spec::parse(spec).unwrap();
        catalog::get(&spec.kind).unwrap().plan(&spec, context, tool).unwrap()
    }

    #[test]
    fn the_plans_of_the_catalog_are_derived_again() {
        for kind in catalog::all() {
            let spec = match kind.lies_on {
                Backing::Command => "fuse: mkfs.x {device} ; y {device} {mount} -f".to_string(),
                Backing::Filesystem if kind.name == crate::shared::nfs::NFS => {
                    "nfs:ext4 -I 128 @ vers=3,noatime".to_string()
                }
                Backing::Filesystem if kind.name == crate::shared::smb::SMB => {
                    "smb:ext4 -I 128 @ vers=3.0,oplocks=no,noatime".to_string()
                }
                Backing::Filesystem => format!("{},volatile:ext4 -I 128 @ noatime", kind.name),
                Backing::Device | Backing::Memory => kind.name.clone(),
            };
            for tool in [None, Some("mke2fs 1.46.5"), Some("mke2fs 1.47.0"), Some("tool 99.1")] {
                for (context, medium) in [(Context::Lab, lab(None)), (Context::Host, device())] {
                    let plan = plan(&spec, context, tool);
                    assert_eq!(rederive(&plan, &medium).unwrap(), plan, "{spec} with {tool:?}");
                }
            }
        }
        let mut aged = plan("ext4 -J size=64 @ noatime", Context::Lab, None);
        aged.age = "fill=80%".parse().ok();
        assert_eq!(rederive(&aged, &lab(None)).unwrap(), aged);
    }

    #[test]
    fn a_period_and_a_size_in_memory_are_derived_again_too() {
        for size in [Bytes(1 << 30), Bytes(64 << 30)] {
            let spec = Spec::parse("ext3 -I 256").unwrap();
            let period = period::get("2004").unwrap().settings_for("ext3", size).unwrap();
            let kind = catalog::get("ext3").unwrap();
            let plan = kind.plan_for_period(&spec, Context::Lab, None, Some(&period)).unwrap();
            assert_eq!(rederive(&plan, &lab(Some(size))).unwrap(), plan);
        }
        let size = Some(Bytes(64 << 20));
        for text in ["tmpfs", "tmpfs @ size=64M", "overlayfs:tmpfs @ mode=700"] {
            let mut plan = plan(text, Context::Lab, None);
            memory::set_size(&mut plan, &Spec::parse(text).unwrap(), size);
            assert_eq!(rederive(&plan, &lab(size)).unwrap(), plan, "{text}");
        }
    }

    #[test]
    fn a_stored_plan_whose_commands_are_not_the_catalogs_is_refused() {
        let words = |text: &str| text.split(' ').map(String::from).collect::<Vec<_>>();
        type Forge = fn(&mut FilesystemPlan, Vec<String>);
        let forged: [(&str, Forge); 12] = [
            ("check", |plan, words| plan.check = words),
            ("mkfs", |plan, words| plan.mkfs = words),
            ("features", |plan, words| plan.features = words),
            ("mount_command", |plan, words| plan.mount_command = words),
            ("env", |plan, words| drop(plan.env.insert("LD_PRELOAD".into(), words.join("/")))),
            ("modules", |plan, words| plan.modules.extend(words)),
            ("mount_options", |plan, _| plan.mount_options.push_str("modules=evil")),
            ("mount_type", |plan, _| plan.mount_type = "proc".into()),
            ("check_clean", |plan, _| plan.check_clean.push(1)),
            ("journal", |plan, make| {
                plan.journal =
                    Some(fsdyno_record::plan::OuterJournalPlan { make, ..Default::default() });
            }),
            ("pool", |plan, import| {
                plan.pool = Some(fsdyno_record::plan::PoolPlan { import, ..Default::default() });
            }),
            ("kind", |plan, _| plan.kind = "xfs".into()),
        ];
        for (field, forge) in forged {
            for (context, medium) in [(Context::Lab, lab(None)), (Context::Host, device())] {
                let mut plan = plan("ext4", context, None);
                forge(&mut plan, words("sh -c id {device}"));
                let error = rederive(&plan, &medium).unwrap_err().to_string();
                let start = format!("its '{field}' has ");
                assert!(
                    error.starts_with(&start) && error.contains("never from a file"),
                    "{error}"
                );
            }
        }
        let mut other = plan("ext4", Context::Lab, None);
        other.spec = "ext4 -Z".into();
        assert!(rederive(&other, &lab(None)).unwrap_err().to_string().contains("has no option -Z"));
        let directory = (MediumPlan::Directory { path: "/x".into() }, VenuePlan::Host);
        assert!(rederive(&plan("ext4", Context::Lab, None), &directory).is_err());
    }
}
