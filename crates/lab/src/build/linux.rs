//! The changes that Reiser4 needs in Linux 5.10: it writes back its inodes itself, keeps dirty pages untagged, and
//! cannot cope with truncation that locks pages in batches.

use std::fs;
use std::path::Path;

use super::{Build, replace_once};
use crate::error::LabError;

/// Applies the changes to a source tree.
///
/// # Errors
/// A file that differs from Linux 5.10 at the location of a change.
pub(super) fn patch_tree(build: &Build<'_>, tree: &Path) -> Result<(), LabError> {
    patch_writeback(build, tree)?;
    for (file, old, new) in REPLACEMENTS {
        replace_once(build, &tree.join(file), old, new)?;
    }
    for (file, text) in ADDITIONS {
        let path = tree.join(file);
        let mut contents = fs::read_to_string(&path).map_err(LabError::io("read", &path))?;
        contents.push_str(text);
        fs::write(&path, contents).map_err(LabError::io("write", &path))?;
    }
    Ok(())
}

/// The replacements: file, text to replace, and new text.
const REPLACEMENTS: &[(&str, &str, &str)] = &[
    (
        "include/linux/fs.h",
        "struct super_operations {\n",
        "struct bdi_writeback;\nstruct wb_writeback_work;\n\nstruct super_operations {\n\
         \tlong (*writeback_inodes)(struct super_block *sb, struct bdi_writeback *wb,\n\
         \t\t\t\t struct writeback_control *wbc,\n\
         \t\t\t\t struct wb_writeback_work *work, bool flush_all);\n",
    ),
    (
        "include/linux/fs.h",
        "struct address_space_operations {\n",
        "struct address_space_operations {\n\tint batch_lock_tabu;\n",
    ),
    (
        "include/linux/mm.h",
        "int __set_page_dirty_nobuffers(struct page *page);\n",
        "int __set_page_dirty_nobuffers(struct page *page);\nint set_page_dirty_notag(struct page *page);\n",
    ),
    (
        "mm/truncate.c",
        "\t\t\tpagevec_add(&locked_pvec, page);\n",
        "\t\t\tif (mapping->a_ops->batch_lock_tabu) {\n\
         \t\t\t\ttruncate_inode_page(mapping, page);\n\
         \t\t\t\tunlock_page(page);\n\
         \t\t\t\tcontinue;\n\
         \t\t\t}\n\
         \t\t\tpagevec_add(&locked_pvec, page);\n",
    ),
    ("fs/read_write.c", "static ssize_t new_sync_read(", "ssize_t new_sync_read("),
    (
        "fs/Kconfig",
        "source \"fs/reiserfs/Kconfig\"\n",
        "source \"fs/reiserfs/Kconfig\"\nsource \"fs/reiser4/Kconfig\"\n",
    ),
];

/// The header that declares the functions that Reiser4 calls in fs/read_write.c.
pub(super) const HEADER: &str = "\
#include <linux/fs.h>
ssize_t new_sync_read(struct file *filp, char __user *buf, size_t len, loff_t *ppos);
loff_t default_llseek_unlocked(struct file *file, loff_t offset, int whence);
";

/// Lines for Reiser4's Makefile: include [`HEADER`], and accept callbacks of list_sort() without the const that its
/// arguments got in the course of 5.10.
pub(super) const FLAGS: &str = "\n\
    ccflags-y += -include $(srctree)/fs/reiser4/fsdyno.h -Wno-error=incompatible-pointer-types\n";

/// The additions: file, and the text to append to it.
const ADDITIONS: &[(&str, &str)] = &[
    ("fs/Makefile", "obj-$(CONFIG_REISER4_FS) += reiser4/\n"),
    (
        "fs/read_write.c",
        "\n/* As default_llseek, for a caller that has locked the inode. */\n\
         loff_t default_llseek_unlocked(struct file *file, loff_t offset, int whence)\n\
         {\n\
         \tswitch (whence) {\n\
         \tcase SEEK_SET:\n\
         \t\tbreak;\n\
         \tcase SEEK_CUR:\n\
         \t\toffset += file->f_pos;\n\
         \t\tbreak;\n\
         \tcase SEEK_END:\n\
         \t\toffset += i_size_read(file_inode(file));\n\
         \t\tbreak;\n\
         \tdefault:\n\
         \t\treturn -EINVAL;\n\
         \t}\n\
         \treturn vfs_setpos(file, offset, LLONG_MAX);\n\
         }\n",
    ),
    (
        "mm/page-writeback.c",
        "\n/* Marks a page dirty without its tag in the page cache: its file system knows it. */\n\
         int set_page_dirty_notag(struct page *page)\n\
         {\n\
         \tunsigned long flags;\n\
         \tint fresh;\n\n\
         \tlock_page_memcg(page);\n\
         \tfresh = !TestSetPageDirty(page);\n\
         \tif (fresh) {\n\
         \t\tlocal_irq_save(flags);\n\
         \t\taccount_page_dirtied(page, page_mapping(page));\n\
         \t\tlocal_irq_restore(flags);\n\
         \t}\n\
         \tunlock_page_memcg(page);\n\
         \treturn fresh;\n\
         }\n",
    ),
];

/// The opening lines of the function to which the loop over a superblock's dirty inodes is moved, so that file systems
/// can call the loop.
const GENERIC_WRITEBACK_HEAD: &str = "\
long generic_writeback_sb_inodes(struct super_block *sb, struct bdi_writeback *wb,
\t\t\t\t struct writeback_control *wbc,
\t\t\t\t struct wb_writeback_work *work, bool flush_all)
{
";

/// The text inserted after the loop: the function that skips a superblock's inodes, and the opening lines of the
/// function that lets the file system replace the loop.
const SKIP: &str = "
void writeback_skip_sb_inodes(struct super_block *sb, struct bdi_writeback *wb)
{
\twhile (!list_empty(&wb->b_io)) {
\t\tstruct inode *inode = wb_inode(wb->b_io.prev);

\t\tif (inode->i_sb != sb)
\t\t\treturn;
\t\tredirty_tail(inode, wb);
\t}
}

static long writeback_sb_inodes(struct super_block *sb, struct bdi_writeback *wb,
\t\t\t\tstruct wb_writeback_work *work)
{
";

/// The end of that function: the call of the file system's loop, or of the generic one.
const DISPATCH_TAIL: &str = "
\tif (sb->s_op->writeback_inodes)
\t\treturn sb->s_op->writeback_inodes(sb, wb, &wbc, work, false);
\treturn generic_writeback_sb_inodes(sb, wb, &wbc, work, false);
}
";

/// The declarations of the new functions, for include/linux/writeback.h.
const DECLARATIONS: &str = "
long generic_writeback_sb_inodes(struct super_block *sb, struct bdi_writeback *wb,
\t\t\t\t struct writeback_control *wbc,
\t\t\t\t struct wb_writeback_work *work, bool flush_all);
void writeback_skip_sb_inodes(struct super_block *sb, struct bdi_writeback *wb);
";

/// Turns the loop in fs-writeback.c into a separate function that receives the control block from its caller, and moves
/// the definition of `struct wb_writeback_work` into the header.
fn patch_writeback(build: &Build<'_>, tree: &Path) -> Result<(), LabError> {
    let path = tree.join("fs/fs-writeback.c");
    let text = fs::read_to_string(&path).map_err(LabError::io("read", &path))?;
    let (text, work) = split_writeback(&text).ok_or_else(|| {
        build.failed(format!(
            "{} differs from Linux 5.10; this kernel version is not supported",
            path.display()
        ))
    })?;
    fs::write(&path, text).map_err(LabError::io("write", &path))?;
    let first = "void writeback_inodes_sb(struct super_block *, enum wb_reason reason);\n";
    let header = tree.join("include/linux/writeback.h");
    replace_once(build, &header, first, &format!("{work}{DECLARATIONS}{first}"))
}

/// Returns the changed fs-writeback.c and the definition for the header.
fn split_writeback(text: &str) -> Option<(String, String)> {
    let start = text.find("struct wb_writeback_work {")?;
    let end = start + text[start..].find("};\n")? + 3;
    let work = text[start..end].to_string();
    let text = format!("{}{}", &text[..start], &text[end..]);
    let head = text.find("static long writeback_sb_inodes(")?;
    let control = head + text[head..].find("\tstruct writeback_control wbc = {")?;
    let body = control + text[control..].find("\tunsigned long start_time")?;
    let end = body + text[body..].find("\n}\n")? + 3;
    let bail_out = "\t\tif (total_wrote) {";
    let body_text = &text[body..end];
    if body_text.matches(bail_out).count() != 1 {
        return None;
    }
    let body_text = body_text
        .replace("wbc.", "wbc->")
        .replace("&wbc", "wbc")
        .replace(bail_out, "\t\tif (total_wrote && !flush_all) {");
    let control = &text[control..body];
    let changed = format!(
        "{}{GENERIC_WRITEBACK_HEAD}{body_text}{SKIP}{control}{DISPATCH_TAIL}{}",
        &text[..head],
        &text[end..]
    );
    Some((changed, work))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
struct wb_writeback_work {
\tlong nr_pages;
};

static long writeback_sb_inodes(struct super_block *sb)
{
\tstruct writeback_control wbc = {
\t\t.sync_mode = work->sync_mode,
\t};
\tunsigned long start_time = jiffies;

\twhile (more) {
\t\twrite(inode, &wbc);
\t\twrote = wbc.nr;
\t\tif (total_wrote) {
\t\t\tbreak;
\t\t}
\t}
}

static long caller(void)
";

    #[test]
    fn the_loop_takes_the_control_block_from_its_caller() {
        let (text, work) = split_writeback(TEXT).unwrap();
        assert_eq!(work, "struct wb_writeback_work {\n\tlong nr_pages;\n};\n");
        assert!(!text.contains("struct wb_writeback_work {"));
        let (before, after) = text.split_once("static long writeback_sb_inodes(").unwrap();
        assert!(before.contains("write(inode, wbc);") && before.contains("wbc->nr;"), "{text}");
        assert!(before.contains("if (total_wrote && !flush_all) {"), "{text}");
        assert!(after.contains(".sync_mode = work->sync_mode,"), "{text}");
        assert!(
            after.contains("&wbc, work, false)") && after.ends_with("caller(void)\n"),
            "{text}"
        );
    }

    #[test]
    fn a_different_source_is_not_changed() {
        assert_eq!(split_writeback("int main(void)\n{\n}\n"), None);
        assert_eq!(split_writeback(&TEXT.replace("total_wrote", "written")), None);
    }
}
