//! Kernel releases: their order, and their prefixes.

/// Returns true if a release begins with a prefix at a boundary: 6.1 matches 6.1.0-56, not 6.12.
pub(crate) fn has_prefix(release: &str, request: &str) -> bool {
    let rest = release.strip_prefix(request);
    rest.is_some_and(|rest| !rest.starts_with(|c: char| c.is_ascii_digit()))
}

/// Compares releases: runs of digits as numbers, everything else as text.
pub(crate) fn by_version(a: &str, b: &str) -> std::cmp::Ordering {
    fn parts(release: &str) -> Vec<(u64, &str)> {
        release.split(['.', '-', '+', '~']).map(|part| (part.parse().unwrap_or(0), part)).collect()
    }
    parts(a).cmp(&parts(b))
}
