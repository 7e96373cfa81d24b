//! The programs that run at the kernel's tracepoints during a recording.
//!
//! Each recorded thread has a state, in a map by thread ID. At the entry to a call the program stores the time. At the
//! end it writes the call, its arguments and the data that they point to, to the ring. The data are read at the end:
//! the kernel has read them by then, so they are in memory. Arguments to which the kernel also writes (the
//! offsets of copies, struct flock) then have their new values.

use std::io;

use super::asm::{Asm, Call, If, Label, Op, Reg, Size};
use super::btf::Btf;
use super::layout::{
    BEGINS, ENDS, FOREIGN, HEADER, LOST, MAX_SAMPLE, MAX_TEXT, MAX_VECTOR, NUMBERS, PARTS_END,
    Part, UNREAD, file, record, state,
};
use Reg::{R0, R1, R2, R3, R4, R5, R6, R7, R8, R9, R10};
use Size::{DoubleWord, Word};

/// The offset of the copies of kernel structures in the scratch buffer, after the record.
const WINDOWS: i16 = 0x7000;
const WINDOW: i16 = 0x200;

/// Length in bytes of the scratch buffer in which a program builds a record.
pub const SCRATCH: u32 = 0x7fff;

/// TS_COMPAT: the thread is in a 32-bit system call.
const COMPAT: i32 = 2;

/// Offsets of variables on the stack, from R10.
pub(super) const KEY: i16 = -4;
pub(super) const SMALL: i16 = -16;
pub(super) const SLOT: i16 = -24;
pub(super) const VALUE: i16 = -32;
pub(super) const POINTER: i16 = -40;
pub(super) const STATE: i16 = -160;

/// The descriptors of the maps.
#[derive(Clone, Copy)]
pub struct Maps {
    /// The states of the threads, by thread ID.
    pub threads: i32,
    /// The shapes of the calls, by call number.
    pub shapes: i32,
    /// The scratch buffers.
    pub scratch: i32,
    /// The ring.
    pub ring: i32,
    /// The counters.
    pub counters: i32,
}

/// The part of a kernel structure that holds certain fields.
#[derive(Clone)]
pub(super) struct Window {
    from: i32,
    length: i32,
    at: i16,
    fields: Vec<i32>,
}

impl Window {
    fn new(btf: &Btf, index: i16, structure: &str, fields: &[&str]) -> io::Result<Window> {
        let offsets: Vec<i32> =
            fields.iter().map(|it| btf.offset(structure, it)).collect::<io::Result<_>>()?;
        let from = offsets.iter().copied().min().unwrap_or(0);
        let length = offsets.iter().copied().max().unwrap_or(0) + 8 - from;
        if length > i32::from(WINDOW) {
            let text = format!("struct {structure} of this kernel is too large");
            return Err(io::Error::new(io::ErrorKind::Unsupported, text));
        }
        Ok(Window { from, length, at: WINDOWS + index * WINDOW, fields: offsets })
    }

    /// Returns the offset of a field in the scratch buffer.
    pub(super) fn field(&self, index: usize) -> i16 {
        self.at + (self.fields[index] - self.from) as i16
    }
}

/// The offsets of fields in structures of the running kernel.
pub struct Offsets {
    pub(super) pid: i32,
    pub(super) tgid: i32,
    pub(super) exit_code: i32,
    pub(super) status: i32,
    pub(super) state: i32,
    pub(super) files: i32,
    pub(super) fdt: i32,
    pub(super) table: Window,
    pub(super) file: Window,
    pub(super) inode: Window,
    pub(super) super_block: Window,
}

impl Offsets {
    /// Finds the offsets.
    ///
    /// # Errors
    /// The kernel lacks a required field, or a structure is too large.
    pub fn new(btf: &Btf) -> io::Result<Offsets> {
        let task = |field| btf.offset("task_struct", field);
        let inode = ["i_ino", "i_size", "i_sb", "i_rdev", "__i_nlink", "i_mode"];
        let inode = Window::new(btf, 2, "inode", &inode).or_else(|_| {
            Window::new(
                btf,
                2,
                "inode",
                &inode.map(|it| if it == "__i_nlink" { "i_nlink" } else { it }),
            )
        })?;
        Ok(Offsets {
            pid: task("pid")?,
            tgid: task("tgid")?,
            exit_code: task("exit_code")?,
            status: task("thread_info.status")?,
            // Renamed in Linux 5.14.
            state: task("__state").or_else(|_| task("state"))?,
            files: task("files")?,
            fdt: btf.offset("files_struct", "fdt")?,
            table: Window::new(btf, 0, "fdtable", &["max_fds", "fd", "close_on_exec"])?,
            file: Window::new(btf, 1, "file", &["f_inode", "f_pos", "f_mode", "f_flags"])?,
            inode,
            super_block: Window::new(btf, 3, "super_block", &["s_dev", "s_magic"])?,
        })
    }
}

/// The number of scratch buffers of each copy of the programs.
pub const BUFFERS: u32 = 5;

/// A generator of the programs.
///
/// Since Linux 7.0 a thread can be preempted in a program at a tracepoint; the kernel then does not run that program
/// for other threads on the processor. On such kernels several copies of each program are attached to the same
/// tracepoint: the next copy handles an event that one copy missed, and ignores an event that is already handled.
pub struct Programs<'a> {
    pub(super) maps: Maps,
    pub(super) offsets: &'a Offsets,
    pub(super) copy: u32,
}

impl Programs<'_> {
    /// Creates a generator of programs that use these maps.
    pub fn new(maps: Maps, offsets: &Offsets, copy: u32) -> Programs<'_> {
        Programs { maps, offsets, copy }
    }

    /// R0 = the value of the key at [`KEY`].
    pub(super) fn lookup(&self, asm: &mut Asm, map: i32, none: Label) {
        asm.map(R1, map).mov(R2, R10).add(R2, KEY.into()).call(Call::Lookup);
        asm.jump_if(If::Eq, R0, 0, none);
    }

    /// R6 = the context, R7 = the state of the current thread, whose number is at [`KEY`].
    pub(super) fn begin(&self, asm: &mut Asm, none: Label) {
        asm.mov(R6, R1).call(Call::Ids).store(Word, R10, KEY, R0);
        self.lookup(asm, self.maps.threads, none);
        asm.mov(R7, R0);
    }

    /// Increments a counter.
    pub(super) fn count(&self, asm: &mut Asm, counter: u32) {
        let out = asm.label();
        asm.store_value(Word, R10, KEY, counter as i32);
        self.lookup(asm, self.maps.counters, out);
        asm.set(R1, 1).atomic_add(R0, 0, R1).bind_label(out);
    }

    /// R9 = a scratch buffer with the header of a record: its kind, the thread at [`KEY`], and the records lost so far.
    pub(super) fn begin_record(&self, asm: &mut Asm, kind: i32, own: i32, none: Label) {
        asm.load(Word, R8, R10, KEY);
        asm.store_value(Word, R10, KEY, own + (self.copy * BUFFERS) as i32);
        self.lookup(asm, self.maps.scratch, none);
        asm.mov(R9, R0).store(Word, R9, record::THREAD, R8);
        asm.store_value(Word, R9, record::KIND, kind);
        asm.store_value(Word, R10, KEY, LOST as i32);
        self.lookup(asm, self.maps.counters, none);
        asm.load(DoubleWord, R1, R0, 0).store(DoubleWord, R9, record::LOST, R1);
    }

    /// Copies the record at R9 into the ring. R8 is its length.
    pub(super) fn put(&self, asm: &mut Asm) {
        /// BPF_RB_NO_WAKEUP
        const NO_WAKEUP: i32 = 1;
        let good = asm.label();
        asm.map(R1, self.maps.ring).mov(R2, R9).mov(R3, R8).op_value(Op::And, R3, 0x7fff);
        asm.set(R4, NO_WAKEUP).call(Call::RingOutput).jump_if(If::Eq, R0, 0, good);
        self.count(asm, LOST);
        asm.bind_label(good);
    }

    /// R1 = the CPU time, at the time in `now`, of the thread whose state `thread` points to.
    pub(super) fn used(asm: &mut Asm, thread: Reg, now: Reg) {
        let later = asm.label();
        asm.mov(R1, now).load(DoubleWord, R2, thread, state::SINCE);
        // If the program was preempted, the thread may have been scheduled again after `now`.
        asm.jump_if_reg(If::Ge, R1, R2, later).mov(R1, R2).bind_label(later).op(Op::Sub, R1, R2);
        asm.load(DoubleWord, R2, thread, state::USED).op(Op::Add, R1, R2);
    }

    /// R1 = the CPU time outside recorded calls at the time in `now`, at which the thread is not in a recorded call.
    pub(super) fn think(asm: &mut Asm, now: Reg) {
        Self::used(asm, R7, now);
        asm.load(DoubleWord, R2, R7, state::MARK).op(Op::Sub, R1, R2);
        asm.load(DoubleWord, R2, R7, state::THINK).op(Op::Add, R1, R2);
    }

    /// Reads the window of the kernel structure at R3 into the scratch buffer.
    pub(super) fn window(asm: &mut Asm, window: &Window, bad: Label) {
        asm.add(R3, window.from).mov(R1, R9).add(R1, window.at.into()).set(R2, window.length);
        asm.call(Call::ReadKernel).jump_if(If::Ne, R0, 0, bad);
    }

    /// Reads 8 bytes of kernel memory at R3 to an offset on the stack.
    pub(super) fn pointer(asm: &mut Asm, to: i16, bad: Label) {
        asm.mov(R1, R10).add(R1, to.into()).set(R2, 8).call(Call::ReadKernel);
        asm.jump_if(If::Ne, R0, 0, bad);
    }

    /// Copies the arguments of a call from struct pt_regs, to which the first word of the context points.
    fn args(asm: &mut Asm) {
        /// The offset of r10 in struct pt_regs, which is followed by r9, r8, ax, cx, dx, si, di.
        const FROM: i32 = 56;
        const PLACES: [i16; 6] = [56, 48, 40, 0, 16, 8];
        asm.load(DoubleWord, R3, R6, 0).add(R3, FROM);
        asm.mov(R1, R9).add(R1, WINDOWS.into()).set(R2, 64).call(Call::ReadKernel);
        for (at, place) in PLACES.into_iter().enumerate() {
            asm.load(DoubleWord, R1, R9, WINDOWS + place);
            asm.store(DoubleWord, R9, record::ARGS + 8 * at as i16, R1);
        }
    }

    /// Returns the program at sys_enter.
    pub fn enter(&self) -> Vec<[u8; 8]> {
        let mut asm = Asm::default();
        let (out, unrecorded, foreign) = (asm.label(), asm.label(), asm.label());
        let a = &mut asm;
        self.begin(a, out);
        if self.copy > 0 {
            a.load(DoubleWord, R1, R7, state::SHAPE).jump_if(If::Ne, R1, 0, out);
        }
        a.call(Call::Time).mov(R8, R0).call(Call::Task).mov(R3, R0).add(R3, self.offsets.status);
        a.mov(R1, R10).add(R1, SMALL.into()).set(R2, 4).call(Call::ReadKernel);
        a.load(Word, R1, R10, SMALL).jump_if(If::Set, R1, COMPAT, foreign);
        a.load(DoubleWord, R1, R6, 8).jump_if(If::Ge, R1, NUMBERS as i32, foreign);
        a.store(DoubleWord, R7, state::NUMBER, R1)
            .load(Word, R9, R10, KEY)
            .store(Word, R10, KEY, R1);
        self.lookup(a, self.maps.shapes, unrecorded);
        a.load(DoubleWord, R3, R0, 8).jump_if(If::Eq, R3, 0, unrecorded);
        a.store(Word, R10, KEY, R9).load(DoubleWord, R9, R0, 0);
        a.store(DoubleWord, R7, state::SHAPE, R3);
        Self::think(a, R8);
        a.store(DoubleWord, R7, state::THINK, R1);
        a.load(DoubleWord, R1, R7, state::DELAY).store(DoubleWord, R7, state::DELAY_BEFORE, R1);
        let begins = a.label();
        a.jump_if(If::Ne, R9, 0, begins);
        // The time of the call does not include that of this program.
        a.call(Call::Time).store(DoubleWord, R7, state::BEGIN, R0).exit();
        a.bind_label(begins)
            .store(DoubleWord, R7, state::BEGIN, R8)
            .store(DoubleWord, R10, SLOT, R9);
        self.begin_record(a, BEGINS, 0, out);
        a.load(DoubleWord, R1, R10, SLOT).store(DoubleWord, R9, record::SHAPE, R1);
        a.store_value(DoubleWord, R9, record::RESULT, 0);
        a.store_value(DoubleWord, R9, record::DELAY, 0);
        for (to, from) in [
            (record::BEGIN, state::BEGIN),
            (record::END, state::BEGIN),
            (record::THINK, state::THINK),
            (record::NUMBER, state::NUMBER),
        ] {
            a.load(DoubleWord, R1, R7, from).store(DoubleWord, R9, to, R1);
        }
        Self::args(a);
        self.parts(a);
        self.put(a);
        a.bind_label(out).exit();
        a.bind_label(foreign);
        a.load(DoubleWord, R1, R6, 8).jump_if(If::SignedLt, R1, 0, unrecorded);
        if self.copy == 0 {
            self.count(a, FOREIGN);
        }
        a.bind_label(unrecorded).store_value(DoubleWord, R7, state::SHAPE, 0).exit();
        asm.finish()
    }

    /// Returns the program at sys_exit.
    pub fn leave(&self) -> Vec<[u8; 8]> {
        let mut asm = Asm::default();
        let out = asm.label();
        let a = &mut asm;
        self.begin(a, out);
        a.load(DoubleWord, R1, R7, state::SHAPE).jump_if(If::Eq, R1, 0, out);
        a.call(Call::Time).store(DoubleWord, R10, VALUE, R0);
        self.begin_record(a, ENDS, 1, out);
        a.load(DoubleWord, R1, R10, VALUE).store(DoubleWord, R9, record::END, R1);
        for (to, from) in [
            (record::BEGIN, state::BEGIN),
            (record::THINK, state::THINK),
            (record::NUMBER, state::NUMBER),
            (record::SHAPE, state::SHAPE),
        ] {
            a.load(DoubleWord, R1, R7, from).store(DoubleWord, R9, to, R1);
        }
        a.load(DoubleWord, R1, R6, 8).store(DoubleWord, R9, record::RESULT, R1);
        a.load(DoubleWord, R1, R7, state::DELAY).load(DoubleWord, R2, R7, state::DELAY_BEFORE);
        a.op(Op::Sub, R1, R2).store(DoubleWord, R9, record::DELAY, R1);
        a.store_value(DoubleWord, R7, state::SHAPE, 0).store_value(DoubleWord, R7, state::EXECS, 0);
        Self::args(a);
        self.parts(a);
        self.put(a);
        a.call(Call::Time).mov(R8, R0);
        Self::used(a, R7, R8);
        a.store(DoubleWord, R7, state::MARK, R1);
        a.bind_label(out).exit();
        asm.finish()
    }

    /// Adds the parts that the shape of the call lists. R8 = the length of the record.
    fn parts(&self, asm: &mut Asm) {
        let done = asm.label();
        asm.set(R8, record::PARTS.into());
        for slot in 0..4 {
            let next = asm.label();
            asm.load(DoubleWord, R1, R9, record::SHAPE).op_value(Op::Shr, R1, 16 * slot);
            asm.op_value(Op::And, R1, if slot == 3 { 0x7fff } else { 0xffff });
            asm.jump_if(If::Eq, R1, 0, done).store(DoubleWord, R10, SLOT, R1);
            asm.op_value(Op::Shr, R1, 4).op_value(Op::And, R1, 7).op_value(Op::Shl, R1, 3);
            asm.mov(R2, R9).op(Op::Add, R2, R1).load(DoubleWord, R4, R2, record::ARGS);
            asm.load(DoubleWord, R5, R2, record::ARGS + 8).store(DoubleWord, R10, VALUE, R4);
            asm.op_value(Op::And, R8, PARTS_END).mov(R3, R9).op(Op::Add, R3, R8);
            asm.load(DoubleWord, R1, R10, SLOT).store(Word, R3, 0, R1);
            asm.store_value(Word, R3, 4, UNREAD as i32).op_value(Op::And, R1, 15);
            self.part(asm, next);
            asm.bind_label(next);
        }
        asm.bind_label(done);
    }

    /// Adds a part. R1 is its kind, R5 the argument after its own. A sample that is not due adds nothing.
    fn part(&self, asm: &mut Asm, next: Label) {
        let (bad, good, read) = (asm.label(), asm.label(), asm.label());
        let kinds =
            [Part::Text, Part::Memory, Part::Vector, Part::Sample, Part::File, Part::Closing];
        let labels = kinds.map(|kind| {
            let label = asm.label();
            asm.jump_if(If::Eq, R1, kind as i32, label);
            label
        });
        asm.jump(bad);
        let [text, memory, vector, sample, opened, closing] = labels;
        let to = |asm: &mut Asm| _ = asm.mov(R1, R9).op(Op::Add, R1, R8).add(R1, HEADER.into());
        to(asm.bind_label(text));
        asm.set(R2, MAX_TEXT).load(DoubleWord, R3, R10, VALUE).call(Call::ReadUserText);
        asm.jump_if(If::SignedLt, R0, 0, bad).jump_if(If::Gt, R0, MAX_TEXT, bad).jump(good);
        asm.bind_label(memory).load(DoubleWord, R2, R10, SLOT).op_value(Op::Shr, R2, 7);
        asm.op_value(Op::And, R2, 0x1ff).op_value(Op::Shl, R2, 3).jump(read);
        asm.bind_label(vector).jump_if(If::Gt, R5, MAX_VECTOR, bad);
        asm.mov(R2, R5).op_value(Op::Shl, R2, 4).jump(read);
        let (long, short) = (asm.label(), asm.label());
        asm.bind_label(sample).jump_if(If::Gt, R5, 511, long).jump(next);
        asm.bind_label(long).load(DoubleWord, R1, R7, state::WRITES).mov(R2, R1).add(R2, 1);
        asm.store(DoubleWord, R7, state::WRITES, R2).op_value(Op::And, R1, 15);
        asm.jump_if(If::Ne, R1, 0, next).mov(R2, R5).set(R1, MAX_SAMPLE);
        asm.jump_if_reg(If::Ge, R1, R2, short).mov(R2, R1);
        asm.bind_label(short).jump(read);
        asm.bind_label(read).store(DoubleWord, R10, POINTER, R2);
        to(asm);
        asm.load(DoubleWord, R3, R10, VALUE).call(Call::ReadUser).jump_if(If::Ne, R0, 0, bad);
        asm.load(DoubleWord, R0, R10, POINTER).jump_if(If::Gt, R0, 16 * MAX_VECTOR, bad).jump(good);
        asm.bind_label(opened);
        self.file(asm, bad);
        asm.set(R0, file::LENGTH).jump(good);
        asm.bind_label(closing);
        self.closing(asm, bad);
        asm.jump(good);
        asm.bind_label(bad).add(R8, HEADER.into()).jump(next);
        asm.bind_label(good).op_value(Op::And, R8, PARTS_END).mov(R3, R9).op(Op::Add, R3, R8);
        asm.store(Word, R3, 4, R0).add(R0, 7).op_value(Op::And, R0, PARTS_END & !7);
        asm.op(Op::Add, R8, R0).add(R8, HEADER.into());
    }
}
