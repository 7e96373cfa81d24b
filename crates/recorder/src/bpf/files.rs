//! The parts of the programs that read a thread's open files, and the programs at the tracepoints of threads.

use super::asm::{Asm, Call, If, Label, Op, Reg, Size};
use super::layout::{EXECS, EXITS, HEADER, MAX_BITS, PARTS_END, SPAWNS, file, record, state};
use super::program::{KEY, POINTER, Programs, SLOT, SMALL, STATE, VALUE};
use Reg::{R0, R1, R2, R3, R6, R7, R8, R9, R10};
use Size::{DoubleWord, Half, Word};

impl Programs<'_> {
    /// Reads struct fdtable of the current thread.
    fn table(&self, asm: &mut Asm, bad: Label) {
        asm.call(Call::Task).mov(R3, R0).add(R3, self.offsets.files);
        Self::pointer(asm, POINTER, bad);
        asm.load(DoubleWord, R3, R10, POINTER).add(R3, self.offsets.fdt);
        Self::pointer(asm, POINTER, bad);
        asm.load(DoubleWord, R3, R10, POINTER);
        Self::window(asm, &self.offsets.table, bad);
    }

    /// Writes a description of the file whose descriptor is at [`VALUE`] to the part at R8.
    pub(super) fn file(&self, asm: &mut Asm, bad: Label) {
        let it = self.offsets;
        self.table(asm, bad);
        asm.load(Word, R2, R10, VALUE).load(Word, R1, R9, it.table.field(0));
        asm.jump_if_reg(If::Ge, R2, R1, bad).op_value(Op::Shl, R2, 3);
        asm.load(DoubleWord, R3, R9, it.table.field(1)).op(Op::Add, R3, R2);
        Self::pointer(asm, POINTER, bad);
        asm.load(DoubleWord, R3, R10, POINTER).jump_if(If::Eq, R3, 0, bad);
        Self::window(asm, &it.file, bad);
        asm.load(DoubleWord, R3, R9, it.file.field(0));
        Self::window(asm, &it.inode, bad);
        asm.load(DoubleWord, R3, R9, it.inode.field(2));
        Self::window(asm, &it.super_block, bad);
        asm.op_value(Op::And, R8, PARTS_END).mov(R3, R9).op(Op::Add, R3, R8);
        for (size, from, to) in [
            (DoubleWord, it.inode.field(0), file::INODE),
            (DoubleWord, it.inode.field(1), file::SIZE),
            (DoubleWord, it.super_block.field(1), file::MAGIC),
            (DoubleWord, it.file.field(1), file::POSITION),
            (Word, it.super_block.field(0), file::DEVICE),
            (Word, it.inode.field(3), file::RDEV),
            (Word, it.inode.field(4), file::LINKS),
            (Half, it.inode.field(5), file::MODE),
            (Word, it.file.field(2), file::FILE_MODE),
            (Word, it.file.field(3), file::FLAGS),
        ] {
            asm.load(size, R1, R9, from);
            // i_mode has 2 bytes; the load zeroes the upper ones.
            let size = if matches!(size, DoubleWord) { DoubleWord } else { Word };
            asm.store(size, R3, to + HEADER, R1);
        }
    }

    /// Writes the descriptors that exec closes to the part at R8. R0 = the number of bytes.
    pub(super) fn closing(&self, asm: &mut Asm, bad: Label) {
        let few = asm.label();
        self.table(asm, bad);
        asm.load(Word, R2, R9, self.offsets.table.field(0)).op_value(Op::Shr, R2, 3);
        asm.set(R1, MAX_BITS).jump_if_reg(If::Ge, R1, R2, few).mov(R2, R1).bind_label(few);
        asm.store(DoubleWord, R10, POINTER, R2).load(
            DoubleWord,
            R3,
            R9,
            self.offsets.table.field(2),
        );
        asm.mov(R1, R9).op(Op::Add, R1, R8).add(R1, HEADER.into()).call(Call::ReadKernel);
        asm.jump_if(If::Ne, R0, 0, bad).load(DoubleWord, R0, R10, POINTER);
        asm.jump_if(If::Gt, R0, MAX_BITS, bad);
    }

    /// Fills in the record of an event of the current thread that is not a call. R9 = the record.
    fn event(&self, asm: &mut Asm, kind: i32, own: i32, out: Label) {
        asm.call(Call::Time).store(DoubleWord, R10, SMALL, R0);
        self.begin_record(asm, kind, own, out);
        asm.load(DoubleWord, R8, R10, SMALL).store(DoubleWord, R9, record::BEGIN, R8);
        asm.store(DoubleWord, R9, record::END, R8);
        Self::think(asm, R8);
        asm.store(DoubleWord, R9, record::THINK, R1).store_value(DoubleWord, R9, record::NUMBER, 0);
        asm.store_value(DoubleWord, R9, record::SHAPE, 0).store_value(
            DoubleWord,
            R9,
            record::RESULT,
            0,
        );
        asm.store_value(DoubleWord, R9, record::DELAY, 0);
    }

    /// R1 = a field of the struct task_struct to which a word of the context points; 0 if it cannot be read.
    fn number(asm: &mut Asm, word: i16, offset: i32) {
        asm.store_value(DoubleWord, R10, POINTER, 0).load(DoubleWord, R3, R6, word).add(R3, offset);
        asm.mov(R1, R10).add(R1, POINTER.into()).set(R2, 4).call(Call::ReadKernel);
        asm.load(Word, R1, R10, POINTER);
    }

    /// Returns the program at task_newtask. Context: the task, the flags.
    pub fn spawn(&self) -> Vec<[u8; 8]> {
        let mut asm = Asm::default();
        let (out, good) = (asm.label(), asm.label());
        let a = &mut asm;
        self.begin(a, out);
        if self.copy > 0 {
            let unknown = a.label();
            Self::number(a, 0, self.offsets.pid);
            a.load(Word, R8, R10, KEY).store(Word, R10, KEY, R1);
            self.lookup(a, self.maps.threads, unknown);
            a.jump(out).bind_label(unknown).store(Word, R10, KEY, R8);
        }
        self.event(a, SPAWNS, 2, out);
        Self::number(a, 0, self.offsets.pid);
        a.store(DoubleWord, R9, record::ARGS, R1).store(Word, R10, KEY, R1);
        Self::number(a, 0, self.offsets.tgid);
        a.store(DoubleWord, R9, record::ARGS + 8, R1);
        a.load(DoubleWord, R1, R6, 8).store(DoubleWord, R9, record::ARGS + 16, R1);
        for at in 0..(state::LENGTH / 8) as i16 {
            a.store_value(DoubleWord, R10, STATE + 8 * at, 0);
        }
        a.store(DoubleWord, R10, STATE + state::SINCE, R8);
        a.map(R1, self.maps.threads).mov(R2, R10).add(R2, KEY.into());
        a.mov(R3, R10).add(R3, STATE.into()).set(Reg::R4, 0).call(Call::Update);
        a.jump_if(If::Eq, R0, 0, good);
        self.count(a, super::layout::LOST);
        a.bind_label(good).set(R8, record::PARTS.into());
        self.put(a);
        a.bind_label(out).exit();
        asm.finish()
    }

    /// Returns the program at sched_process_exec. Context: the task, its former thread ID, struct linux_binprm.
    pub fn exec(&self) -> Vec<[u8; 8]> {
        let mut asm = Asm::default();
        let (out, same) = (asm.label(), asm.label());
        let a = &mut asm;
        a.mov(R6, R1).call(Call::Ids).mov(R7, R0).op_value(Op::Shl, R7, 32);
        a.op_value(Op::Shr, R7, 32).load(DoubleWord, R1, R6, 8).store(Word, R10, KEY, R1);
        a.op_value(Op::Shl, R1, 32).op_value(Op::Shr, R1, 32);
        a.jump_if_reg(If::Eq, R1, R7, same).store(Word, R10, SLOT, R1);
        // A thread other than the first called exec: from now on, it has the ID of the first thread.
        self.lookup(a, self.maps.threads, same);
        a.store(Word, R10, KEY, R7).map(R1, self.maps.threads).mov(R2, R10).add(R2, KEY.into());
        a.mov(R3, R0).set(Reg::R4, 0).call(Call::Update);
        a.map(R1, self.maps.threads).mov(R2, R10).add(R2, SLOT.into()).call(Call::Delete);
        a.bind_label(same).mov(R1, R6);
        self.begin(a, out);
        a.load(DoubleWord, R1, R7, state::EXECS).jump_if(If::Ne, R1, 0, out);
        a.store_value(DoubleWord, R7, state::EXECS, 1);
        self.event(a, EXECS, 3, out);
        a.load(DoubleWord, R1, R6, 8)
            .store(DoubleWord, R9, record::ARGS, R1)
            .set(R8, record::PARTS.into());
        self.put(a);
        a.bind_label(out).exit();
        asm.finish()
    }

    /// Returns the program at sched_process_exit. Context: the task.
    pub fn end(&self) -> Vec<[u8; 8]> {
        let mut asm = Asm::default();
        let out = asm.label();
        let a = &mut asm;
        self.begin(a, out);
        a.load(Word, R8, R10, KEY).store(DoubleWord, R10, SLOT, R8);
        self.event(a, EXITS, 4, out);
        Self::number(a, 0, self.offsets.exit_code);
        a.store(DoubleWord, R9, record::ARGS, R1).set(R8, record::PARTS.into());
        self.put(a);
        a.load(DoubleWord, R8, R10, SLOT).store(Word, R10, KEY, R8);
        a.map(R1, self.maps.threads).mov(R2, R10).add(R2, KEY.into()).call(Call::Delete);
        a.bind_label(out).exit();
        asm.finish()
    }

    /// Returns the program at sched_switch. Context: true if the previous thread was
    /// preempted, that thread, the next thread.
    pub fn switch(&self) -> Vec<[u8; 8]> {
        let mut asm = Asm::default();
        let (next, out, ran) = (asm.label(), asm.label(), asm.label());
        let a = &mut asm;
        a.mov(R6, R1).call(Call::Time).mov(R8, R0);
        Self::number(a, 8, self.offsets.pid);
        a.jump_if(If::Eq, R1, 0, next).store(Word, R10, KEY, R1);
        self.lookup(a, self.maps.threads, next);
        a.mov(R7, R0);
        Self::used(a, R7, R8);
        a.store(DoubleWord, R7, state::USED, R1).store(DoubleWord, R7, state::SINCE, R8);
        // If the thread was preempted or is still runnable (0), it waits for a processor from now on; otherwise its
        // wait begins when it is woken.
        Self::number(a, 8, self.offsets.state);
        a.mov(R2, R1).load(DoubleWord, R1, R6, 0).op_value(Op::And, R1, 1);
        a.store(DoubleWord, R7, state::READY, R8);
        a.jump_if(If::Ne, R1, 0, next).jump_if(If::Eq, R2, 0, next);
        a.store_value(DoubleWord, R7, state::READY, 0);
        a.bind_label(next);
        Self::number(a, 16, self.offsets.pid);
        a.jump_if(If::Eq, R1, 0, out).store(Word, R10, KEY, R1);
        self.lookup(a, self.maps.threads, out);
        a.store(DoubleWord, R0, state::SINCE, R8);
        a.load(DoubleWord, R1, R0, state::READY).jump_if(If::Eq, R1, 0, ran);
        a.store_value(DoubleWord, R0, state::READY, 0).jump_if_reg(If::Ge, R1, R8, ran);
        a.op(Op::Sub, R8, R1).load(DoubleWord, R1, R0, state::DELAY).op(Op::Add, R1, R8);
        a.store(DoubleWord, R0, state::DELAY, R1).bind_label(ran).bind_label(out).exit();
        asm.finish()
    }

    /// Returns the program at sched_waking. Context: the thread that is woken.
    pub fn wake(&self) -> Vec<[u8; 8]> {
        let mut asm = Asm::default();
        let out = asm.label();
        let a = &mut asm;
        a.mov(R6, R1);
        Self::number(a, 0, self.offsets.pid);
        a.jump_if(If::Eq, R1, 0, out).store(Word, R10, KEY, R1);
        self.lookup(a, self.maps.threads, out);
        a.mov(R7, R0).call(Call::Time).store(DoubleWord, R7, state::READY, R0);
        a.bind_label(out).exit();
        asm.finish()
    }
}
