//! File system tools that the host's distribution may not have.

use fsdyno_filesystem::{Spec, catalog};
use fsdyno_lab::Cache;

use crate::failure::Failure;
use crate::notes::say;
use crate::spec::RunSpec;

/// Downloads the tools of those requested file systems that at least one of the kernels supports.
///
/// # Errors
/// Tools that are missing and cannot be downloaded.
pub fn download(run: &RunSpec, releases: &[String]) -> Result<(), Failure> {
    let specs = run.axes.filesystems.iter().flat_map(|text| split_filesystems(text));
    for spec in specs.filter_map(|text| Spec::parse(&text).ok()) {
        let Ok(kind) = catalog::get(&spec.base().kind) else { continue };
        let has = |release: &String| kind.check_kernel(release).is_ok();
        if fsdyno_lab::can_download_tools(kind) && releases.iter().any(has) {
            let log = |line: &str| say(&format!("fsdyno: {line}"));
            fsdyno_lab::download_tools(kind, &Cache::of_user()?, &log)?;
        }
    }
    Ok(())
}

/// Splits one `--fs` into specs: `ext4,xfs` becomes two, because each part is the plain name of a file system.
pub fn split_filesystems(fs: &str) -> Vec<String> {
    let is_kind = |name: &str| {
        let model = fsdyno_ext2dir::trial::variant(name).is_some();
        model || fsdyno_filesystem::catalog::get(name).is_ok()
    };
    match fsdyno_axes::parts(fs) {
        Ok(parts) if parts.iter().all(|part| is_kind(part)) => {
            parts.into_iter().map(String::from).collect()
        }
        _ => vec![fs.to_string()],
    }
}
