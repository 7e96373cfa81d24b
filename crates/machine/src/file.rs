//! A machine as a file: the values of --disk, --cpu and --ram, each with its source.

use std::path::{Component, Path};

use fsdyno_catalog::{FileError, Source, Text, is_path};
use fsdyno_record::Bytes;
use fsdyno_record::plan::CpuPlan;
use serde::Deserialize;
use toml::{Spanned, Value};

/// The minimum RAM that holds the guest's initramfs in addition to its kernel.
pub const MIN_RAM: Bytes = Bytes(96 << 20);

/// A machine: the defaults of the lab's disk, CPU and RAM.
#[derive(Clone, Debug, PartialEq)]
pub struct Machine {
    /// Its name in the catalog, or the path of its file as given.
    pub name: String,
    /// A one-line description.
    pub about: String,
    /// The disk, as `--disk` accepts it.
    pub disk: String,
    /// The CPU.
    pub cpu: CpuPlan,
    /// The RAM of the guest.
    pub ram: Bytes,
    /// The origin of each value.
    pub source: Vec<Source>,
}

/// The file of a machine.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    about: String,
    disk: Spanned<Value>,
    cpu: Spanned<Value>,
    ram: Spanned<Value>,
    #[serde(default)]
    source: Vec<Source>,
}

impl Machine {
    /// Parses the text of a file and checks its values, including the disk and the processor that it names.
    ///
    /// # Errors
    /// [`FileError`] for the first invalid value.
    pub fn from_toml(name: &str, file: &str, text: &str) -> Result<Machine, FileError> {
        let text = Text { file, text };
        let parsed: File = text.parse(KEYS_HINT)?;
        let value = |key: &str, spanned: &Spanned<Value>, example: &str| match spanned.get_ref() {
            Value::String(text) => Ok(text.clone()),
            Value::Integer(number) => Ok(number.to_string()),
            invalid => {
                let problem = format!("{key} = {invalid} is not valid; write {example}");
                Err(text.error_at(spanned.span(), problem))
            }
        };
        let invalid = |spanned: &Spanned<Value>, key: &str, problem: String| {
            text.error_at(spanned.span(), format!("{key}: {problem}"))
        };
        let disk = value("disk", &parsed.disk, "disk = \"ssd-sata\"").and_then(|disk| {
            resolve_path(file, &disk).map_err(|problem| invalid(&parsed.disk, "disk", problem))
        })?;
        let _is_valid = fsdyno_disk::catalog::find(&disk)
            .map_err(|error| invalid(&parsed.disk, "disk", format!("failed to {error}")))?;
        let cpu = value("cpu", &parsed.cpu, "cpu = \"epyc-2024\", or a plain speed: cpu = \"1/2\"")
            .and_then(|cpu| {
                resolve_path(file, &cpu).map_err(|problem| invalid(&parsed.cpu, "cpu", problem))
            })?;
        let cpu = fsdyno_processor::parse(&cpu)
            .map_err(|error| invalid(&parsed.cpu, "cpu", error.to_string()))?;
        let ram = value("ram", &parsed.ram, "ram = \"2G\"")?;
        let ram: Bytes =
            ram.parse().map_err(|error| invalid(&parsed.ram, "ram", format!("{error}")))?;
        if ram < MIN_RAM || ram.0 % (1 << 20) != 0 {
            let problem =
                format!("{ram} is not valid; give a whole number of mebibytes, at least {MIN_RAM}");
            return Err(invalid(&parsed.ram, "ram", problem));
        }
        let (about, source) = (parsed.about, parsed.source);
        Ok(Machine { name: name.to_string(), about, disk, cpu, ram, source })
    }
}

/// A description of the keys of a file, for errors.
const KEYS_HINT: &str = "a machine file has the keys about, disk, cpu and ram, and a [[source]] with what and from for each (an \
                    example: fsdyno show machine classic)";

/// Resolves a value that is the path of a file: the path is relative to the machine's file and must stay below its
/// folder, so that a file from another user cannot name files elsewhere.
fn resolve_path(file: &str, value: &str) -> Result<String, String> {
    // 1/2 is a speed of the CPU, not a path.
    let is_number = value.chars().all(|c| c.is_ascii_digit() || c == '/');
    if !is_path(value) || is_number {
        return Ok(value.to_string());
    }
    let is_inside = |part: Component<'_>| matches!(part, Component::Normal(_) | Component::CurDir);
    if !Path::new(value).components().all(is_inside) {
        return Err(format!(
            "'{value}' is outside the folder of this machine file; give the path of a file in that folder, or give the \
             file on the command line with --disk or --cpu"
        ));
    }
    let folder = Path::new(file).parent().unwrap_or(Path::new(""));
    let plain = value.strip_prefix("./").unwrap_or(value);
    Ok(folder.join(plain).display().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXAMPLE: &str = "about = \"mine\"\ndisk = \"ssd-sata\"\ncpu = \"1/2\"\nram = \"512M\"\n";

    fn error(from: &str, to: &str) -> String {
        let text = EXAMPLE.replace(from, to);
        assert_ne!(text, EXAMPLE, "{from}");
        Machine::from_toml("m", "m.toml", &text).unwrap_err().to_string()
    }

    #[test]
    fn a_file_has_the_values_of_the_options() {
        let machine = Machine::from_toml("m", "m.toml", EXAMPLE).unwrap();
        assert_eq!((machine.name.as_str(), machine.about.as_str()), ("m", "mine"));
        assert_eq!((machine.disk.as_str(), machine.ram), ("ssd-sata", Bytes(512 << 20)));
        assert_eq!(machine.cpu.to_string(), "1/2");
        let unquoted = EXAMPLE.replace("\"1/2\"", "2").replace("\"512M\"", "1073741824");
        let machine = Machine::from_toml("m", "m.toml", &unquoted).unwrap();
        assert_eq!((machine.cpu.to_string().as_str(), machine.ram), ("2", Bytes(1 << 30)));
    }

    #[test]
    fn an_invalid_value_is_refused_with_its_line_and_a_correction() {
        for (from, to, expected) in [
            (
                "ssd-sata",
                "ssd-sato",
                "m.toml:2: disk: failed to find a disk called 'ssd-sato': did you mean 'ssd-sata'?",
            ),
            (
                "\"ssd-sata\"",
                "true",
                "m.toml:2: disk = true is not valid; write disk = \"ssd-sata\"",
            ),
            ("1/2", "1/3", "m.toml:3: cpu: '1/3' is not a valid speed for the lab's CPU"),
            ("1/2", "epyc-2042", "did you mean 'epyc-2024'?"),
            ("512M", "half", "m.toml:4: ram: 'half'"),
            (
                "512M",
                "64M",
                "m.toml:4: ram: 64 MiB is not valid; give a whole number of mebibytes, at least 96 MiB",
            ),
            ("512M", "1000000001", "m.toml:4: ram: "),
            (
                "ram",
                "rum",
                "m.toml:4: unknown field `rum`, expected one of `about`, `disk`, `cpu`, `ram`",
            ),
            (
                "ram = \"512M\"\n",
                "",
                "m.toml: missing field `ram`; a machine file has the keys about, disk, cpu and ram",
            ),
            ("\"mine\"", "mine", "m.toml:1: "),
        ] {
            let error = error(from, to);
            assert!(error.contains(expected) && !error.contains('\n'), "{to}: {error}");
        }
    }

    #[test]
    fn the_path_of_a_disk_is_relative_to_the_machine_file_and_inside_its_folder() {
        let folder = tempfile::tempdir().unwrap();
        let disk = fsdyno_disk::catalog::text("ide-2001").unwrap();
        std::fs::write(folder.path().join("disk.toml"), disk).unwrap();
        let file = folder.path().join("m.toml").display().to_string();
        let text = EXAMPLE.replace("ssd-sata", "./disk.toml");
        let machine = Machine::from_toml(&file, &file, &text).unwrap();
        assert_eq!(machine.disk, folder.path().join("disk.toml").display().to_string());
        for outside in ["/etc/disk.toml", "../disk.toml", "a/../../disk.toml"] {
            let error = error("ssd-sata", outside);
            let expected =
                format!("m.toml:2: disk: '{outside}' is outside the folder of this machine file");
            assert!(error.starts_with(&expected), "{error}");
        }
        let error = error("ssd-sata", "none.toml");
        assert!(
            error.starts_with("m.toml:2: disk: failed to read the disk in none.toml"),
            "{error}"
        );
    }
}
