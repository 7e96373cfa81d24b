//! The nearest right name for a wrong one.

/// The name among `names` that is nearest to `typed`, if any is near enough to be meant.
///
/// Nearness is the optimal string alignment distance (Damerau 1964: insert, delete, replace,
/// swap neighbours); near enough is at most a third of the longer name, at least two.
pub fn nearest<'a>(typed: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    names
        .into_iter()
        .map(|name| (distance(typed, name), name))
        .filter(|(d, name)| *d <= (typed.len().max(name.len()) / 3).max(2))
        .min_by_key(|(d, _)| *d)
        .map(|(_, name)| name)
}

/// `", did you mean 'x'?"` or, with nothing near, the list of what there is.
pub fn hint<'a>(typed: &str, names: impl IntoIterator<Item = &'a str> + Clone) -> String {
    match nearest(typed, names.clone()) {
        Some(name) => format!("did you mean '{name}'?"),
        None => format!("there are: {}", names.into_iter().collect::<Vec<_>>().join(", ")),
    }
}

fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut before = vec![0; b.len() + 1];
    let mut above: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut row = vec![i; b.len() + 1];
        for j in 1..=b.len() {
            let replace = above[j - 1] + usize::from(a[i - 1] != b[j - 1]);
            row[j] = replace.min(above[j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                row[j] = row[j].min(before[j - 2] + 1);
            }
        }
        before = std::mem::replace(&mut above, row);
    }
    above[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_of_the_finger_finds_the_name_and_nonsense_finds_none() {
        let names = ["ext2", "ext4", "xfs", "btrfs", "reiserfs"];
        assert_eq!(nearest("riserfs", names), Some("reiserfs"));
        assert_eq!(nearest("brtfs", names), Some("btrfs"));
        assert_eq!(nearest("postgresql", names), None);
        assert!(hint("postgresql", names).contains("ext2, ext4"));
    }
}
