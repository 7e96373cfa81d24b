//! Suggests the nearest valid name for an unknown one.

/// Returns the name among `names` that is nearest to `unknown`, if any is near enough.
///
/// The distance is that of optimal string alignment (Damerau 1964: insert, delete, replace, swap neighbours). A name is
/// near enough if the distance is at most a third of the longer name's length, or at most two. Among equally near
/// names, the one whose letters are nearest in the alphabet wins: for `ext5`, `ext4` and not `ext2`. If none is near
/// enough, the result is the first name that begins with `unknown`: for `ssd`, `ssd-sata`.
pub fn nearest<'a>(
    unknown: &str,
    names: impl IntoIterator<Item = &'a str> + Clone,
) -> Option<&'a str> {
    let nearest = names
        .clone()
        .into_iter()
        .map(|name| (edit_distance(unknown, name), alphabet_distance(unknown, name), name))
        .filter(|(edit_distance, _, name)| {
            *edit_distance <= (unknown.len().max(name.len()) / 3).max(2)
        })
        .min_by_key(|(edit_distance, alphabet_distance_of_name, _)| {
            (*edit_distance, *alphabet_distance_of_name)
        })
        .map(|(.., name)| name);
    let is_prefix = |name: &&str| unknown.len() > 1 && name.starts_with(unknown);
    nearest.or_else(|| names.into_iter().find(is_prefix))
}

/// Returns the sum of the differences between the letters of two names, position by position.
fn alphabet_distance(a: &str, b: &str) -> u32 {
    a.chars().zip(b.chars()).map(|(a, b)| u32::from(a).abs_diff(u32::from(b))).sum()
}

/// Returns `did you mean 'x'?` or, if no name is near, the list of valid names.
pub fn hint<'a>(unknown: &str, names: impl IntoIterator<Item = &'a str> + Clone) -> String {
    match nearest(unknown, names.clone()) {
        Some(name) => format!("did you mean '{name}'?"),
        None => format!("there are: {}", names.into_iter().collect::<Vec<_>>().join(", ")),
    }
}

fn edit_distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut row_before_last = vec![0; b.len() + 1];
    let mut last_row: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut row = vec![i; b.len() + 1];
        for j in 1..=b.len() {
            let replace = last_row[j - 1] + usize::from(a[i - 1] != b[j - 1]);
            row[j] = replace.min(last_row[j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                row[j] = row[j].min(row_before_last[j - 2] + 1);
            }
        }
        row_before_last = std::mem::replace(&mut last_row, row);
    }
    last_row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelt_name_is_found_and_unrelated_text_finds_none() {
        let names = ["ext2", "ext4", "xfs", "btrfs", "reiserfs"];
        assert_eq!(nearest("riserfs", names), Some("reiserfs"));
        assert_eq!(nearest("brtfs", names), Some("btrfs"));
        assert_eq!(nearest("postgresql", names), None);
        assert_eq!(nearest("ext5", names), Some("ext4"));
        assert_eq!(nearest("ext1", names), Some("ext2"));
        assert_eq!(nearest("ssd", ["hdd-7200", "ssd-sata"]), Some("ssd-sata"));
        assert_eq!(nearest("x", ["xfs-on-a-disk", "ext4"]), None);
        assert!(hint("postgresql", names).contains("ext2, ext4"));
    }
}
