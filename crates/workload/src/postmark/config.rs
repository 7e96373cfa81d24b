//! PostMark's configuration files, parsed into the parameters of the workload `postmark`.
//!
//! A line is matched as in the original [SRC, RUN]: by the first command of [`COMMANDS`] whose full name is a prefix of
//! it. The byte after the name is skipped, whatever it is, and the rest is the command's parameter. If the
//! original would print `Eh?` or `Error:` and continue with the old value, this parser reports an error, because such a
//! line is always a mistake; only empty lines are skipped.

use std::collections::BTreeMap;
use std::path::Path;

use fsdyno_record::{quote, suggest};

/// A function that returns the bytes of a file, or a short reason why the file cannot be read.
pub type ReadFile<'a> = &'a dyn Fn(&str) -> Result<Vec<u8>, String>;

/// Commands in the order in which a line is compared with them, and the effect of each.
const COMMANDS: &[(&str, Command)] = &[
    ("set size", Command::Set(set_size)),
    (
        "set number",
        Command::Set(|settings, text| parse_positive(text).map(|n| settings.number = n)),
    ),
    ("set seed", Command::Set(|settings, text| parse_positive(text).map(|n| settings.seed = n))),
    (
        "set transactions",
        Command::Set(|settings, text| parse_positive(text).map(|n| settings.transactions = n)),
    ),
    ("set location", Command::Set(set_location)),
    (
        "set subdirectories",
        Command::Set(|settings, text| parse_positive(text).map(|n| settings.subdirectories = n)),
    ),
    ("set read", Command::Set(|settings, text| parse_positive(text).map(|n| settings.read = n))),
    ("set write", Command::Set(|settings, text| parse_positive(text).map(|n| settings.write = n))),
    (
        "set buffering",
        Command::Set(|settings, text| {
            parse_word(text, &["true", "false"]).map(|word| settings.buffering = word == "true")
        }),
    ),
    (
        "set bias read",
        Command::Set(|settings, text| parse_bias(text).map(|bias| settings.bias_read = bias)),
    ),
    (
        "set bias create",
        Command::Set(|settings, text| parse_bias(text).map(|bias| settings.bias_create = bias)),
    ),
    (
        "set report",
        Command::Set(|settings, text| {
            parse_word(text, &["verbose", "terse"]).map(|word| settings.report = word)
        }),
    ),
    ("run", Command::Run),
    ("load", Command::Load),
    ("show", Command::Nothing),
    ("help", Command::Nothing),
    ("quit", Command::Quit),
];

/// Maximum length in bytes of a line that PostMark reads in one piece.
const MAX_LINE: usize = 255;
/// Maximum nesting depth of files that load files; deeper nesting is treated as a cycle.
const MAX_DEPTH: u32 = 8;
/// Maximum number of bytes of all files read: files that each load ten others stay within the nesting limit, but would
/// take too long.
const MAX_BYTES: usize = 1 << 20;
/// Maximum number of locations; each draw of a directory examines all of them.
pub const MAX_LOCATIONS: usize = 64;
/// Maximum value of PostMark's numbers, which have the C type `int`.
const MAX_NUMBER: u64 = i32::MAX as u64;

/// The effect of a command.
#[derive(Clone, Copy)]
enum Command {
    /// Changes the settings according to its parameter, or reports a mistake in the parameter.
    Set(fn(&mut Settings, &str) -> Result<(), String>),
    /// Runs with the current settings.
    Run,
    /// Reads another file, then continues after the command.
    Load,
    /// Prints something in the original; has no effect here.
    Nothing,
    /// Ends the configuration.
    Quit,
}

/// PostMark's settings, with its defaults [SRC].
#[derive(Clone, Debug, PartialEq, Eq)]
struct Settings {
    low: u64,
    high: u64,
    number: u64,
    seed: u64,
    transactions: u64,
    /// Path and weight of each location.
    locations: Vec<(String, u64)>,
    subdirectories: u64,
    read: u64,
    write: u64,
    buffering: bool,
    /// None if PostMark's value is -1.
    bias_read: Option<u64>,
    bias_create: Option<u64>,
    report: &'static str,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            low: 500,
            high: 10_000,
            number: 500,
            seed: 42,
            transactions: 500,
            locations: Vec::new(),
            subdirectories: 0,
            read: 512,
            write: 512,
            buffering: true,
            bias_read: Some(5),
            bias_create: Some(5),
            report: "verbose",
        }
    }
}

impl Settings {
    /// Returns the parameters of the workload. Only the weights of locations are used: fsdyno works in the
    /// trial's own directory and nowhere else.
    fn parameters(&self) -> BTreeMap<String, String> {
        let bias = |bias: Option<u64>| bias.map_or("off".to_string(), |bias| bias.to_string());
        let weights: Vec<String> = match self.locations.as_slice() {
            // The weight of a single location has no effect.
            [] | [_] => vec!["1".to_string()],
            several => several.iter().map(|(_, weight)| weight.to_string()).collect(),
        };
        [
            ("size-low", self.low.to_string()),
            ("size-high", self.high.to_string()),
            ("number", self.number.to_string()),
            ("seed", self.seed.to_string()),
            ("transactions", self.transactions.to_string()),
            ("locations", weights.join(",")),
            ("subdirectories", self.subdirectories.to_string()),
            ("read", self.read.to_string()),
            ("write", self.write.to_string()),
            ("buffering", if self.buffering { "yes" } else { "no" }.to_string()),
            ("bias-read", bias(self.bias_read)),
            ("bias-create", bias(self.bias_create)),
            ("report", self.report.to_string()),
        ]
        .map(|(key, value)| (key.to_string(), value))
        .into()
    }
}

/// Reads the parameters from a configuration file: the settings of its run, or those at its end if it does not contain
/// `run`. The paths of files that it loads are relative to its own folder.
///
/// # Errors
/// The first mistake, in one line that contains the file and line number.
pub fn parameters(file: &str, read: ReadFile<'_>) -> Result<BTreeMap<String, String>, String> {
    let settings = Settings::default();
    let mut reader = Reader { read, settings, run: None, has_ended: false, bytes: 0 };
    let source = format!("config {}", quoted_path(file));
    let bytes = read(file).map_err(|reason| format!("{source}: {reason}"))?;
    reader.read_file(file, &bytes, &source, 0)?;
    let settings = reader.run.map_or(reader.settings, |(settings, _)| settings);
    Ok(settings.parameters())
}

struct Reader<'a> {
    read: ReadFile<'a>,
    settings: Settings,
    /// The settings of the first run, and its line.
    run: Option<(Settings, String)>,
    has_ended: bool,
    /// Number of bytes read.
    bytes: usize,
}

impl Reader<'_> {
    /// Reads a file to its end; `from` is the line that loads it.
    fn read_file(
        &mut self,
        file: &str,
        bytes: &[u8],
        from: &str,
        depth: u32,
    ) -> Result<(), String> {
        self.bytes += bytes.len();
        if self.bytes > MAX_BYTES {
            return Err(format!(
                "{from}: the files loaded so far total {} bytes, with a file counted each time it is \
                 loaded; the maximum is {MAX_BYTES}; does a file load another one repeatedly?",
                self.bytes
            ));
        }
        for (line, number) in bytes.split(|byte| *byte == b'\n').zip(1..) {
            let source = format!("config {} line {number}", quoted_path(file));
            self.apply_line(line, file, &source, depth)?;
            if self.has_ended {
                break;
            }
        }
        Ok(())
    }

    fn apply_line(
        &mut self,
        line: &[u8],
        file: &str,
        source: &str,
        depth: u32,
    ) -> Result<(), String> {
        let error_at = |message: String| format!("{source}: {message}");
        let line = check_line(line).map_err(error_at)?;
        if line.trim().is_empty() {
            return Ok(());
        }
        let entry = COMMANDS.iter().find(|(name, _)| line.starts_with(name));
        let Some((name, command)) = entry else {
            return Err(error_at(unknown_command(line)));
        };
        let tail = &line[name.len()..];
        // The separator is one byte in the original, and one character here, so that the rest is valid text.
        let text = tail.char_indices().nth(1).map_or("", |(offset, _)| &tail[offset..]);
        match command {
            Command::Set(set) => set(&mut self.settings, text)
                .map_err(|message| error_at(format!("'{name}' {message}")))?,
            Command::Run => self.record_run(source)?,
            Command::Load => self.load_file(text, file, source, depth)?,
            Command::Nothing => {}
            Command::Quit => self.has_ended = true,
        }
        Ok(())
    }

    fn record_run(&mut self, source: &str) -> Result<(), String> {
        match &self.run {
            None => self.run = Some((self.settings.clone(), source.to_string())),
            Some((settings, _)) if *settings == self.settings => {}
            Some((_, first)) => {
                return Err(format!(
                    "{source}: the settings of this run differ from those in {first}, and a trial is \
                     one run; put each run into its own file"
                ));
            }
        }
        Ok(())
    }

    fn load_file(
        &mut self,
        text: &str,
        file: &str,
        source: &str,
        depth: u32,
    ) -> Result<(), String> {
        let name = text.trim();
        if name.is_empty() {
            return Err(format!("{source}: 'load' needs a file; write load FILE"));
        }
        if depth == MAX_DEPTH {
            return Err(format!(
                "{source}: 'load' goes more than {MAX_DEPTH} files deep; does a file load itself?"
            ));
        }
        let folder = Path::new(file).parent().unwrap_or(Path::new(""));
        let path = folder.join(name).to_string_lossy().into_owned();
        let bytes = (self.read)(&path)
            .map_err(|reason| format!("{source}: 'load' of {}: {reason}", quoted_path(&path)))?;
        self.read_file(&path, &bytes, source, depth + 1)
    }
}

/// Checks that the line is text, and that PostMark would read it in one piece and as intended.
fn check_line(line: &[u8]) -> Result<&str, String> {
    if line.len() > MAX_LINE {
        return Err(format!(
            "the line has {} bytes and PostMark reads at most {MAX_LINE}; shorten it",
            line.len()
        ));
    }
    if line.ends_with(b"\r") {
        return Err(
            "the line ends in a carriage return, which PostMark treats as part of the line; \
                    save the file with Unix line endings"
                .to_string(),
        );
    }
    let text = std::str::from_utf8(line).ok().filter(|text| !text.contains('\0'));
    text.ok_or_else(|| "the line is not UTF-8 text; rewrite it".to_string())
}

/// Returns the reason why a line is not a command, and suggests one. The line itself is not shown: `load` can name any
/// file that the user may read, and some files contain another user's secrets.
fn unknown_command(line: &str) -> String {
    let reason = match line.chars().next() {
        Some('!') => {
            "'!' runs a shell command, and fsdyno does not run the commands of a configuration"
        }
        Some('#') => "PostMark has no comments",
        Some('?') => "'?' works only at PostMark's prompt",
        _ if line.starts_with("exit") => "'exit' works only at PostMark's prompt",
        _ => "",
    };
    if !reason.is_empty() {
        return format!("{reason}; remove the line");
    }
    let names = COMMANDS.iter().map(|(name, _)| *name);
    let words = line.split_whitespace().take(3).collect::<Vec<_>>();
    let nearest = (1..=words.len())
        .rev()
        .find_map(|count| suggest::nearest(&words[..count].join(" "), names.clone()));
    let hint = match nearest {
        Some(name) => format!("did you mean '{name}'?"),
        None => format!("the commands are {}", names.collect::<Vec<_>>().join(", ")),
    };
    format!("it does not begin with a PostMark command; {hint}")
}

fn in_quotes(text: &str) -> String {
    format!("'{}'", quote::short(text))
}

/// Returns the path of a file in quotes, unabridged, so that the user can find the file.
fn quoted_path(file: &str) -> String {
    format!("'{}'", quote::escape(file))
}

/// Parses a number as PostMark does: the first word, which must consist of digits; the rest is ignored.
fn parse_number(text: &str) -> Result<u64, String> {
    let word = text.split_whitespace().next().unwrap_or("");
    let digits = !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit());
    match word.parse() {
        Ok(number) if digits && number <= MAX_NUMBER => Ok(number),
        _ => Err(format!("takes a whole number from 1 to {MAX_NUMBER}, not {}", in_quotes(word))),
    }
}

/// Parses a number above zero.
fn parse_positive(text: &str) -> Result<u64, String> {
    match parse_number(text)? {
        0 => Err(format!("takes a whole number from 1 to {MAX_NUMBER}, not '0'")),
        number => Ok(number),
    }
}

/// Parses `LOW [HIGH]`; without a HIGH above LOW, all files have LOW bytes.
fn set_size(settings: &mut Settings, text: &str) -> Result<(), String> {
    let low = parse_positive(text)?;
    let high = match text.split_whitespace().nth(1) {
        Some(word) => parse_number(word)?,
        None => low,
    };
    (settings.low, settings.high) = (low, high.max(low));
    Ok(())
}

/// Parses a number from 0 to 10, or -1 for no bias.
fn parse_bias(text: &str) -> Result<Option<u64>, String> {
    let word = text.split_whitespace().next().unwrap_or("");
    match word {
        "-1" => Ok(None),
        _ => match parse_number(word) {
            Ok(bias @ 0..=10) => Ok(Some(bias)),
            _ => Err(format!(
                "takes a whole number from 0 to 10, or -1 to disable it, not {}",
                in_quotes(word)
            )),
        },
    }
}

fn parse_word(text: &str, words: &[&'static str; 2]) -> Result<&'static str, String> {
    let text = text.trim();
    words
        .iter()
        .find(|word| **word == text)
        .copied()
        .ok_or_else(|| format!("takes '{}' or '{}', not {}", words[0], words[1], in_quotes(text)))
}

/// Parses `PATH [WEIGHT]`, which replaces all locations, `+PATH [WEIGHT]`, which adds one, or
/// `-PATH`, which removes one.
fn set_location(settings: &mut Settings, text: &str) -> Result<(), String> {
    let text = text.trim();
    if let Some(path) = text.strip_prefix('-') {
        let before = settings.locations.len();
        settings.locations.retain(|(existing, _)| existing != path);
        return match settings.locations.len() == before {
            true => Err(format!("has no location {} to remove", in_quotes(path))),
            false => Ok(()),
        };
    }
    let (is_added, text) = match text.strip_prefix('+') {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let (path, weight) = match text.rsplit_once(' ') {
        Some((path, weight)) => {
            let weight =
                parse_positive(weight).map_err(|mistake| format!("{mistake}, as the weight"))?;
            (path.trim_end(), weight)
        }
        None => (text, 1),
    };
    if path.is_empty() {
        return Err("needs a directory; write set location PATH [WEIGHT]".to_string());
    }
    if !is_added {
        settings.locations.clear();
    }
    if settings.locations.iter().any(|(existing, _)| existing == path) {
        return Err(format!(
            "has {} twice; give it once, with the sum of the weights",
            in_quotes(path)
        ));
    }
    if settings.locations.len() == MAX_LOCATIONS {
        return Err(format!("adds a location to {MAX_LOCATIONS}, the maximum number"));
    }
    settings.locations.push((path.to_string(), weight));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<BTreeMap<String, String>, String> {
        parameters("pm", &|_| Ok(text.as_bytes().to_vec()))
    }

    #[test]
    fn a_line_is_matched_by_the_first_command_that_it_begins_with() {
        // The real program accepts each of these without a message.
        let error =
            read("set numberX7\nset size:100 50\nset seed  3 or so\nset readings\t9\nrunner")
                .unwrap_err();
        assert!(error.contains("line 4") && error.contains("'ngs'"), "{error}");
        let map = read("set numberX7\nset size:100 50\nset seed  3 or so\nrunner").unwrap();
        assert_eq!((map["number"].as_str(), map["seed"].as_str()), ("7", "3"));
        assert_eq!((map["size-low"].as_str(), map["size-high"].as_str()), ("100", "100"));
    }

    #[test]
    fn lines_after_the_run_or_quit_have_no_effect() {
        let map = read("set number 7\nrun\nset number 8\nshow\nquit\nset number 0\nEh?").unwrap();
        assert_eq!(map["number"], "7");
        assert_eq!(read("set number 7\nrun\nrun report.txt").unwrap()["number"], "7");
        let error = read("run\nset number 8\nrun").unwrap_err();
        assert!(error.starts_with("config 'pm' line 3: ") && error.contains("line 1"), "{error}");
    }

    #[test]
    fn locations_are_replaced_added_and_removed_and_leave_their_weights() {
        let weights = |text| read(text).map(|map| map["locations"].clone());
        assert_eq!(weights("set location /a 5").unwrap(), "1");
        assert_eq!(weights("set location /a 5\nset location +/b c 3").unwrap(), "5,3");
        assert_eq!(weights("set location /a\nset location +/b\nset location -/a").unwrap(), "1");
        assert_eq!(weights("set location +/a\nset location +/b\nset location /c").unwrap(), "1");
        for (config, reason) in [
            ("set location", "needs a directory"),
            ("set location /a 0", "as the weight"),
            ("set location /a b", "as the weight"),
            ("set location -/a", "no location '/a'"),
            ("set location +/a\nset location +/a 2", "twice"),
        ] {
            assert!(weights(config).unwrap_err().contains(reason), "{config}");
        }
    }

    #[test]
    fn a_loaded_file_is_relative_to_the_one_that_loads_it() {
        let read = |path: &str| match path {
            "etc/pm" => Ok(b"set number 3\nload more/size\nrun\n".to_vec()),
            "etc/more/size" => Ok(b"set size 77\nload seed".to_vec()),
            "etc/more/seed" => Ok(b"set seed 5".to_vec()),
            "circle" => Ok(b"\nload circle".to_vec()),
            "wrong" => Ok(b"load etc/more/nothing".to_vec()),
            _ => Err("there is no such file".to_string()),
        };
        let map = parameters("etc/pm", &read).unwrap();
        assert_eq!([&map["number"], &map["size-low"], &map["seed"]], ["3", "77", "5"]);
        let error = parameters("circle", &read).unwrap_err();
        assert!(error.starts_with("config 'circle' line 2: ") && error.contains("itself?"));
        assert_eq!(
            parameters("wrong", &read).unwrap_err(),
            "config 'wrong' line 1: 'load' of 'etc/more/nothing': there is no such file"
        );
        assert_eq!(parameters("none", &read).unwrap_err(), "config 'none': there is no such file");
    }
}
