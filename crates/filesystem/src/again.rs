//! The commands of a stored plan, derived again: what a file says is a command is never one.
//!
//! A plan holds the command lines and the environment of its file system, so that a record shows what ran.
//! Whoever runs a plan takes them from here, from the catalog and the plan's spec, and a plan that says
//! anything else is refused.

use std::collections::BTreeSet;

use fsdyno_record::Bytes;
use fsdyno_record::plan::{FilesystemPlan, MediumPlan};
use fsdyno_record::quote;
use serde_json::Value;

use crate::catalog::{self, Filesystem, Ground};
use crate::{Context, Spec, SpecError, memory, period};

/// Derives a plan's file system from the catalog, the spec that it states and what it lies on.
///
/// Some options exist only in newer tools, and a plan does not say which it was made for: it is compared with
/// what the catalog has for each of their versions.
///
/// # Errors
/// A plan that differs from all of these: the first difference, what the plan has there, and what is right.
pub fn again(stored: &FilesystemPlan, medium: &MediumPlan) -> Result<FilesystemPlan, SpecError> {
    let (context, size) = match medium {
        MediumPlan::Lab(lab) => (Context::of_lab(lab.raid), lab.size),
        MediumPlan::Device(_) => (Context::Host, None),
        MediumPlan::Directory { .. } | MediumPlan::Model(_) => {
            let problem = "it has commands of a file system, and nothing is made on its medium";
            return Err(refused(problem.to_string()));
        }
    };
    let spec = Spec::parse(&stored.spec)?;
    let unknown = |error: catalog::Unknown| refused(error.to_string());
    let (top, made) = (
        catalog::get(&spec.kind).map_err(unknown)?,
        catalog::get(&spec.made().kind).map_err(unknown)?,
    );
    let mut nearest: Option<Vec<String>> = None;
    for tool in versions(made) {
        let fresh = one(top, made, &spec, stored, (context, size, tool))?;
        if fresh == *stored {
            return Ok(fresh);
        }
        let differ = differences(stored, &fresh);
        if nearest.as_ref().is_none_or(|nearest| differ.len() < nearest.len()) {
            nearest = Some(differ);
        }
    }
    let first = nearest.into_iter().flatten().next();
    Err(refused(first.unwrap_or_default()))
}

fn one(
    top: &Filesystem,
    made: &Filesystem,
    spec: &Spec,
    stored: &FilesystemPlan,
    (context, size, tool): (Context, Option<Bytes>, Option<&str>),
) -> Result<FilesystemPlan, SpecError> {
    let unknown = |error: period::Unknown| refused(error.to_string());
    let period = stored.period.as_deref().map(period::get).transpose().map_err(unknown)?;
    let then = period.and_then(|period| period.then(&spec.kind, size.unwrap_or_default()));
    let mut fresh = top.plan_as_then(spec, context, tool, then.as_ref())?;
    if made.lies_on == Ground::Memory {
        memory::limit(&mut fresh, spec, size);
    }
    fresh.age.clone_from(&stored.age);
    Ok(fresh)
}

/// The versions of a file system's tool that its commands differ by: none known, and each from which on there
/// are more options.
fn versions(made: &Filesystem) -> impl Iterator<Item = Option<&str>> {
    let since = made.mkfs.add.iter().filter_map(|addition| addition.since.as_deref());
    std::iter::once(None).chain(since.map(Some))
}

/// The fields in which two plans differ, with the first word in which they do.
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
        let (theirs, ours) = match (stored.get(name), fresh.get(name)) {
            (Some(Value::Array(theirs)), Some(Value::Array(ours))) => {
                let both = theirs.iter().zip(ours);
                let at = both.take_while(|(theirs, ours)| theirs == ours).count();
                (theirs.get(at), ours.get(at))
            }
            whole => whole,
        };
        format!("its '{name}' has {}, and the catalog has {}", shown(theirs), shown(ours))
    };
    names.map(difference).collect()
}

fn refused(problem: String) -> SpecError {
    let hint = "commands come from the catalog of this fsdyno alone, never from a file, so nothing of the plan \
                is run; run it again with this fsdyno";
    SpecError::new(problem, hint)
}

#[cfg(test)]
mod tests {
    use fsdyno_record::plan::{DevicePlan, DiskPlan, LabPlan};

    use super::*;

    fn lab(size: Option<Bytes>) -> MediumPlan {
        MediumPlan::Lab(LabPlan { size, ..LabPlan::new(DiskPlan::memory(), Bytes(1 << 30), "6.1") })
    }

    fn device() -> MediumPlan {
        MediumPlan::Device(DevicePlan { on: "loop:1G".into(), raid: None, journal_size: None })
    }

    fn plan(spec: &str, context: Context, tool: Option<&str>) -> FilesystemPlan {
        let spec = Spec::parse(spec).unwrap();
        catalog::get(&spec.kind).unwrap().plan(&spec, context, tool).unwrap()
    }

    #[test]
    fn what_the_catalog_gives_is_what_is_derived_again() {
        for kind in catalog::all() {
            let spec = match kind.lies_on {
                Ground::Command => "fuse: mkfs.x {device} ; y {device} {mount} -f".to_string(),
                Ground::Filesystem => format!("{},volatile:ext4 -I 128 @ noatime", kind.name),
                Ground::Device | Ground::Memory => kind.name.clone(),
            };
            for tool in [None, Some("mke2fs 1.46.5"), Some("mke2fs 1.47.0"), Some("tool 99.1")] {
                for (context, medium) in [(Context::Lab, lab(None)), (Context::Host, device())] {
                    let plan = plan(&spec, context, tool);
                    assert_eq!(again(&plan, &medium).unwrap(), plan, "{spec} with {tool:?}");
                }
            }
        }
        let mut aged = plan("ext4 -J size=64 @ noatime", Context::Lab, None);
        aged.age = "fill=80%".parse().ok();
        assert_eq!(again(&aged, &lab(None)).unwrap(), aged);
    }

    #[test]
    fn a_period_and_a_size_in_memory_are_derived_again_too() {
        for size in [Bytes(1 << 30), Bytes(64 << 30)] {
            let spec = Spec::parse("ext3 -I 256").unwrap();
            let then = period::get("2004").unwrap().then("ext3", size).unwrap();
            let kind = catalog::get("ext3").unwrap();
            let plan = kind.plan_as_then(&spec, Context::Lab, None, Some(&then)).unwrap();
            assert_eq!(again(&plan, &lab(Some(size))).unwrap(), plan);
        }
        let size = Some(Bytes(64 << 20));
        for text in ["tmpfs", "tmpfs @ size=64M", "overlayfs:tmpfs @ mode=700"] {
            let mut plan = plan(text, Context::Lab, None);
            memory::limit(&mut plan, &Spec::parse(text).unwrap(), size);
            assert_eq!(again(&plan, &lab(size)).unwrap(), plan, "{text}");
        }
    }

    #[test]
    fn whatever_a_stored_plan_says_of_its_commands_is_refused_unless_it_is_the_catalogs() {
        let words = |text: &str| text.split(' ').map(String::from).collect::<Vec<_>>();
        type Forge = fn(&mut FilesystemPlan, Vec<String>);
        let forged: [(&str, Forge); 11] = [
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
            ("kind", |plan, _| plan.kind = "xfs".into()),
        ];
        for (field, forge) in forged {
            for (context, medium) in [(Context::Lab, lab(None)), (Context::Host, device())] {
                let mut plan = plan("ext4", context, None);
                forge(&mut plan, words("sh -c id {device}"));
                let error = again(&plan, &medium).unwrap_err().to_string();
                let start = format!("its '{field}' has ");
                assert!(
                    error.starts_with(&start) && error.contains("never from a file"),
                    "{error}"
                );
            }
        }
        let mut other = plan("ext4", Context::Lab, None);
        other.spec = "ext4 -Z".into();
        assert!(again(&other, &lab(None)).unwrap_err().to_string().contains("has no option -Z"));
        let directory = MediumPlan::Directory { path: "/x".into() };
        assert!(again(&plan("ext4", Context::Lab, None), &directory).is_err());
    }
}
