//! Compares docs/schema/study.schema.json, the published schema of study files, with all study files and the parser.

#![allow(clippy::unwrap_used, reason = "a test panics if a result is not as expected")]

use std::path::{Path, PathBuf};

use fsdyno_record::OpKind;
use fsdyno_study::file::{Figure, StudyFile, Unit, options};
use serde_json::Value;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn schema() -> Value {
    let text = std::fs::read_to_string(root().join("docs/schema/study.schema.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

fn problems(text: &str) -> Vec<String> {
    let study: Value = toml::from_str(text).unwrap();
    let validator = jsonschema::draft202012::new(&schema()).unwrap();
    validator.iter_errors(&study).map(|e| format!("{}: {e}", e.instance_path())).collect()
}

/// Returns every TOML block of the page, and all study files.
fn documents() -> Vec<(String, String)> {
    let page = std::fs::read_to_string(root().join("docs/studies.md")).unwrap();
    let blocks = page.split("```toml\n").skip(1).filter_map(|block| block.split("```").next());
    let mut all: Vec<(String, String)> =
        blocks.map(|text| ("docs/studies.md".to_string(), text.to_string())).collect();
    assert!(!all.is_empty());
    let example = Path::new("crates/study/src/file/example.toml").to_path_buf();
    let folder = std::fs::read_dir(root().join("studies")).unwrap();
    let files = folder.map(|entry| Path::new("studies").join(entry.unwrap().file_name()));
    for path in files
        .chain([example])
        .filter(|path| path.extension().is_some_and(|extension| extension == "toml"))
    {
        let text = std::fs::read_to_string(root().join(&path)).unwrap();
        all.push((path.display().to_string(), text));
    }
    all
}

#[test]
fn every_study_and_those_in_the_docs_satisfy_the_schema() {
    assert!(jsonschema::meta::is_valid(&schema()));
    for (name, text) in documents() {
        assert_eq!(problems(&text), Vec::<String>::new(), "{name}");
        StudyFile::parse(&name, &text).unwrap_or_else(|error| panic!("{error}"));
    }
}

#[test]
fn the_schema_has_exactly_the_keys_of_the_parser() {
    let schema = schema();
    let names = |value: &Value| -> Vec<String> {
        value.as_array().unwrap().iter().map(|name| name.as_str().unwrap().to_string()).collect()
    };
    let cell = &schema["$defs"]["cell"]["properties"];
    assert_eq!(names(&cell["figure"]["anyOf"][0]["enum"]), Figure::names());
    assert_eq!(names(&cell["unit"]["enum"]), Unit::names());
    let ops: Vec<&str> = OpKind::ALL.iter().map(|op| op.name()).collect();
    assert_eq!(names(&cell["op"]["enum"]), ops);
    let mut known: Vec<&str> = options().chain(["fs", "set", "sysctl"]).collect();
    known.sort_unstable();
    let conditions = schema["$defs"]["conditions"]["properties"].as_object().unwrap();
    let mut listed: Vec<&str> = conditions.keys().map(String::as_str).collect();
    listed.sort_unstable();
    assert_eq!(listed, known);
}

#[test]
fn the_schema_refuses_the_forms_that_the_parser_refuses() {
    let page = documents().remove(0).1;
    for (from, to) in [
        ("question =", "qestion ="),
        ("cacheable =", "cachable ="),
        ("figure = \"durable\"", "figure = \"durabl\""),
        ("ratio =", "rato ="),
        ("more_than = 1.0", ""),
        ("more_than = 1.0", "more_than = 1.0\nless_than = 2.0"),
        ("scales = [\"files\"]", "scales = \"files\""),
        ("name = \"files\"", "name = \"a file\""),
        ("name = \"files\"", "name = \"-x\""),
        ("name = \"files\"", LONG_NAME),
        ("title = \"What a journal costs\"", "title = \"  \""),
        ("title =", "scale = \"1/0\"\ntitle ="),
        ("scales = [\"files\"]", "scales = [\"files\", \"files\"]"),
        ("set = { files =", "set = { \"dirops.files\" ="),
        ("cacheable = \"256M\"", "repeat = 1.5"),
        ("cacheable = \"256M\"", "repeat = 0"),
        ("cacheable = \"256M\"", "threads = \"0\""),
        ("cacheable = \"256M\"", "seed = -1"),
        ("cacheable = \"256M\"", "deadline = -1"),
        ("cacheable = \"256M\"", "keep-log = \"true\""),
        ("cacheable = \"256M\"", "disk = true"),
        ("phase = \"delete\"", "phase = [\"delete\", \"delete\"]"),
        ("more_than = 1.0", "more_than = 0"),
        ("more_than = 1.0", "between = [-1, 1]"),
        (
            RATIO,
            "value = { row = \"none\", phase = \"delete\", figure = \"durable\" }\nmore_than = -1",
        ),
        ("[claim.check]", "least = \".%\"\n[claim.check]"),
        ("[claim.check]", "least = \"1.2.3%\"\n[claim.check]"),
        (
            "[claim.check]\nratio = { of = \"journal\", over",
            "least = \"1%\"\n[claim.check]\nexponent = { row",
        ),
        ("[[claim]]", &table("of = 3")),
        ("[[claim]]", &table("per = \"a\"")),
        ("[[claim]]", &table("of = 0, per = \"a\"")),
        ("[[claim]]", &table("untestable = \"x\"")),
        ("[[claim]]", &FACTORS.replace("runs =", "run =")),
        ("cacheable =", "each = { set = [\"a\"] }\ncacheable ="),
    ] {
        assert!(page.contains(from), "{from}");
        let text = page.replacen(from, to, 1);
        assert!(StudyFile::parse("my.toml", &text).is_err(), "the parser accepts {to}");
        assert!(!problems(&text).is_empty(), "the schema accepts {to}");
    }
}

const RATIO: &str = "ratio = { of = \"journal\", over = \"none\", phase = \"delete\", figure = \"durable\" }\nmore_than = 1.0";

/// A table of factors, followed by the heading of a claim.
const FACTORS: &str = "[[factors]]\nname = \"f\"\ncaption = \"c\"\nruns = [\"files\"]\nphase = \"delete\"\n\
                       figure = \"durable\"\n[[claim]]";

/// 65 letters.
const LONG_NAME: &str =
    "name = \"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\"";

/// Returns a published table whose second column also has the keys in `column`, followed by the heading of a claim.
fn table(column: &str) -> String {
    format!(
        "[[published]]\nname = \"t\"\ncaption = \"c\"\nphase = \"delete\"\nrows = {{ none = [1, 2] }}\n\
         columns = [{{ name = \"a\", figure = \"durable\", unit = \"s\" }}, \
         {{ name = \"b\", figure = \"rate\", unit = \"/s\", {column} }}]\n[[claim]]"
    )
}

#[test]
fn the_schema_accepts_what_the_parser_accepts() {
    let page = documents().remove(0).1;
    for (from, to) in [
        ("title =", "scale = \" 1/2\"\ntitle ="),
        ("title =", "scale = \"1/ 02 \"\ntitle ="),
        ("title =", "scale = 1\ntitle ="),
        ("source = \"unpublished\"", ""),
        ("cacheable =", "each = { machine = [\"server-2026\"] }\ncacheable ="),
        ("[[claim]]", FACTORS),
        ("cacheable = \"256M\"", "repeat = \"3\"\nseed = 0\nkeep-log = false\nthreads = 2"),
        ("[claim.check]", "least = \" 2.5 %\"\n[claim.check]"),
        ("[claim.check]", "least = \"0%\"\n[claim.check]"),
        (
            RATIO,
            "value = { row = \"none\", phase = \"delete\", figure = \"durable\" }\nmore_than = 0",
        ),
        ("figure = \"durable\"", "figure = \"kernel cpu jbd2\""),
        ("name = \"files\"", &LONG_NAME.replacen("aa", "a", 1)),
        ("[[claim]]", &table("of = 3, per = \"a\"")),
        (
            "[[claim]]",
            &table("of = 3, per = \"a\"").replace("figure = \"rate\"", "untestable = \"x\""),
        ),
    ] {
        assert!(page.contains(from), "{from}");
        let text = page.replacen(from, to, 1);
        let read = StudyFile::parse("my.toml", &text);
        assert!(read.is_ok(), "the parser refuses {to}: {}", read.unwrap_err());
        assert_eq!(problems(&text), Vec::<String>::new(), "{to}");
    }
}
