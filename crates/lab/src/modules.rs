//! Kernel modules: resolves the names that a trial needs to files in load order.
//!
//! If depmod has run, its modules.dep, modules.softdep and modules.alias are read. Debian's packages lack these files;
//! in that case the .modinfo sections are read, but only those of the needed modules (reading a compressed module takes
//! 20 ms, and a kernel has 4,000 modules).

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use fsdyno_record::bounded::{self, PARTS};

use crate::build;
use crate::elf::Elf;
use crate::error::LabError;
use crate::kernel_root::Kernel;
use crate::payload;

/// The modules of one kernel: a folder such as /lib/modules/6.1.0-56-amd64.
#[derive(Debug)]
pub struct Modules {
    folder: PathBuf,
    release: String,
    files: BTreeMap<String, PathBuf>,
    built_in: BTreeSet<String>,
    depmod: Option<Depmod>,
}

/// A module for the guest.
#[derive(Debug, PartialEq, Eq)]
pub struct Module {
    /// The module's name, with underscores.
    pub name: String,
    /// The contents, unpacked.
    pub contents: Vec<u8>,
}

/// The contents of depmod's files.
#[derive(Debug, Default)]
struct Depmod {
    needs: BTreeMap<String, Needs>,
    aliases: BTreeMap<String, Vec<String>>,
}

/// The dependencies of a module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Needs {
    depends: Vec<String>,
    before: Vec<String>,
    after: Vec<String>,
}

impl Modules {
    /// Lists the modules in `folder`.
    ///
    /// # Errors
    /// [`LabError::Io`] if the folder cannot be read.
    pub fn open(folder: &Path, release: &str) -> Result<Modules, LabError> {
        let mut files = BTreeMap::new();
        walk(&folder.join("kernel"), &mut files)?;
        // Modules that were built separately (by DKMS and the like) are next to the kernel's own.
        for extra in ["updates", "extra"] {
            if folder.join(extra).is_dir() {
                walk(&folder.join(extra), &mut files)?;
            }
        }
        let built_in = read_lines(&folder.join("modules.builtin"));
        Ok(Modules {
            folder: folder.to_path_buf(),
            release: release.to_string(),
            files,
            built_in: built_in.iter().map(|line| module_name(Path::new(line))).collect(),
            depmod: Depmod::read(folder),
        })
    }

    /// Lists the modules of a kernel, plus those that were built for it on this host and that it lacks.
    ///
    /// # Errors
    /// [`LabError::Io`] if a folder cannot be read.
    pub fn of(kernel: &Kernel) -> Result<Modules, LabError> {
        let mut modules = Modules::open(&kernel.modules, &kernel.release)?;
        if let Some(built) = &kernel.built_modules {
            let mut files = BTreeMap::new();
            walk(built, &mut files)?;
            files.extend(std::mem::take(&mut modules.files));
            modules.files = files;
        }
        Ok(modules)
    }

    /// Returns the name of the build that made a module on this host, and the line that records its sources.
    pub fn build_of(&self, name: &str) -> Option<(String, String)> {
        let folder = self.files.get(&underscored(name))?.parent()?;
        let origin = build::origin(folder)?;
        Some((folder.file_name()?.to_string_lossy().into_owned(), origin))
    }

    /// Returns the modules to load for `names`, each after its dependencies. Built-in modules are skipped, and
    /// so are missing ones whose name ends in `?` and missing soft dependencies, as with modprobe.
    ///
    /// # Errors
    /// [`LabError::NoModule`] for an unknown name; an error for a damaged file.
    pub fn resolve(&self, names: &[String]) -> Result<Vec<Module>, LabError> {
        let mut resolver = Resolver { modules: self, seen: BTreeSet::new(), order: Vec::new() };
        for name in names {
            let optional = name.strip_suffix('?');
            let name = underscored(optional.unwrap_or(name));
            let found = self.lookup(&name)?;
            if found.is_empty() && optional.is_none() && !self.built_in.contains(&name) {
                return Err(self.unknown(&name));
            }
            for module in found {
                resolver.visit(&module)?;
            }
        }
        Ok(resolver.order)
    }

    /// Returns true if this kernel has the module `name`, loadable or built in.
    pub fn has(&self, name: &str) -> bool {
        let name = underscored(name);
        self.files.contains_key(&name) || self.built_in.contains(&name)
    }

    /// Returns true if [`Modules::resolve`] accepts a name from the catalog.
    pub fn accepts(&self, name: &str) -> bool {
        name.ends_with('?') || self.has(name)
    }

    fn unknown(&self, name: &str) -> LabError {
        LabError::NoModule {
            module: name.to_string(),
            release: self.release.clone(),
            folder: self.folder.clone(),
        }
    }

    /// Returns the modules for a name or an alias. There are none if it is built in or unknown.
    fn lookup(&self, name: &str) -> Result<Vec<String>, LabError> {
        if self.built_in.contains(name) {
            return Ok(Vec::new());
        }
        if self.files.contains_key(name) {
            return Ok(vec![name.to_string()]);
        }
        let mut found = match &self.depmod {
            Some(depmod) => depmod.aliases.get(name).cloned().unwrap_or_default(),
            None => self.aliased(name)?,
        };
        found.retain(|module| self.is_crypto(module));
        found.sort();
        found.dedup();
        Ok(found)
    }

    /// Returns true if a module is one of the kernel's ciphers and checksums (crc32c, xxhash64, ...), the only
    /// modules that file systems name by alias. Drivers of crypto hardware have the same aliases, but the guest
    /// has no such hardware.
    fn is_crypto(&self, module: &str) -> bool {
        self.files.get(module).is_some_and(|path| {
            let path = path.to_string_lossy();
            path.contains("/crypto/") && !path.contains("/drivers/")
        })
    }

    fn aliased(&self, alias: &str) -> Result<Vec<String>, LabError> {
        let mut found = Vec::new();
        for (name, path) in self.files.iter().filter(|(name, _)| self.is_crypto(name)) {
            let info = modinfo(&contents(path)?, path)?;
            let mut aliases = info.iter().filter(|(key, _)| key == "alias");
            if aliases.any(|(_, value)| underscored(value) == alias) {
                found.push(name.clone());
            }
        }
        Ok(found)
    }

    fn needs(&self, name: &str, path: &Path, bytes: &[u8]) -> Result<Needs, LabError> {
        // depmod knows only the modules in the kernel's own folder.
        match self.depmod.as_ref().filter(|_| path.starts_with(&self.folder)) {
            Some(depmod) => Ok(depmod.needs.get(name).cloned().unwrap_or_default()),
            None => Ok(Needs::of_modinfo(&modinfo(bytes, path)?)),
        }
    }
}

/// A depth-first traversal of module dependencies.
struct Resolver<'a> {
    modules: &'a Modules,
    seen: BTreeSet<String>,
    order: Vec<Module>,
}

impl Resolver<'_> {
    fn visit(&mut self, name: &str) -> Result<(), LabError> {
        if self.modules.built_in.contains(name) || !self.seen.insert(name.to_string()) {
            return Ok(());
        }
        let path = self.modules.files.get(name).ok_or_else(|| self.modules.unknown(name))?;
        let contents = contents(path)?;
        let needs = self.modules.needs(name, path, &contents)?;
        for soft in &needs.before {
            self.visit_soft(soft)?;
        }
        for depend in &needs.depends {
            self.visit(depend)?;
        }
        self.order.push(Module { name: name.to_string(), contents });
        for soft in &needs.after {
            self.visit_soft(soft)?;
        }
        Ok(())
    }

    fn visit_soft(&mut self, name: &str) -> Result<(), LabError> {
        self.modules.lookup(name)?.iter().try_for_each(|module| self.visit(module))
    }
}

impl Needs {
    fn of_modinfo(info: &[(String, String)]) -> Needs {
        let mut needs = Needs::default();
        for (key, value) in info {
            match key.as_str() {
                "depends" => {
                    let names = value.split(',').filter(|name| !name.is_empty());
                    needs.depends.extend(names.map(underscored));
                }
                "softdep" => needs.add_soft(value),
                _ => {}
            }
        }
        needs
    }

    /// Parses `pre: a b post: c`, the format used by both modinfo and modules.softdep.
    fn add_soft(&mut self, text: &str) {
        let mut after = false;
        for word in text.split_whitespace() {
            match word {
                "pre:" => after = false,
                "post:" => after = true,
                name if after => self.after.push(underscored(name)),
                name => self.before.push(underscored(name)),
            }
        }
    }
}

impl Depmod {
    fn read(folder: &Path) -> Option<Depmod> {
        let mut depmod = Depmod::default();
        // Each line is `path: path path`; the first dependency to load is the last one of the line.
        for line in fs::read_to_string(folder.join("modules.dep")).ok()?.lines() {
            let Some((file, needed)) = line.split_once(':') else { continue };
            let needed = needed.split_whitespace().rev();
            let depends = needed.map(|path| module_name(Path::new(path))).collect();
            let name = module_name(Path::new(file));
            depmod.needs.insert(name, Needs { depends, ..Needs::default() });
        }
        for line in read_lines(&folder.join("modules.softdep")) {
            let mut words = line.splitn(3, ' ');
            if let (Some("softdep"), Some(name), Some(rest)) =
                (words.next(), words.next(), words.next())
            {
                depmod.needs.entry(underscored(name)).or_default().add_soft(rest);
            }
        }
        for line in read_lines(&folder.join("modules.alias")) {
            let words: Vec<&str> = line.split_whitespace().collect();
            if let ["alias", alias, module] = words[..] {
                let modules = depmod.aliases.entry(underscored(alias)).or_default();
                modules.push(underscored(module));
            }
        }
        Some(depmod)
    }
}

/// Reads a module's file, decompresses it, and removes its signature.
fn contents(path: &Path) -> Result<Vec<u8>, LabError> {
    let bytes = crate::read(path)?;
    let bytes = payload::unpack_by_magic(bytes).map_err(|error| damaged(path, &error))?;
    Ok(without_signature(bytes))
}

/// Removes an appended signature (include/linux/module_signature.h: the signature, a 12-byte struct whose last
/// field is the signature's length (big-endian), and a magic string). Checking a signature takes the guest 0.2 virtual
/// seconds for ext4 and 0.5 for xfs, and distributions' kernels accept unsigned modules.
fn without_signature(mut bytes: Vec<u8>) -> Vec<u8> {
    const MARK: &[u8] = b"~Module signature appended~\n";
    const STRUCT: usize = 12;
    if let Some([.., a, b, c, d]) = bytes.strip_suffix(MARK) {
        let length = u32::from_be_bytes([*a, *b, *c, *d]) as usize;
        if let Some(end) = bytes.len().checked_sub(MARK.len() + STRUCT + length) {
            bytes.truncate(end);
        }
    }
    bytes
}

/// Returns the `key=value` strings of a module.
fn modinfo(bytes: &[u8], path: &Path) -> Result<Vec<(String, String)>, LabError> {
    let section = Elf::parse(bytes).and_then(|elf| elf.section(".modinfo"));
    let section = section.map_err(|error| damaged(path, &error))?.unwrap_or_default();
    let pairs = section.split(|byte| *byte == 0).filter_map(|text| {
        let text = String::from_utf8_lossy(text);
        text.split_once('=').map(|(key, value)| (key.to_string(), value.to_string()))
    });
    Ok(pairs.collect())
}

fn damaged(path: &Path, error: &dyn std::fmt::Display) -> LabError {
    LabError::BadFile { path: path.to_path_buf(), reason: error.to_string() }
}

/// Normalizes dashes in a module's name to underscores, as the kernel does.
fn underscored(name: &str) -> String {
    name.replace('-', "_")
}

/// Returns the name of a module's file: `ext4` for `kernel/fs/ext4/ext4.ko.xz`.
fn module_name(path: &Path) -> String {
    let file = path.file_name().unwrap_or_default().to_string_lossy();
    underscored(file.split(".ko").next().unwrap_or_default())
}

fn is_module(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    [".ko", ".ko.xz", ".ko.zst", ".ko.gz"].iter().any(|end| name.ends_with(end))
}

fn walk(folder: &Path, files: &mut BTreeMap<String, PathBuf>) -> Result<(), LabError> {
    for entry in fs::read_dir(folder).map_err(LabError::io("read", folder))? {
        let entry = entry.map_err(LabError::io("read", folder))?;
        let kind = entry.file_type().map_err(LabError::io("read", folder))?;
        let path = entry.path();
        if kind.is_dir() {
            walk(&path, files)?;
        } else if is_module(&path) {
            files.insert(module_name(&path), path);
        }
    }
    Ok(())
}

fn read_lines(path: &Path) -> Vec<String> {
    bounded::read_to_string(path, &PARTS).unwrap_or_default().lines().map(String::from).collect()
}

#[cfg(test)]
mod tests;
