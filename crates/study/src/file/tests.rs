use super::*;

const EXAMPLE: &str = include_str!("example.toml");

fn example() -> StudyFile {
    StudyFile::parse("example.toml", EXAMPLE).unwrap()
}

/// Returns the error for the example with `from` replaced by `to`.
fn error_with(from: &str, to: &str) -> String {
    assert!(EXAMPLE.contains(from), "the example has no {from}");
    let text = EXAMPLE.replacen(from, to, 1);
    match StudyFile::parse("my.toml", &text) {
        Ok(_) => panic!("{to} is accepted"),
        Err(error) => error.to_string(),
    }
}

/// Returns `my.toml:LINE:` for the first line of the example that contains `part`.
fn line_of(part: &str) -> String {
    let line = EXAMPLE.lines().position(|line| line.contains(part)).unwrap() + 1;
    format!("my.toml:{line}:")
}

#[test]
fn the_example_is_parsed() {
    let study = example();
    assert_eq!((study.title.as_str(), study.year), ("ext3 or ext4 for unlink?", Some(2008)));
    assert_eq!(study.variants(), [Variant::Historical, Variant::Current]);
    let [tarball, curve] = study.runs.as_slice() else { panic!() };
    assert_eq!(tarball.rows(Variant::Historical).unwrap(), ["ext4-128", "ext3-128"]);
    assert_eq!(tarball.rows(Variant::Current).unwrap(), ["ext4-128", "ext4"]);
    assert_eq!(curve.variants(), [Variant::AsItStands]);
    assert_eq!(curve.serves(Variant::Historical), Some(Variant::AsItStands));
    let args = |variant| {
        let args = tarball.conditions(variant).unwrap().arguments();
        args.into_iter().map(|argument| argument.text).collect::<Vec<_>>()
    };
    assert_eq!(
        args(Variant::Historical),
        [
            "--fs=ext4-128=ext4 -I 128",
            "--fs=ext3-128=ext3 -I 128 -J size=64",
            "--set=files=20000",
            "--disk=ide-2008",
            "--period=2008",
            "--cacheable=640M"
        ]
    );
    assert_eq!(
        args(Variant::Current),
        [
            "--fs=ext4-128=ext4 -I 128",
            "--fs=ext4",
            "--set=files=20000",
            "--sysctl=vm.dirty_ratio=20",
            "--disk=hdd-7200"
        ]
    );
}

#[test]
fn tables_keep_the_digits_that_were_printed() {
    let study = example();
    let times = &study.published[0];
    let row = &times.rows[0];
    assert_eq!(row.label, "ext4-128");
    let first = row.cells[0].as_ref().unwrap();
    assert_eq!((first.text.as_str(), first.value), ("618.990", 618.99));
    let second = row.cells[1].as_ref().unwrap();
    assert_eq!((second.text.as_str(), second.deviation), ("913.9", Some(0.5)));
    assert_eq!(second.deviation_text.as_deref(), Some("0.5"));
    assert_eq!(times.rows[1].cells[2..], [None, None]);
    let cell = times.columns[2].measured.as_ref().unwrap().cell_of("ext4-128");
    assert_eq!((cell.run.as_str(), cell.op, cell.unit.name), ("tarball", Some(Op::Unlink), "/s"));
    assert_eq!(times.columns[3].measured.as_ref().unwrap_err(), "no one measured it since");
    let point = study.published[1].columns[1].measured.as_ref().unwrap().cell_of("classic");
    assert_eq!(point.at["files"], "2000");
}

#[test]
fn claims_of_every_kind_are_parsed() {
    let study = example();
    let check = |index: usize| match &study.claims[index].test {
        Test::Check(check) => check.clone(),
        Test::Untestable(why) => panic!("{why}"),
    };
    let Check::Ratio { numerator, denominator, bound } = check(0) else { panic!() };
    assert_eq!((numerator.row.as_str(), denominator.row.as_str()), ("ext3-128", "ext4-128"));
    assert_eq!(bound, Bound::MoreThan(1.0));
    let Check::Ratio { numerator, denominator, .. } = check(1) else { panic!() };
    assert_eq!(
        (numerator.row.as_str(), numerator.phases.as_slice()),
        ("ext4-128", &["remove".to_string()][..])
    );
    assert_eq!(denominator.phases, ["extract"]);
    assert_eq!(study.claims[1].margin, 0.1);
    let Check::Order(cells) = check(2) else { panic!() };
    assert_eq!(cells[1].row, "classic");
    assert!(matches!(check(3), Check::Within { at_most: 1.2, .. }));
    let Check::Value { cell, bound } = check(4) else { panic!() };
    assert_eq!((cell.unit.name, bound), ("%", Bound::LessThan(14.0)));
    assert!(matches!(check(5), Check::Exponent { bound: Bound::Between(1.7, 2.3), .. }));
    assert!(matches!(&study.claims[6].test, Test::Untestable(why) if why == "fun is no figure"));
}

#[test]
fn an_invalid_name_is_reported_with_its_position_and_the_nearest_valid_one() {
    for (from, to, problem, remedy) in [
        ("question =", "qestion =", "the file has no 'qestion'", "did you mean 'question'?"),
        ("workload = \"tarball\"", "worklod = \"tarball\"", "no 'worklod'", "'workload'"),
        ("cacheable =", "cachable =", "run 'tarball' as then has no 'cachable'", "'cacheable'"),
        ("scales =", "out =", "run 'tarball' cannot have 'out'", "fsdyno study NAME --out DIR"),
        ("run = \"curve\"", "run = \"curv\"", "there is no run 'curv'", "did you mean 'curve'?"),
        ("rows = { classic", "rows = { clasic", "run 'curve' has no row 'clasic'", "'classic'"),
        ("figure = \"cpu share\"", "figure = \"cpu shar\"", "no figure 'cpu shar'", "'cpu share'"),
        ("op = \"unlink\"", "op = \"unlnk\"", "there is no op 'unlnk'", "did you mean 'unlink'?"),
        ("unit = \"/s\"", "unit = \"1/s\"", "there is no unit '1/s'", "valid values: s, ms,"),
        ("per = \"remove\"", "per = \"removed\"", "has no column 'removed'", "'remove'"),
        ("of = \"ext3-128\"", "of = \"ext3\"", "run 'tarball' has no row 'ext3'", "did you mean"),
        ("less_than", "les_than", "the check of claim 'C5' has no 'les_than'", "'less_than'"),
        ("exponent =", "exponet =", "has no 'exponet'", "did you mean 'exponent'?"),
        ("column = \"remove\"", "column = \"removal\"", "no column 'removal'", "'remove'"),
    ] {
        let text = error_with(from, to);
        assert!(text.starts_with(&line_of(from)), "{text}, not {}", line_of(from));
        assert!(text.contains(problem) && text.contains(remedy), "{text}");
    }
}

#[test]
fn invalid_input_is_reported_with_its_position_and_the_valid_form() {
    let mut faults = Vec::new();
    for (from, to, problem, remedy) in [
        (
            "[618.990, ",
            "[",
            "row 'ext4-128' of table 'times' has 3 cells",
            "the table has 4 columns",
        ),
        ("\"913.9±0.5\"", "\"913.9+-0.5\"", "is not a valid cell", "\"mean±deviation\""),
        ("\"cpu share\"", "\"cpu share\", unit = \"s\"", "cannot be given in s", "its unit is %"),
        ("less_than = 14", "", "claim 'C5' has no bound", "write more_than = 1.0"),
        ("less_than = 14", "less_than = 14\nmore_than = 2", "has two bounds", "remove one of them"),
        ("[1.7, 2.3]", "[2.3, 1.7]", "is empty", "the smaller one first"),
        ("[1.7, 2.3]", "2", "'between' is a number", "square brackets"),
        (
            "at_most = 1.2",
            "at_most = 0.8",
            "less than 1",
            "the ratio of the largest to the smallest",
        ),
        ("at_most = 1.2 }", "}\nat_most = 1.2", "does not accept 'at_most'", "within = {"),
        (
            "over = \"ext4-128\"",
            "at_most = 2",
            "does not accept 'at_most'",
            "for a ratio, write less_than",
        ),
        ("less_than = 14", "more_than = -1", "has the bound -1", "no figure is below 0"),
        ("less_than = 14", "less_than = 0", "has the bound 0", "no figure is below 0"),
        ("less_than = 14", "between = [-1, 4]", "has the bound -1", "no figure is below 0"),
        ("less_than = 14", "less_than = true", "is true or false", "write one, such as 1.5"),
        ("less_than = 14", "less_than = 0x14", "'less_than' is not valid", "in decimal"),
        ("at_most = 1.2", "at_most = 1.05", "no value can satisfy", "a smaller margin"),
        ("more_than = 1.0", "between = [0.98, 1.02]", "no value can satisfy", "a smaller margin"),
        ("more_than = 1.0", "more_than = 0", "has the bound 0", "a ratio is always above 0"),
        ("of = 20000", "of = 0", "of = 0 is not above 0", "of = 8421"),
        (
            "per = \"remove\"",
            "per = \"fun\"",
            "'fun' has the unit count",
            "the column of the times",
        ),
        (
            "\"rate\", op = \"unlink\", unit = \"/s\"",
            "\"returned\"",
            "has the unit s, which is not a unit of rates",
            "remove 'of' and 'per'",
        ),
        (
            "untestable = \"no one",
            "figure = \"cpu\", untestable = \"no one",
            "and has a figure",
            "one",
        ),
        (
            "doubts = [",
            "doubts = [{ row = \"ext3-128\", column = \"remove\", why = \"x\" }, ",
            "row 'ext3-128', column 'remove' is doubted twice",
            "in one 'why'",
        ),
        ("of = 20000", "of = -1", "of = -1 is not above 0", "of = 8421"),
        ("\"913.9±0.5\"", "\"913.9±-0.5\"", "is not a valid cell", "\"mean±deviation\""),
        ("least = \"10%\"", "least = \"10\"", "'10' is not a percentage", "\"5%\""),
        (
            "untestable = \"fun is no figure\"",
            "",
            "claim 'C7' has no check",
            "untestable = \"why\"",
        ),
        ("id = \"C2\"", "id = \"C1\"", "two claims are called 'C1'", "its own id"),
        (
            "id = \"C2\"",
            "id = \"C 2\"",
            "'C 2' cannot be the id",
            "letters, digits and the characters _ . + -",
        ),
        ("name = \"curve\"", "name = \"a/b\"", "'a/b' cannot be the name", "letters, digits"),
        ("name = \"curve\"", "name = \"tarball\"", "two runs are called", "its own name"),
        ("disk = \"ide-2008\"", "disk = [\"a\", \"b\"]", "'disk' is a list", "give one value"),
        ("year = 2008", "year = \"2008\"", "'year' is a string", "from 1900 to 2100"),
        ("year = 2008", "year = 1899", "'year' is 1899; it must be a whole", "from 1900 to 2100"),
        ("year = 2008", "year = -1", "'year' is -1; it must be a whole", "from 1900 to 2100"),
        ("name = \"curve\"", "name = \"-x\"", "'-x' cannot be the name", "begin with a letter"),
        ("scales = [\"files\"]", "scales = [\"files\", \"files\"]", "'files' twice", "once"),
        (
            "{ files = 20000 }",
            "{ \"tarball.files\" = 20000 }",
            "a workload",
            "alone: files = 20000",
        ),
        ("on = \"model\"", "on = \"model\"\nrepeat = 1.5", "'repeat' is 1.5", "1 or more"),
        ("on = \"model\"", "on = \"model\"\nrepeat = 0", "'repeat' is 0", "1 or more"),
        ("on = \"model\"", "on = \"model\"\nseed = -1", "'seed' is -1", "from 0 to 1844"),
        (
            "on = \"model\"",
            "on = \"model\"\nseed = 18446744073709551616",
            "'seed' is 18446744073709551616",
            "to 18446744073709551615",
        ),
        ("on = \"model\"", "on = \"model\"\ndeadline = -1", "'deadline' is -1", "of seconds"),
        (
            "on = \"model\"",
            "on = \"model\"\nkeep-log = \"true\"",
            "'keep-log' is \"true\"",
            "keep-log = true, without quotes",
        ),
        ("on = \"model\"", "on = true", "'on' is true", "as after fsdyno run --on"),
        (", of = 20000", "", "has only one of 'of' and 'per'", "rates need both"),
        ("op = \"unlink\", ", "op = \"unlink\", at = 3, ", "'at' is a number", "files = 10000"),
        ("title =", "title", "expected", "TOML"),
        ("\"indexed\", \"classic\"", "\"indexed\"", "one row cannot", "two or more"),
        ("[\"extract\"]", "[\"extract\", \"extract\"]", "'extract' is named twice", "added up"),
        (
            "\"remove\", figure = \"cpu share\"",
            "[\"extract\", \"remove\"], figure = \"space used\"",
            "'space used' cannot be added up over several phases",
            "name one phase",
        ),
        (
            "text = \"Without an index",
            "least = \"1%\"\ntext = \"Without an index",
            "an exponent, which has no margin",
            "remove 'least'",
        ),
        ("over = \"ext4-128\"", "over = \"ext3-128\"", "the same cell", "name two"),
        (
            "phase = \"remove\", figure = \"cpu share\"",
            "figure = \"cpu share\"",
            "lacks 'phase'",
            "fsdyno show workload tarball",
        ),
    ] {
        let text = error_with(from, to);
        let line = text.split(':').nth(1).and_then(|line| line.parse::<usize>().ok());
        let expected = line_of(from);
        let expected_line = expected.split(':').nth(1).and_then(|line| line.parse::<usize>().ok());
        // A missing key is reported at its table: up to five lines above.
        let is_near = line.zip(expected_line).is_some_and(|(line, expected_line)| {
            (expected_line.saturating_sub(5)..=expected_line + 1).contains(&line)
        });
        if !(is_near && text.contains(problem) && text.contains(remedy)) {
            faults.push(format!("{text}\nnot {expected}: {problem} ... {remedy}"));
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn an_empty_file_and_one_without_a_title_are_refused() {
    let error = |text: &str| StudyFile::parse("my.toml", text).unwrap_err().to_string();
    assert!(error("").starts_with("my.toml:1:1: the file has no run; write one: [[run]]"));
    let no_title = "[[run]]\nname = 'a'\nworkload = 'dirops'\n";
    assert!(error(no_title).contains("lacks 'title'"), "{}", error(no_title));
}

#[test]
fn the_name_of_a_run_has_at_most_64_characters() {
    let named = |letters: usize| format!("name = \"{}\"", "a".repeat(letters));
    let text = error_with("name = \"curve\"", &named(65));
    assert!(text.ends_with("the name of a run has 65 characters; use at most 64"), "{text}");
    let text = EXAMPLE.replace("run = \"curve\"", &named(64).replace("name", "run"));
    StudyFile::parse("my.toml", &text.replace("name = \"curve\"", &named(64))).unwrap();
}

#[test]
fn a_row_named_by_its_spec_has_the_name_of_its_plan() {
    let text = "title = 't'\nquestion = 'q'\nsource = 's'\n[[run]]\nname = 'a'\nworkload = 'dirops'\n[run.fs]\n\
                'ext4  -I 128' = 'ext4  -I 128'\n'classic-ext2  -b 1024' = 'classic-ext2  -b 1024'\nsmall = 'ext4  -I 256'\n";
    let run = StudyFile::parse("a.toml", text).unwrap().runs.remove(0);
    let rows = run.rows(Variant::AsItStands).unwrap();
    assert_eq!(rows, ["ext4 -I 128", "classic-ext2 -b 1024", "small"]);
    let args: Vec<String> =
        run.common.arguments().into_iter().map(|argument| argument.text).collect();
    assert_eq!(args[..2], ["--fs=ext4 -I 128", "--fs=classic-ext2 -b 1024"]);
}

#[test]
fn a_missing_cell_is_reported_with_the_number_of_cells() {
    let text = error_with("[618.990, \"913.9±0.5\", 21.9, 1]", "[618.990]");
    assert!(text.contains("of table 'times' has 1 cell; the table has 4 columns"), "{text}");
}

#[test]
fn the_cells_of_a_check_must_have_the_same_unit() {
    let check = |text: &str, from: &str| {
        assert!(text.starts_with(&line_of(from)), "{text}");
        assert!(text.contains("a cell in ms is compared with one in s"), "{text}");
        assert!(text.contains("remove 'unit', or write unit = \"ms\" once"), "{text}");
    };
    let both = "of = { phase = \"remove\" }, over = { phase = [\"extract\"] }";
    let ms = "of = { phase = \"remove\", unit = \"ms\" }, over = { phase = [\"extract\"] }";
    // The other cell has the figure's usual unit, a unit of its own, or the unit of the context.
    check(&error_with(both, ms), both);
    check(&error_with(both, &ms.replace("[\"extract\"]", "[\"extract\"], unit = \"s\"")), both);
    let context = ms.replace(", unit = \"ms\" }", " }, unit = \"ms\"");
    check(
        &error_with(both, &context.replace("[\"extract\"]", "[\"extract\"], unit = \"s\"")),
        both,
    );
    let rows = "rows = [\"indexed\", \"classic\"]";
    check(&error_with(rows, "rows = [{ row = \"indexed\", unit = \"ms\" }, \"classic\"]"), rows);
    let rows = "rows = [\"ext4-128\", \"ext3-128\"]";
    check(&error_with(rows, "rows = [{ row = \"ext4-128\", unit = \"ms\" }, \"ext3-128\"]"), rows);
    // One unit for all of them is valid, wherever it is given.
    for valid in [context, ms.replace("[\"extract\"]", "[\"extract\"], unit = \"ms\"")] {
        StudyFile::parse("my.toml", &EXAMPLE.replace(both, &valid)).unwrap();
    }
}

#[test]
fn a_side_may_name_its_run_if_the_row_is_given_outside() {
    let old =
        EXAMPLE.replace("fs = { classic =", "fs = { \"ext4-128\" = \"classic-ext2\", classic =");
    let sides = "of = { phase = \"remove\" }, over = { phase = [\"extract\"] }, run = \"tarball\"";
    let new = "of = { run = \"tarball\", phase = \"remove\" }, over = { run = \"curve\", phase = \"create\" }";
    let study = StudyFile::parse("my.toml", &old.replace(sides, new)).unwrap();
    let Test::Check(Check::Ratio { numerator, denominator, .. }) = &study.claims[1].test else {
        panic!()
    };
    assert_eq!((numerator.run.as_str(), denominator.run.as_str()), ("tarball", "curve"));
    assert_eq!((numerator.row.as_str(), denominator.row.as_str()), ("ext4-128", "ext4-128"));
    // Each side's run must have the row.
    let text = error_with(sides, new);
    assert!(text.contains("run 'curve' has no row 'ext4-128'"), "{text}");
    assert!(text.starts_with(&line_of(sides)), "{text}");
    let without_run = new.replace("run = \"curve\", ", "");
    assert!(
        error_with(sides, &without_run).contains("lacks 'run'"),
        "{}",
        error_with(sides, &without_run)
    );
    let rows = "rows = [\"indexed\", \"classic\"], run = \"curve\", phase = \"create\"";
    let each = "row = \"indexed\", rows = [{ run = \"curve\" }, { run = \"curve\", row = \"classic\" }], phase = \"create\"";
    StudyFile::parse("my.toml", &EXAMPLE.replace(rows, each)).unwrap();
}

/// A study of two groups of runs, without a source.
const GROUPS: &str = r#"
title = "Machines"
question = "Which?"
[[run]]
name = "files"
each = { machine = ["server-2026", "pi-2024"] }
workload = "dirops"
fs = { ext4 = "ext4", xfs = "xfs" }
[[factors]]
name = "files"
caption = "Made and deleted"
runs = ["files"]
phase = ["create", "delete"]
figure = "durable"
"#;

#[test]
fn each_expands_to_a_run_for_every_value_and_factors_may_name_the_group() {
    let study = StudyFile::parse("my.toml", GROUPS).unwrap();
    let names: Vec<&str> = study.runs.iter().map(|run| run.name.as_str()).collect();
    assert_eq!((names, study.source.as_str()), (vec!["files-server-2026", "files-pi-2024"], ""));
    let args = study.runs[1].conditions(Variant::AsItStands).unwrap().arguments();
    assert_eq!(args.last().unwrap().text, "--machine=pi-2024");
    let columns: Vec<(&str, &str)> = study.factors[0]
        .columns
        .iter()
        .map(|column| (column.head.as_str(), column.run()))
        .collect();
    assert_eq!(columns, [("server-2026", "files-server-2026"), ("pi-2024", "files-pi-2024")]);
}

#[test]
fn an_invalid_group_or_table_of_factors_is_refused_at_its_position() {
    for (from, to, expected) in [
        ("each = {", "machine = \"pi-2024\"\neach = {", "has 'machine' twice"),
        ("each = { machine", "each = { machin", "has no 'machin'"),
        ("\"pi-2024\"]", "\"./pi.toml\"]", "cannot be the name of a run"),
        ("\"pi-2024\"]", "\"server-2026\"]", "two runs are called 'files-server-2026'"),
        ("[\"server-2026\", \"pi-2024\"]", "[]", "has no value"),
        ("runs = [\"files\"]", "runs = [\"file\"]", "there is no run 'file'"),
        ("runs = [\"files\"]", "runs = [\"files\", \"files-pi-2024\"]", "two columns 'pi-2024'"),
        ("\"durable\"", "\"rate\"", "'rate'"),
        ("fs = { ext4 = \"ext4\", xfs = \"xfs\" }", "", "names no file systems"),
    ] {
        assert!(GROUPS.contains(from), "{from}");
        let error = StudyFile::parse("my.toml", &GROUPS.replacen(from, to, 1)).unwrap_err();
        assert!(
            error.to_string().contains(expected) && error.to_string().starts_with("my.toml:"),
            "{error}"
        );
    }
}
