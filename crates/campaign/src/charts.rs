//! Writes the charts of a report as files.

use std::fs;
use std::io::{ErrorKind, Read};
use std::path::Path;

use fsdyno_record::bounded;
use fsdyno_report::{ChartFile, is_chart};

use crate::failure::Failure;
use crate::files::{make_folder, write_file};

/// Writes charts to a folder. Replaces charts of an earlier report; if a file that is not a chart of fsdyno has the
/// name of one, nothing is written.
pub fn write(folder: &Path, charts: &[ChartFile]) -> Result<(), Failure> {
    for chart in charts {
        let path = folder.join(&chart.name);
        // Only regular files are read: anything else may be a pipe or a drive.
        let ours = match fs::symlink_metadata(&path) {
            Ok(found) => found.is_file() && begins_as_chart(&path),
            Err(error) => error.kind() == ErrorKind::NotFound || folder.is_dir(),
        };
        if !ours {
            return Err(Failure::wrong(format!(
                "'{}' exists and is not a chart of fsdyno; give another folder, or move the file",
                path.display()
            )));
        }
    }
    make_folder(folder)?;
    charts.iter().try_for_each(|chart| write_file(&folder.join(&chart.name), &chart.svg))
}

fn begins_as_chart(path: &Path) -> bool {
    let mut start = Vec::new();
    let read = bounded::open(path).and_then(|file| file.take(4096).read_to_end(&mut start));
    read.is_ok() && is_chart(&start)
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
            assert!(write(&inner, &charts()).is_ok());
        }
        assert_eq!(fs::read(inner.join("b.svg")).unwrap(), charts()[1].svg.as_bytes());
        fs::remove_file(inner.join("a.svg")).unwrap();
        fs::write(inner.join("b.svg"), "a drawing of the user").unwrap();
        let message = write(&inner, &charts()).unwrap_err().message;
        assert!(message.contains("b.svg' exists and is not a chart of fsdyno"), "{message}");
        assert!(!inner.join("a.svg").exists(), "nothing was written before");
    }

    #[test]
    fn links_are_not_followed_and_a_file_is_refused_as_folder() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("target");
        fs::write(&target, charts()[0].svg.as_bytes()).unwrap();
        std::os::unix::fs::symlink(&target, folder.path().join("a.svg")).unwrap();
        assert!(write(folder.path(), &charts()).is_err());
        assert!(write(&target, &charts()).is_err());
    }
}
