//! Writes the charts of a report as files.

use std::fs;
use std::io::{ErrorKind, Read};
use std::path::Path;

use fsdyno_record::bounded;
use fsdyno_report::{ChartFile, is_chart};

use crate::failure::Failure;
use crate::files::{make_folder, write_file};
use crate::png::{self, Converter};

/// Writes charts to a folder as SVG, and with `with_png` also as PNG. Replaces the charts of an earlier report, but
/// writes nothing if any file to be replaced was not written by fsdyno.
pub fn write(folder: &Path, charts: &[ChartFile], with_png: bool) -> Result<(), Failure> {
    let converter = with_png.then(Converter::find).transpose()?;
    for chart in charts {
        check(folder, &chart.name, is_chart)?;
        if with_png {
            check(folder, &png_name(chart), png::is_ours)?;
        }
    }
    make_folder(folder)?;
    for chart in charts {
        write_file(&folder.join(&chart.name), &chart.svg)?;
        if let Some(converter) = &converter {
            write_file(&folder.join(png_name(chart)), converter.png(&chart.svg)?)?;
        }
    }
    Ok(())
}

/// Returns the file name of a chart's PNG.
fn png_name(chart: &ChartFile) -> String {
    format!("{}.png", chart.name.trim_end_matches(".svg"))
}

/// Refuses to replace a file that is not a chart written by fsdyno. Only regular files are read: anything else may be
/// a pipe or a device.
pub(crate) fn check(folder: &Path, name: &str, is_ours: fn(&[u8]) -> bool) -> Result<(), Failure> {
    let path = folder.join(name);
    let ours = match fs::symlink_metadata(&path) {
        Ok(found) => found.is_file() && start_is_ours(&path, is_ours),
        Err(error) => error.kind() == ErrorKind::NotFound || folder.is_dir(),
    };
    match ours {
        true => Ok(()),
        false => Err(Failure::invalid_use(format!(
            "'{}' exists and is not a chart written by fsdyno; give another folder, or move the file",
            path.display()
        ))),
    }
}

fn start_is_ours(path: &Path, is_ours: fn(&[u8]) -> bool) -> bool {
    let mut start = Vec::new();
    let read = bounded::open(path).and_then(|file| file.take(4096).read_to_end(&mut start));
    read.is_ok() && is_ours(&start)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn charts() -> Vec<ChartFile> {
        let svg = "<!-- a chart of fsdyno -->\n<svg/>".to_string();
        ["a.svg", "b.svg"].map(|name| ChartFile { name: name.into(), svg: svg.clone() }).into()
    }

    #[test]
    fn charts_are_replaced_and_other_files_are_kept() {
        let folder = tempfile::tempdir().unwrap();
        let inner = folder.path().join("new/folder");
        for _ in 0..2 {
            assert!(write(&inner, &charts(), false).is_ok());
        }
        assert_eq!(fs::read(inner.join("b.svg")).unwrap(), charts()[1].svg.as_bytes());
        fs::remove_file(inner.join("a.svg")).unwrap();
        fs::write(inner.join("b.svg"), "the user's own drawing").unwrap();
        let message = write(&inner, &charts(), false).unwrap_err().message;
        assert!(
            message.contains("b.svg' exists and is not a chart written by fsdyno"),
            "{message}"
        );
        assert!(!inner.join("a.svg").exists(), "nothing is written before all files are checked");
    }

    #[test]
    fn links_are_not_followed_and_a_file_is_not_accepted_as_a_folder() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("target");
        fs::write(&target, charts()[0].svg.as_bytes()).unwrap();
        std::os::unix::fs::symlink(&target, folder.path().join("a.svg")).unwrap();
        assert!(write(folder.path(), &charts(), false).is_err());
        assert!(write(&target, &charts(), false).is_err());
    }

    #[test]
    fn pngs_are_written_next_to_their_charts_and_foreign_files_are_kept() {
        if Converter::find().is_err() {
            return println!("skipped: no rsvg-convert here (apt-get install librsvg2-bin)");
        }
        let folder = tempfile::tempdir().unwrap();
        let svg = "<!-- a chart of fsdyno -->\n<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"9\" height=\"9\"/>";
        let chart = [ChartFile { name: "a.svg".into(), svg: svg.into() }];
        for _ in 0..2 {
            assert!(write(folder.path(), &chart, true).is_ok());
        }
        let picture = folder.path().join("a.png");
        assert!(png::is_ours(&fs::read(&picture).unwrap()));
        fs::write(&picture, "the user's own picture").unwrap();
        let message = write(folder.path(), &chart, true).unwrap_err().message;
        assert!(
            message.contains("a.png' exists and is not a chart written by fsdyno"),
            "{message}"
        );
    }
}
