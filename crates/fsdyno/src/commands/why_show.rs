//! What `fsdyno why` shows: sentences and tables on stdout, pictures in files.

use std::io::Write;
use std::path::Path;

use fsdyno_record::mailbox::Stage;
use fsdyno_why::account::Dot;
use fsdyno_why::kernel::{Frame, Task};
use fsdyno_why::table::Format;
use fsdyno_why::{Explained, Phase, flame, picture, table};

use crate::cli::Why;
use crate::exit::Failure;
use crate::output::{data, say};

/// Shows one trial, against another where there is one.
pub fn show(why: &Why, it: &Explained, other: Option<&Explained>) -> Result<(), Failure> {
    data(&table::write(it, other, why.format))?;
    match &why.out {
        Some(folder) => files(folder, it, other),
        None => Ok(()),
    }
}

/// Writes the pictures (the requests of each phase, and a flame graph of each), and everything as JSON.
fn files(folder: &Path, it: &Explained, other: Option<&Explained>) -> Result<(), Failure> {
    std::fs::create_dir_all(folder).map_err(|error| {
        Failure::wrong(format!("failed to create '{}': {error}", folder.display()))
    })?;
    let mut count = 0;
    let mut add = |what: &str, svg: &str| -> Result<(), Failure> {
        let name = format!("{}-{}-{what}", it.workload, it.label);
        // A label may be anything; a file's name may not.
        let plain = |c: char| if c.is_ascii_alphanumeric() || ".-_".contains(c) { c } else { '_' };
        let path = folder.join(name.chars().map(plain).collect::<String>());
        count += 1;
        fsdyno_media::file::create(&path)
            .and_then(|mut file| file.write_all(svg.as_bytes()))
            .map_err(|error| {
                Failure::wrong(format!("failed to write '{}': {error}", path.display()))
            })
    };
    for (at, phase) in (0u16..).zip(&it.phases) {
        let called = format!("{} on {}, {}", it.workload, it.label, phase.name);
        let of_phase = |dot: &&Dot| dot.place == (Stage::Running, at);
        let dots: Vec<Dot> =
            it.account.iter().flat_map(|account| &account.dots).filter(of_phase).copied().collect();
        if let Some(svg) = picture::svg(&called, &dots) {
            add(&format!("{}-requests.svg", phase.name), &svg)?;
        }
        let Some(tree) = phase.executed.get(&Task::Ops) else { continue };
        let there = other.and_then(|other| {
            let there = other.phases.iter().find(|there| there.name == phase.name)?;
            Some((other.label.as_str(), executed(there)?))
        });
        match there {
            Some((label, there)) => {
                let called = format!("{called}, against {label}");
                let svg = flame::svg(&called, (tree, phase.ops), Some(there));
                add(&format!("{}-difference.svg", phase.name), &svg)?;
            }
            None => {
                let svg = flame::svg(&called, (tree, phase.ops), None);
                add(&format!("{}-functions.svg", phase.name), &svg)?;
            }
        }
    }
    add("why.json", &table::write(it, other, Format::Json))?;
    say(&format!("files: {count} in {}", folder.display()));
    Ok(())
}

fn executed(phase: &Phase) -> Option<(&Frame, u64)> {
    Some((phase.executed.get(&Task::Ops)?, phase.ops))
}
