use super::*;
use crate::cache::Cache;

/// Returns a file with only a .modinfo section.
fn module(info: &str) -> Vec<u8> {
    let names = b"\0.modinfo\0.shstrtab\0";
    let info = info.replace(' ', "\0").replace('_', " ");
    let mut file = vec![0; 64];
    file[..6].copy_from_slice(b"\x7fELF\x02\x01");
    let info_at = file.len() as u64;
    file.extend_from_slice(info.as_bytes());
    let names_at = file.len() as u64;
    file.extend_from_slice(names);
    let table_at = file.len() as u64;
    let sections =
        [(0u32, 0, 0), (1, info_at, info.len() as u64), (10, names_at, names.len() as u64)];
    for (name, offset, size) in sections {
        let mut header = [0; 64];
        header[..4].copy_from_slice(&name.to_le_bytes());
        header[24..32].copy_from_slice(&offset.to_le_bytes());
        header[32..40].copy_from_slice(&size.to_le_bytes());
        file.extend_from_slice(&header);
    }
    file[40..48].copy_from_slice(&table_at.to_le_bytes());
    file[58..60].copy_from_slice(&64u16.to_le_bytes());
    file[60..62].copy_from_slice(&3u16.to_le_bytes());
    file[62..64].copy_from_slice(&2u16.to_le_bytes());
    file
}

/// Creates a kernel of seven modules; in `info` a space separates strings, and `_` means a space.
fn kernel() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let files = [
        ("fs/ext4/ext4.ko", "depends=jbd2,mbcache softdep=pre:_crc32c"),
        ("fs/jbd2/jbd2.ko", "depends="),
        ("fs/mbcache.ko", "depends="),
        ("crypto/crc32c-generic.ko", "alias=crc32c alias=crypto-crc32c"),
        ("arch/x86/crypto/crc32c-intel.ko", "alias=crc32c"),
        ("drivers/crypto/crc32c-card.ko", "alias=crc32c"),
        ("drivers/block/nbd.ko", "depends= softdep=pre:_no-such-thing"),
    ];
    for (path, info) in files {
        let path = folder.path().join("kernel").join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, module(info)).unwrap();
    }
    fs::write(folder.path().join("modules.builtin"), "kernel/fs/fuse/fuse.ko\n").unwrap();
    folder
}

fn depmod(folder: &Path) {
    let dep = "kernel/fs/ext4/ext4.ko: kernel/fs/jbd2/jbd2.ko kernel/fs/mbcache.ko\n\
               kernel/fs/jbd2/jbd2.ko:\nkernel/fs/mbcache.ko:\nkernel/drivers/block/nbd.ko:\n";
    fs::write(folder.join("modules.dep"), dep).unwrap();
    fs::write(folder.join("modules.softdep"), "softdep ext4 pre: crc32c\n").unwrap();
    let alias =
        "alias crc32c crc32c_card\nalias crc32c crc32c_intel\nalias crc32c crc32c_generic\n";
    fs::write(folder.join("modules.alias"), alias).unwrap();
}

/// Resolves modules, and returns the names of the modules to load, in order.
fn names(folder: &Path, requested: &[&str]) -> Vec<String> {
    let names: Vec<String> = requested.iter().map(ToString::to_string).collect();
    let modules = Modules::open(folder, "6.1").unwrap().resolve(&names).unwrap();
    modules.into_iter().map(|module| module.name).collect()
}

#[test]
fn without_depmod_the_order_comes_from_modinfo() {
    let kernel = kernel();
    let expected = ["crc32c_generic", "crc32c_intel", "jbd2", "mbcache", "ext4", "nbd"];
    assert_eq!(names(kernel.path(), &["ext4", "nbd", "ext4"]), expected);
}

#[test]
fn with_depmod_the_order_comes_from_its_files() {
    let kernel = kernel();
    depmod(kernel.path());
    let expected = ["crc32c_generic", "crc32c_intel", "mbcache", "jbd2", "ext4", "nbd"];
    assert_eq!(names(kernel.path(), &["ext4", "nbd"]), expected);
}

#[test]
fn an_optional_module_is_loaded_if_it_exists() {
    let kernel = kernel();
    assert_eq!(
        names(kernel.path(), &["crc32c_generic?", "no_such?", "nbd"]),
        ["crc32c_generic", "nbd"]
    );
    let modules = Modules::open(kernel.path(), "6.1").unwrap();
    assert!(modules.resolve(&["no_such".to_string()]).is_err());
}

#[test]
fn an_alias_finds_every_software_implementation_and_no_hardware_driver() {
    let kernel = kernel();
    assert_eq!(names(kernel.path(), &["crc32c"]), ["crc32c_generic", "crc32c_intel"]);
}

#[test]
fn built_in_modules_are_not_loaded() {
    let kernel = kernel();
    assert!(names(kernel.path(), &["fuse"]).is_empty());
    let modules = Modules::open(kernel.path(), "6.1").unwrap();
    assert!(modules.has("fuse") && modules.has("crc32c-intel") && !modules.has("reiserfs"));
}

#[test]
fn an_unknown_module_is_an_error_that_names_the_kernel() {
    let kernel = kernel();
    let modules = Modules::open(kernel.path(), "6.13.1").unwrap();
    let error = modules.resolve(&["reiserfs".into()]).unwrap_err();
    assert!(error.to_string().contains("'reiserfs' of kernel 6.13.1"), "{error}");
    assert!(error.is_missing() && error.hint().unwrap().contains("--kernel"));
}

#[test]
fn compressed_modules_are_decompressed_for_the_guest() {
    let kernel = kernel();
    let plain = kernel.path().join("kernel/fs/mbcache.ko");
    let packed = zstd::encode_all(&fs::read(&plain).unwrap()[..], 3).unwrap();
    fs::write(plain.with_extension("ko.zst"), packed).unwrap();
    let bytes = fs::read(&plain).unwrap();
    fs::remove_file(&plain).unwrap();
    let modules = Modules::open(kernel.path(), "6.1").unwrap();
    let found = modules.resolve(&["mbcache".into()]).unwrap();
    assert_eq!(found, [Module { name: "mbcache".into(), contents: bytes }]);
}

#[test]
fn a_damaged_module_is_an_error_that_names_the_file() {
    let kernel = kernel();
    fs::write(kernel.path().join("kernel/fs/mbcache.ko"), "not a module").unwrap();
    let modules = Modules::open(kernel.path(), "6.1").unwrap();
    let error = modules.resolve(&["mbcache".into()]).unwrap_err().to_string();
    assert!(error.contains("mbcache.ko: it is not a 64-bit"), "{error}");
}

#[test]
fn a_signature_is_removed_and_an_invalid_one_is_not() {
    let signed = |length: u32| {
        let mut bytes = b"module.signature".to_vec();
        bytes.extend_from_slice(&[0; 8]);
        bytes.extend_from_slice(&length.to_be_bytes());
        bytes.extend_from_slice(b"~Module signature appended~\n");
        bytes
    };
    assert_eq!(without_signature(signed(10)), b"module");
    assert_eq!(without_signature(signed(1000)), signed(1000));
    assert_eq!(without_signature(b"module".to_vec()), b"module");
}

#[test]
fn modules_built_for_a_kernel_are_found_with_their_dependencies_whether_or_not_depmod_ran() {
    for has_depmod in [false, true] {
        let (folder, builds_parent) = (kernel(), tempfile::tempdir().unwrap());
        if has_depmod {
            depmod(folder.path());
        }
        let cache = Cache::at(&builds_parent.path().join("cache")).unwrap();
        let files =
            [("zfs.ko", "depends=spl,mbcache"), ("spl.ko", "depends=")].map(|(name, info)| {
                let file = builds_parent.path().join(name);
                fs::write(&file, module(info)).unwrap();
                file
            });
        let builds = cache.folder("builds").unwrap();
        build::store_modules(&files, &builds, ("zfs", "6.1"), "zfs-dkms 2", &cache).unwrap();
        let modules = folder.path().to_path_buf();
        let built_modules = build::modules_for("6.1", &cache);
        let kernel =
            Kernel { release: "6.1".into(), image: "image".into(), modules, built_modules };
        assert_eq!(kernel.built_here(), ["zfs"]);
        let needed = Modules::of(&kernel).unwrap().resolve(&["zfs".into()]).unwrap();
        let names: Vec<&str> = needed.iter().map(|module| module.name.as_str()).collect();
        assert_eq!(names, ["spl", "mbcache", "zfs"], "depmod: {has_depmod}");
        let modules = Modules::of(&kernel).unwrap();
        assert_eq!(modules.build_of("zfs"), Some(("zfs".into(), "zfs-dkms 2".into())));
        assert!(modules.has("ext4") && modules.build_of("ext4").is_none());
        assert_eq!(build::modules_for("6.1.1", &cache), None);
        let kernel = Kernel { built_modules: None, ..kernel };
        assert!(kernel.built_here().is_empty() && !Modules::of(&kernel).unwrap().has("zfs"));
    }
}
