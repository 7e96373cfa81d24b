//! Maps addresses to functions of the kernel and its modules, and to the layer of each.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use super::kallsyms::Symbol;
use super::module::Module;
use super::place::{self, Calls};

/// The addresses of a kernel's code, in ascending order, that the second pass of a trial needs before it starts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EntryPoints {
    /// Starts of functions, followed by the end of the code.
    pub functions: Vec<u64>,
    /// Entry points of system calls and faults.
    pub entries: Vec<u64>,
    /// Entry points of interrupts.
    pub interrupts: Vec<u64>,
    /// The code that switches stacks.
    pub switch: Range<u64>,
    /// Entry point of a new task.
    pub fork: u64,
}

/// Distance between interrupt stubs, in bytes.
const STUB: u64 = 8;
const MAX_STUBS: usize = 512;

/// Finds the entry points of a kernel by the symbol names of the x86-64 entry code of Linux 5.8 and later.
pub fn entry_points(symbols: &[Symbol]) -> Option<EntryPoints> {
    let address_of =
        |name: &str| symbols.iter().find(|symbol| symbol.name == name).map(|symbol| symbol.address);
    let after =
        |address: u64| symbols.iter().map(|symbol| symbol.address).find(|next| *next > address);
    let functions = functions(symbols);
    let mut functions: Vec<u64> = functions.into_keys().collect();
    functions.push(address_of("_einittext").or_else(|| address_of("_etext"))?);
    functions.sort_unstable();
    functions.dedup();
    let addresses_with = |prefix: &str| -> BTreeSet<u64> {
        symbols
            .iter()
            .filter(|symbol| symbol.name.starts_with(prefix))
            .map(|symbol| symbol.address)
            .collect()
    };
    let (mut entries, mut interrupts) = (addresses_with("asm_exc_"), addresses_with("asm_sysvec_"));
    for table in ["irq_entries_start", "spurious_entries_start"] {
        let Some(start) = address_of(table) else { continue };
        let end = after(start).unwrap_or(start);
        interrupts.extend((start..end).step_by(STUB as usize).take(MAX_STUBS));
    }
    entries.insert(address_of("entry_SYSCALL_64")?);
    let switch = address_of("__switch_to_asm")?;
    let fork = address_of("ret_from_fork_asm").or_else(|| address_of("ret_from_fork"))?;
    let switch = switch..after(switch)?;
    let [entries, interrupts] = [entries, interrupts].map(|set| set.into_iter().collect());
    Some(EntryPoints { functions, entries, interrupts, switch, fork })
}

/// Returns the kernel's functions by address. If a function has several names, one without a leading underscore and
/// without dots is preferred, then the shortest.
fn functions(symbols: &[Symbol]) -> BTreeMap<u64, String> {
    let text_start =
        symbols.iter().find(|symbol| symbol.name == "_stext").map_or(0, |symbol| symbol.address);
    let mut functions: BTreeMap<u64, String> = BTreeMap::new();
    for symbol in symbols {
        if !matches!(symbol.kind, 't' | 'T' | 'w' | 'W') || symbol.address < text_start {
            continue;
        }
        let unfamiliarity = |name: &str| (name.starts_with('_'), name.contains('.'), name.len());
        let name = functions.entry(symbol.address).or_insert_with(|| symbol.name.clone());
        if unfamiliarity(&symbol.name) < unfamiliarity(name) {
            name.clone_from(&symbol.name);
        }
    }
    functions
}

/// The name and layer of a function.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Function {
    /// Its symbol in the kernel.
    pub name: String,
    /// Its module, or the kernel layer derived from its name.
    pub layer: String,
}

/// The names of a guest's functions by address.
#[derive(Clone, Debug, Default)]
pub struct Names {
    functions: BTreeMap<u64, Function>,
    /// Modules whose address is unknown.
    pub unlocated: Vec<String>,
    end: u64,
}

impl Names {
    /// Builds the table of names; the observed calls may include calls into the kernel proper.
    pub fn new(symbols: &[Symbol], modules: &[Module], mut calls: Calls) -> Names {
        let kernel = functions(symbols);
        let end =
            entry_points(symbols).and_then(|points| points.functions.last().copied()).unwrap_or(0);
        let mut functions: BTreeMap<u64, Function> = kernel
            .into_iter()
            .map(|(position, name)| (position, Function { layer: layer(&name).to_string(), name }))
            .collect();
        calls.all.retain(|position| *position >= end);
        let addresses = place::locate_modules(modules, &calls);
        let mut unlocated = Vec::new();
        for (index, module) in modules.iter().enumerate() {
            let Some(address) = addresses.get(&index) else {
                unlocated.push(module.name.clone());
                continue;
            };
            for (offset, name) in &module.functions {
                let function = Function { name: name.clone(), layer: module.name.clone() };
                functions.insert(address + offset, function);
            }
            let end_marker = Function { name: "?".into(), layer: "module".into() };
            functions.entry(address + module.size).or_insert(end_marker);
        }
        Names { functions, unlocated, end }
    }

    /// Returns the function at an address; an address outside all known code has no name.
    pub fn function_at(&self, address: u64) -> Function {
        let unknown = || Function { name: "?".into(), layer: "module".into() };
        match self.functions.range(..=address).next_back() {
            // The kernel's last function does not extend past its code.
            Some((start, _)) if address >= self.end && *start <= self.end => unknown(),
            Some((_, function)) => function.clone(),
            None => unknown(),
        }
    }
}

/// Layers of the kernel proper, each with prefixes of its functions' names. The first match wins.
const LAYERS: &[(&str, &str)] = &[
    (
        "entry",
        "entry_ asm_ do_syscall syscall_ exit_to_user irqentry irq_entries common_interrupt \
         error_entry ret_from __x64_sys swapgs restore_regs",
    ),
    (
        "scheduler",
        "schedule __schedule sched try_to_wake ttwu wake_ __wake autoremove enqueue_ dequeue_ \
         pick_ put_prev set_next update_curr update_load update_rq finish_task __switch switch_ \
         prepare_to finish_wait io_sched hrtimer __hrtimer timer __mod_timer mod_timer ktime \
         do_nanosleep check_preempt resched kthread worker queue_work __queue_work process_one \
         tick_ do_idle cpu_idle default_idle native_safe read_tsc native_sched account_ cpuacct \
         psi_ select_task place_entity delayed_work run_timer call_timer clockevents bit_wait \
         out_of_line wait_on __wait insert_work wq_ move_linked set_work get_work pwq_ put_pwq",
    ),
    (
        "locks",
        "_raw_ mutex __mutex down_ up_ rwsem rcu_ __rcu queued_ native_queued osq_ percpu_ \
         __percpu lockref call_rcu note_gp srcu __srcu call_srcu",
    ),
    (
        "block",
        "blk_ __blk bio_ __bio submit_bio elv_ dd_ bfq_ sbitmap __sbitmap blkdev bdev part_ \
         block_ __submit_b end_bio __bread bh_ end_buffer update_io_ticks rq_ ioc_",
    ),
    (
        "memory",
        "kmem __kmem kmalloc __kmalloc kfree kvfree slab __slab ___slab alloc_ __alloc free_ \
         __free get_page rmqueue mm_ lru_ page_ __page folio __folio pagevec __pagevec \
         release_pages xas_ xa_ __xa filemap __filemap find_get radix mem __mem clear_page \
         copy_ _copy vma handle_mm __handle_mm exc_page get_obj put_cpu cache_ shrink truncate \
         unlock_page mark_page workingset prep_ zone_ pcpu mod_node mod_zone __mod_ node_dirty \
         balance_dirty account_page generic_perform refill_ new_slab setup_object iov_iter \
         fault_in rep_ pagecache",
    ),
    (
        "files",
        "vfs_ __vfs do_filp path_ link_path walk_ lookup __lookup d_ __d_ dput dget dentry \
         __dentry inode __inode iget iput igrab evict notify fsnotify __fsnotify may_ generic_ \
         __generic filename getname putname do_unlink do_mkdir do_rmdir do_rename do_sys \
         do_open do_dentry file_ __file fput ____fput __fput fget __fget fdget close_fd filp_ \
         new_inode step_into try_to_unlazy legitimize complete_walk terminate_walk set_root nd_ \
         build_open open_ ksys_ new_sync mnt_ __mnt touch_atime current_time attr_ setattr \
         notify_change wb_ writeback __writeback do_writepages __mark_inode mark_buffer \
         __brelse __find_get_block __getblk sync_ __sync drop_ security_ cap_ alloc_file \
         strncpy_from hash_ full_name __legitimize sget super_ write_begin create_empty \
         try_to_free_buffers invalidate mpage iomap iterate_dir filldir __do_sys cp_ user_path \
         touch locks_ posix_lock task_work",
    ),
    ("sockets", "unix_ sock_ __sock skb_ __skb consume_skb __sys_send __sys_recv"),
];

fn layer(name: &str) -> &'static str {
    let matches =
        |prefixes: &str| prefixes.split_whitespace().any(|prefix| name.starts_with(prefix));
    LAYERS.iter().find(|(_, prefixes)| matches(prefixes)).map_or("kernel", |(layer, _)| layer)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn symbol(address: u64, name: &str) -> Symbol {
        Symbol { address, name: name.into(), kind: 'T' }
    }

    fn symbols() -> Vec<Symbol> {
        let rows = [
            (0x1000, "_stext"),
            (0x1000, "vfs_unlink"),
            (0x1100, "__switch_to_asm"),
            (0x1140, "ret_from_fork"),
            (0x1200, "entry_SYSCALL_64"),
            (0x1280, "asm_exc_page_fault"),
            (0x1300, "irq_entries_start"),
            (0x1320, "asm_common_interrupt"),
            (0x1400, "_etext"),
        ];
        rows.iter().map(|(address, name)| symbol(*address, name)).collect()
    }

    #[test]
    fn the_entry_points_of_a_kernel_are_found() {
        let found = entry_points(&symbols()).unwrap();
        assert_eq!(found.entries, [0x1200, 0x1280]);
        assert_eq!(found.interrupts, [0x1300, 0x1308, 0x1310, 0x1318]);
        assert_eq!((found.switch, found.fork), (0x1100..0x1140, 0x1140));
        assert_eq!(found.functions.last(), Some(&0x1400));
        assert_eq!(entry_points(&symbols()[..3]), None);
    }

    #[test]
    fn an_address_has_the_name_of_its_function() {
        let module = Module {
            name: "ext4".into(),
            functions: vec![(0, "ext4_one".into()), (0x40, "ext4_two".into())],
            size: 0x100,
            code: Vec::new(),
        };
        let calls = Calls { all: [0xa000, 0xa040].into(), ..Calls::default() };
        let names = Names::new(&symbols(), &[module], calls);
        let describe = |address| {
            let Function { name, layer } = names.function_at(address);
            format!("{name} {layer}")
        };
        assert_eq!(describe(0x1005), "vfs_unlink files");
        assert_eq!(describe(0xa044), "ext4_two ext4");
        assert_eq!(
            (describe(0xa100), describe(0x5000), describe(0x10)),
            ("? module".into(), "? module".into(), "? module".into())
        );
    }
}
