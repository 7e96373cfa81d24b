//! Describes a file system that this program models.

use fsdyno_ext2dir::Variant;
use fsdyno_ext2dir::trial::{DESCRIPTION, REVISION};
use fsdyno_report::table::Prose;
use serde_json::{Value, json};

/// Describes a model, as text and as JSON.
pub fn model(variant: &Variant, prose: Prose) -> (String, Value) {
    let sizes = fsdyno_campaign::MODEL_BLOCK_SIZES;
    let run = format!("fsdyno run dirops --on model --fs {}", variant.name);
    let mut text = format!("{}: {}\n\n", variant.name, variant.about);
    text.push_str(&prose.wrapped(&format!("It is {DESCRIPTION}.")));
    text.push('\n');
    let taken = sizes.map(|size| size.to_string()).join(", ");
    text.push_str(&prose.columns(&[
        vec!["run".into(), run.clone()],
        vec!["takes".into(), format!("-b SIZE: {taken} (default: the first)")],
        vec!["index".into(), if variant.index { "dir_index" } else { "none" }.into()],
        vec!["longest name".into(), "255 bytes".into()],
        vec!["revision".into(), REVISION.to_string()],
    ]));
    let value = json!({
        "name": variant.name, "about": variant.about, "model": true, "what_it_is": DESCRIPTION,
        "run": run, "block_sizes": sizes, "index": variant.index, "longest_name": 255,
        "revision": REVISION,
    });
    (text, value)
}
