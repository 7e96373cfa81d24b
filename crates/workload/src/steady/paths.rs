//! Paths of a working set: `d01/f123.4` is name number 4 of the file that was created as file
//! number 123.

use crate::numbered::Numbered;
use crate::op::Name;

/// Maximum length of a file's name, which is reached with the largest numbers of 32 and of 24 bits.
const MAX_FILE_NAME: usize = "f4294967295.16777215".len();

/// A parsed path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Path {
    /// The directory with this number.
    Directory(u64),
    /// A name of a file.
    File {
        /// Number of the directory.
        directory: u64,
        /// Number of the file within its part.
        serial: u32,
        /// Number of the name.
        name: u32,
    },
}

/// The paths of `count` directories and of their files.
#[derive(Clone, Debug)]
pub struct Paths {
    count: u64,
    directories: Numbered,
    files: Numbered,
    numbers: Numbered,
}

impl Paths {
    /// Creates the paths in `count` directories.
    pub fn new(count: u64) -> Paths {
        Paths {
            count,
            directories: Numbered::for_count("d", count),
            files: Numbered::new("f", 1),
            numbers: Numbered::new(".", 1),
        }
    }

    /// Returns the maximum length of a name, in bytes.
    pub fn max_name_length(&self) -> usize {
        self.directories.length_of(self.count.saturating_sub(1)).max(MAX_FILE_NAME)
    }

    /// Writes the path.
    pub fn write(&self, path: Path, name_buffer: &mut Name) {
        name_buffer.clear();
        match path {
            Path::Directory(directory) => self.directories.push(name_buffer, directory),
            Path::File { directory, serial, name } => {
                self.directories.push(name_buffer, directory);
                name_buffer.push(b"/");
                self.files.push(name_buffer, u64::from(serial));
                self.numbers.push(name_buffer, u64::from(name));
            }
        }
    }

    /// Parses a path; returns `None` if it is not a path of the working set.
    pub fn parse(&self, path: &[u8]) -> Option<Path> {
        let slash = path.iter().position(|byte| *byte == b'/').unwrap_or(path.len());
        let (directory, file) = path.split_at(slash);
        let directory = self.directories.parse(directory).filter(|number| *number < self.count)?;
        let Some(file) = file.strip_prefix(b"/") else { return Some(Path::Directory(directory)) };
        let dot = file.iter().position(|byte| *byte == b'.')?;
        let (serial, name) = file.split_at(dot);
        let serial = u32::try_from(self.files.parse(serial)?).ok()?;
        let name = u32::try_from(self.numbers.parse(name)?).ok()?;
        Some(Path::File { directory, serial, name })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_paths_of_the_working_set_are_parsed() {
        let paths = Paths::new(12);
        let file = |directory, serial, name| Path::File { directory, serial, name };
        for (path, text) in [
            (Path::Directory(0), "d00"),
            (Path::Directory(11), "d11"),
            (file(7, 0, 0), "d07/f0.0"),
            (file(11, u32::MAX, 16_777_215), "d11/f4294967295.16777215"),
        ] {
            let mut name = Name::default();
            paths.write(path, &mut name);
            assert_eq!(name.display(), text);
            assert_eq!(paths.parse(text.as_bytes()), Some(path));
        }
        for invalid in [
            "",
            "/",
            "d",
            "d1",
            "d12",
            "d01/",
            "d01/f1",
            "d01/f1.",
            "d01/f.1",
            "d01/f01.1",
            "d01/f1.01",
            "d01/f1.1.1",
            "d01/f1.1/",
            "d01/f1.1/x",
            "d01/f4294967296.0",
            "f1.1",
            "d01//",
        ] {
            assert_eq!(paths.parse(invalid.as_bytes()), None, "{invalid}");
        }
        assert_eq!(paths.max_name_length(), 20);
    }
}
