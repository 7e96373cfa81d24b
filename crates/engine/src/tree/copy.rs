//! Copies a tree with its modes and times, like `cp -a`.

use fsdyno_record::OpKind;
use fsdyno_workload::COPY_BUFFER;

use crate::failure::Failure;
use crate::tree::calls::{Attributes, Calls, NEW_FILE_FLAGS, TreePath};

/// Copies `from`, a directory or a file, to `to`, which must not exist.
///
/// # Errors
/// The first call that fails; EOPNOTSUPP for anything that is neither a file nor a directory.
pub fn copy(
    calls: &mut Calls<'_, '_>,
    mut from: TreePath,
    mut to: TreePath,
) -> Result<(), Failure> {
    copy_directory(calls, &mut from, &mut to, &mut vec![0; COPY_BUFFER as usize])
}

fn copy_directory(
    calls: &mut Calls<'_, '_>,
    from: &mut TreePath,
    to: &mut TreePath,
    buffer: &mut [u8],
) -> Result<(), Failure> {
    let status = calls.stat(from)?;
    match status.kind {
        libc::S_IFREG => return copy_file(calls, from, to, status.attributes, buffer),
        libc::S_IFDIR => {}
        _ => return calls.fail(OpKind::Open, from, libc::EOPNOTSUPP),
    }
    calls.make_directory(to)?;
    for name in calls.names(from)?.split(|byte| *byte == 0).filter(|name| !name.is_empty()) {
        let (from_length, to_length) = (from.descend(name), to.descend(name));
        copy_directory(calls, from, to, buffer)?;
        from.path.truncate(from_length);
        to.path.truncate(to_length);
    }
    calls.set_directory_attributes(to, status.attributes)
}

fn copy_file(
    calls: &mut Calls<'_, '_>,
    from: &TreePath,
    to: &TreePath,
    attributes: Attributes,
    buffer: &mut [u8],
) -> Result<(), Failure> {
    let source = calls.open(OpKind::Open, from, libc::O_RDONLY | libc::O_NOFOLLOW, 0)?;
    let target = calls.open(OpKind::Create, to, NEW_FILE_FLAGS, 0o600)?;
    loop {
        let count = calls.read(&source, from, buffer)?;
        if count == 0 {
            break;
        }
        calls.write(&target, to, &buffer[..count])?;
    }
    calls.set_file_attributes(&target, to, attributes)?;
    calls.close(target);
    calls.close(source);
    Ok(())
}
