use super::*;
use fsdyno_filesystem::catalog;

const EXAMPLE: &str = r#"
filesystem = "ext4"
[[option]]
name = "data"
default = "ordered"
value = [{ name = "writeback", mount = "data=writeback", gives_up = { security = "old bytes" } }, { name = "journal", mount = "data=journal" }]
[[option]]
name = "journal"
default = "full"
value = [{ name = "none", mkfs = "-O ^has_journal", gives_up = { durability = "fsck" } }]
[[option]]
name = "inode"
default = "256"
value = [{ name = "512", mkfs = "-I 512" }]
[[option]]
name = "inline"
default = "off"
value = [{ name = "on", mkfs = "-O inline_data", since = "5.10", until = "6.11" }]
[[option]]
name = "expire"
default = "30s"
value = [{ name = "5s", sysctls = ["vm.dirty_expire_centisecs=500"] }]
[[conflict]]
between = ["journal=none", "data=journal"]
why = "no journal"
"#;

fn example() -> Space {
    Space::parse(EXAMPLE, "own.toml").unwrap()
}

#[test]
fn every_built_in_space_is_valid_and_names_its_file_system() {
    for name in names() {
        let space = find(name).unwrap();
        assert_eq!(space.filesystem, name);
        assert!(space.options.len() > 10 && !space.about.is_empty());
        assert!(space.options.iter().all(|option| !option.about.is_empty()), "{name}");
        assert!(space.allows(&space.default_point()));
    }
}

#[test]
fn options_that_give_up_durability_in_the_catalog_are_marked_in_the_spaces() {
    for name in names() {
        let (space, kind) = (find(name).unwrap(), catalog::get(name).unwrap());
        for value in space.options.iter().flat_map(|option| &option.values) {
            let keys = kind.gives_up_durability.keys();
            let mut unsafe_options = keys.filter_map(|key| key.strip_prefix("mount "));
            let is_unsafe =
                unsafe_options.any(|known| value.mount.split(',').any(|option| option == known));
            assert!(
                !is_unsafe || value.loss(Loss::Durability).is_some(),
                "{name}: {}",
                value.mount
            );
        }
    }
}

#[test]
fn values_of_one_option_of_mkfs_are_joined() {
    let space = example();
    let configuration = space.configuration(&Point(vec![1, 1, 1, 1, 1]));
    assert_eq!(configuration.spec, "ext4 -O ^has_journal,inline_data -I 512 @ data=writeback");
    assert_eq!(configuration.sysctls, ["vm.dirty_expire_centisecs=500"]);
    assert_eq!(space.configuration(&space.default_point()).spec, "ext4");
    assert_eq!(space.describe(&Point(vec![2, 0, 0, 0, 1])), "data=journal expire=5s");
}

#[test]
fn points_with_conflicts_are_excluded() {
    let space = example();
    assert_eq!(space.combinations(), 48);
    assert_eq!(space.points(48).unwrap().len(), 40);
    assert!(space.points(47).is_none());
    assert!(!space.allows(&Point(vec![2, 1, 0, 0, 0])));
    assert_eq!(space.neighbours(&Point(vec![2, 0, 0, 0, 0])).len(), 5);
}

#[test]
fn each_value_that_a_restriction_drops_has_a_reason() {
    let restriction =
        Restriction { safe: true, kernel: Some("6.12.3-amd64".into()), ..Restriction::default() };
    let (space, dropped) = example().restricted(&restriction).unwrap();
    let names: Vec<&str> = dropped.iter().map(|value| value.what.as_str()).collect();
    assert_eq!(names, ["data=writeback", "journal=none", "inline=on", "expire=5s"]);
    assert!(dropped[2].why.contains("up to 6.11"), "{}", dropped[2].why);
    assert_eq!(space.levels(), [2, 1, 2, 1, 1]);
    let newer =
        Restriction { kernel: Some("6.11.9".into()), settings: true, ..Restriction::default() };
    assert!(example().restricted(&newer).unwrap().1.is_empty());
    let older =
        Restriction { kernel: Some("5.4".into()), settings: true, ..Restriction::default() };
    assert!(example().restricted(&older).unwrap().1[0].why.contains("5.10 and later"));
}

#[test]
fn options_are_selected_excluded_and_fixed() {
    let all = Restriction { settings: true, ..Restriction::default() };
    let only = Restriction { only: vec!["data".into(), "inode".into()], ..all.clone() };
    assert_eq!(example().restricted(&only).unwrap().0.levels(), [3, 1, 2, 1, 1]);
    let exclude =
        Restriction { exclude: vec!["data=journal".into(), "inode".into()], ..all.clone() };
    let (space, dropped) = example().restricted(&exclude).unwrap();
    assert_eq!((space.levels(), dropped.len()), (vec![2, 2, 1, 2, 2], 2));
    let fix = Restriction { fix: vec!["journal=none".into()], ..all.clone() };
    let (space, _) = example().restricted(&fix).unwrap();
    assert_eq!(space.configuration(&space.default_point()).spec, "ext4 -O ^has_journal");
    assert_eq!(space.points(100).unwrap().len(), 16, "data=journal is impossible then");
    let error_of =
        |restriction: Restriction| example().restricted(&restriction).unwrap_err().to_string();
    let fixed = |text: &str| Restriction { fix: vec![text.into()], ..all.clone() };
    assert!(error_of(fixed("jurnal=none")).contains("did you mean 'journal'?"));
    assert!(error_of(fixed("journal=non")).contains("did you mean 'none'?"));
    assert!(error_of(fixed("journal")).contains("--fix journal=VALUE"));
    let both =
        Restriction { fix: vec!["journal=none".into(), "data=journal".into()], ..all.clone() };
    assert!(error_of(both).contains("cannot be combined: no journal"));
    let none = Restriction { only: vec!["inode".into()], exclude: vec!["inode".into()], ..all };
    assert!(error_of(none).contains("no option of ext4 remains to be tried"));
}

#[test]
fn an_invalid_file_is_rejected_with_the_location_of_the_error() {
    let parse_replaced = |from: &str, to: &str| {
        Space::parse(&EXAMPLE.replace(from, to), "own.toml").unwrap_err().to_string()
    };
    for (from, to, expected) in [
        ("\"ext4\"", "\"ext5\"", "'ext5'"),
        ("data=journal\" }", "dat=journal\" }", "option 'data', value 'journal'"),
        ("-I 512", "--sh 512", "option 'inode', value '512'"),
        ("-I 512", "-J device={journal}", "names a second disk"),
        ("name = \"inode\"", "name = \"data\"", "'data' is given twice"),
        ("{ security", "{ speed", "possible are: durability, security, compatibility"),
        ("mkfs = \"-I 512\"", "mkfs = \" \"", "sets nothing"),
        ("centisecs=500", "centisecs", "write KEY=VALUE"),
        (
            "[\"journal=none\", \"data=journal\"]",
            "[\"journal=none\", \"dta=journal\"]",
            "no option 'dta'",
        ),
        (
            "[\"journal=none\", \"data=journal\"]",
            "[\"journal=full\", \"data=ordered\"]",
            "both are defaults",
        ),
        ("since = \"5.10\"", "since = \"new\"", "'new' is not a kernel release"),
        ("name = \"inode\"", "name = \"i node\"", "is not a valid option name"),
        ("filesystem", "file", "own.toml: line 2, column 1: unknown field `file`"),
    ] {
        let error = parse_replaced(from, to);
        assert!(error.starts_with("own.toml: ") && error.contains(expected), "{to}: {error}");
        assert!(!error.contains('\n'), "{to}: {error}");
    }
    let empty = Space::parse("filesystem = \"ext4\"", "own.toml").unwrap_err().to_string();
    assert!(empty.contains("no options"), "{empty}");
}

#[test]
fn an_unknown_file_system_has_no_space() {
    let error = find("ext5").unwrap_err().to_string();
    assert!(error.contains("'ext5'") && error.contains("--space FILE"), "{error}");
}
