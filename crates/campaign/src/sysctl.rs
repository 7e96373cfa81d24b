//! Refuses sysctls that no distribution kernel has, as far as their names show this: all names below `vm` are listed
//! here.

use std::path::Path;

use fsdyno_record::suggest::hint;

use crate::matrix_request::MatrixError;

/// The directories of /proc/sys.
const DIRECTORIES: [&str; 10] =
    ["abi", "crypto", "debug", "dev", "fs", "kernel", "net", "sunrpc", "user", "vm"];

/// Names in Documentation/admin-guide/sysctl/vm.rst and in mm/ and kernel/sysctl.c, Linux 2.6.32 to 6.16.
const VM: &[&str] = &[
    "admin_reserve_kbytes",
    "block_dump",
    "compact_memory",
    "compact_unevictable_allowed",
    "compaction_proactiveness",
    "defrag_mode",
    "dirty_background_bytes",
    "dirty_background_ratio",
    "dirty_bytes",
    "dirty_expire_centisecs",
    "dirty_ratio",
    "dirty_writeback_centisecs",
    "dirtytime_expire_seconds",
    "drop_caches",
    "enable_soft_offline",
    "extfrag_threshold",
    "highmem_is_dirtyable",
    "hugepages_treat_as_movable",
    "hugetlb_optimize_vmemmap",
    "hugetlb_shm_group",
    "laptop_mode",
    "legacy_va_layout",
    "lowmem_reserve_ratio",
    "max_map_count",
    "mem_profiling",
    "memfd_noexec",
    "memory_failure_early_kill",
    "memory_failure_recovery",
    "min_free_kbytes",
    "min_slab_ratio",
    "min_unmapped_ratio",
    "mmap_min_addr",
    "mmap_rnd_bits",
    "mmap_rnd_compat_bits",
    "movable_gigantic_pages",
    "nr_hugepages",
    "nr_hugepages_mempolicy",
    "nr_overcommit_hugepages",
    "nr_pdflush_threads",
    "nr_trim_pages",
    "numa_stat",
    "numa_zonelist_order",
    "oom_dump_tasks",
    "oom_kill_allocating_task",
    "overcommit_kbytes",
    "overcommit_memory",
    "overcommit_ratio",
    "page-cluster",
    "page_lock_unfairness",
    "panic_on_oom",
    "percpu_pagelist_fraction",
    "percpu_pagelist_high_fraction",
    "scan_unevictable_pages",
    "stat_interval",
    "stat_refresh",
    "swap_token_timeout",
    "swappiness",
    "unprivileged_userfaultfd",
    "user_reserve_kbytes",
    "vdso_enabled",
    "vfs_cache_pressure",
    "vfs_cache_pressure_denom",
    "watermark_boost_factor",
    "watermark_scale_factor",
    "zone_reclaim_mode",
];

/// Refuses settings (`KEY=VALUE`) that no kernel has. The guest's kernel, possibly a user's
/// own, reports any other setting that it lacks.
///
/// # Errors
/// The unknown name, with the nearest known one.
pub fn check<'a>(settings: impl IntoIterator<Item = &'a str>) -> Result<(), MatrixError> {
    for setting in settings {
        // A malformed setting is refused elsewhere, with the correct form.
        let Some((key, _)) = setting.split_once('=') else { continue };
        let Some((directory, name)) = key.trim().split_once('.') else { continue };
        let is_in_this_kernel = || Path::new("/proc/sys/vm").join(name).exists();
        let hint = match directory {
            "vm" if VM.contains(&name) || is_in_this_kernel() => continue,
            "vm" => hint(name, VM.iter().copied()),
            other if DIRECTORIES.contains(&other) => continue,
            other => hint(other, DIRECTORIES),
        };
        return Err(MatrixError::Wrong(format!("no kernel has a sysctl '{key}'; {hint}")));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sysctl_that_no_kernel_has_is_refused_with_the_nearest_known_one() {
        let refusal = |key| check([key]).unwrap_err().to_string();
        assert!(refusal("vm.dirty_rato=5").contains("did you mean 'dirty_ratio'?"));
        assert!(refusal("vn.dirty_ratio=5").contains("did you mean 'vm'?"));
        assert!(refusal("vm.foo=1").contains("no kernel has a sysctl 'vm.foo'"));
    }

    #[test]
    fn sysctls_of_this_kernel_and_of_modules_are_accepted() {
        let entries = std::fs::read_dir("/proc/sys/vm").unwrap().flatten();
        let names: Vec<String> =
            entries.map(|entry| format!("vm.{}=1", entry.file_name().to_string_lossy())).collect();
        assert!(names.len() > 20);
        check(names.iter().map(String::as_str)).unwrap();
        check(["fs.xfs.xfssyncd_centisecs=1", "kernel.sched_latency_ns=1"]).unwrap();
    }
}
