//! Assembles BPF programs (Documentation/bpf/standardization/instruction-set.rst of Linux).

use std::collections::HashMap;
use std::os::fd::RawFd;

/// A register. R0 holds results, R1 to R5 hold arguments; calls clobber these. R10 is the frame pointer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reg {
    /// The result.
    R0,
    /// The first argument.
    R1,
    /// The second argument.
    R2,
    /// The third argument.
    R3,
    /// The fourth argument.
    R4,
    /// The fifth argument.
    R5,
    /// Preserved by calls.
    R6,
    /// Preserved by calls.
    R7,
    /// Preserved by calls.
    R8,
    /// Preserved by calls.
    R9,
    /// The frame pointer: the upper end of the stack.
    R10,
}

/// A label: a position in a program that jumps refer to.
pub type Label = u32;

/// The number of bytes of a load or store.
#[derive(Clone, Copy, Debug)]
pub enum Size {
    /// 2 bytes.
    Half,
    /// 4 bytes.
    Word,
    /// 8 bytes.
    DoubleWord,
}

impl Size {
    fn code(self) -> u8 {
        match self {
            Size::Half => 0x08,
            Size::Word => 0x00,
            Size::DoubleWord => 0x18,
        }
    }
}

/// An operation on a 64-bit register and an immediate or another register.
#[derive(Clone, Copy, Debug)]
pub enum Op {
    /// Addition.
    Add = 0x00,
    /// Subtraction.
    Sub = 0x10,
    /// Bitwise AND.
    And = 0x50,
    /// Left shift.
    Shl = 0x60,
    /// Right shift.
    Shr = 0x70,
    /// Copy.
    Mov = 0xb0,
}

/// The condition of a jump; comparisons are unsigned, except the last.
#[derive(Clone, Copy, Debug)]
pub enum If {
    /// Equal.
    Eq = 0x10,
    /// Greater.
    Gt = 0x20,
    /// Greater or equal.
    Ge = 0x30,
    /// A bit is set in both.
    Set = 0x40,
    /// Not equal.
    Ne = 0x50,
    /// Less, signed.
    SignedLt = 0xc0,
}

/// A program that is being assembled.
#[derive(Default)]
pub struct Asm {
    code: Vec<[u8; 8]>,
    next: Label,
    places: HashMap<Label, usize>,
    jumps: Vec<(usize, Label)>,
}

impl Asm {
    fn push(&mut self, code: u8, dst: Reg, src: u8, offset: i16, value: i32) -> &mut Asm {
        let [low, high] = offset.to_le_bytes();
        let [a, b, c, d] = value.to_le_bytes();
        self.code.push([code, dst as u8 | src << 4, low, high, a, b, c, d]);
        self
    }

    /// Returns a new label, which [`Asm::bind_label`] places.
    pub fn label(&mut self) -> Label {
        self.next += 1;
        self.next
    }

    /// Places a label at the next instruction.
    pub fn bind_label(&mut self, label: Label) -> &mut Asm {
        self.places.insert(label, self.code.len());
        self
    }

    /// Appends an operation on `dst` with another register as operand.
    pub fn op(&mut self, op: Op, dst: Reg, src: Reg) -> &mut Asm {
        self.push(0x0f | op as u8, dst, src as u8, 0, 0)
    }

    /// Appends an operation on `dst` with an immediate as operand.
    pub fn op_value(&mut self, op: Op, dst: Reg, value: i32) -> &mut Asm {
        self.push(0x07 | op as u8, dst, 0, 0, value)
    }

    /// `dst = src`
    pub fn mov(&mut self, dst: Reg, src: Reg) -> &mut Asm {
        self.op(Op::Mov, dst, src)
    }

    /// `dst = value`
    pub fn set(&mut self, dst: Reg, value: i32) -> &mut Asm {
        self.op_value(Op::Mov, dst, value)
    }

    /// `dst += value`
    pub fn add(&mut self, dst: Reg, value: i32) -> &mut Asm {
        self.op_value(Op::Add, dst, value)
    }

    /// Loads from memory.
    pub fn load(&mut self, size: Size, dst: Reg, src: Reg, offset: i16) -> &mut Asm {
        self.push(0x61 | size.code(), dst, src as u8, offset, 0)
    }

    /// Stores a register.
    pub fn store(&mut self, size: Size, dst: Reg, offset: i16, src: Reg) -> &mut Asm {
        self.push(0x63 | size.code(), dst, src as u8, offset, 0)
    }

    /// Stores an immediate.
    pub fn store_value(&mut self, size: Size, dst: Reg, offset: i16, value: i32) -> &mut Asm {
        self.push(0x62 | size.code(), dst, 0, offset, value)
    }

    /// Adds a register to a 64-bit number in memory, atomically.
    pub fn atomic_add(&mut self, dst: Reg, offset: i16, src: Reg) -> &mut Asm {
        self.push(0xdb, dst, src as u8, offset, 0)
    }

    /// Jumps if the comparison of a register with an immediate is true.
    pub fn jump_if(&mut self, how: If, dst: Reg, value: i32, to: Label) -> &mut Asm {
        self.jumps.push((self.code.len(), to));
        self.push(0x05 | how as u8, dst, 0, 0, value)
    }

    /// Jumps if the comparison of two registers is true.
    pub fn jump_if_reg(&mut self, how: If, dst: Reg, src: Reg, to: Label) -> &mut Asm {
        self.jumps.push((self.code.len(), to));
        self.push(0x0d | how as u8, dst, src as u8, 0, 0)
    }

    /// Jumps unconditionally.
    pub fn jump(&mut self, to: Label) -> &mut Asm {
        self.jumps.push((self.code.len(), to));
        self.push(0x05, Reg::R0, 0, 0, 0)
    }

    /// Sets `dst` to the map with this descriptor.
    pub fn map(&mut self, dst: Reg, map: RawFd) -> &mut Asm {
        // BPF_PSEUDO_MAP_FD
        self.push(0x18, dst, 1, 0, map).push(0, Reg::R0, 0, 0, 0)
    }

    /// Calls a helper function of the kernel.
    pub fn call(&mut self, function: Call) -> &mut Asm {
        self.push(0x85, Reg::R0, 0, 0, function as i32)
    }

    /// Ends the program with the result 0.
    pub fn exit(&mut self) -> &mut Asm {
        self.set(Reg::R0, 0).push(0x95, Reg::R0, 0, 0, 0)
    }

    /// Resolves the jumps and returns the instructions.
    pub fn finish(mut self) -> Vec<[u8; 8]> {
        for (at, label) in std::mem::take(&mut self.jumps) {
            let to = self.places.get(&label).copied().unwrap_or(at);
            let by = (to as i64 - at as i64 - 1) as i16;
            [self.code[at][2], self.code[at][3]] = by.to_le_bytes();
        }
        self.code
    }
}

/// Helper functions of the kernel (enum bpf_func_id).
#[derive(Clone, Copy, Debug)]
pub enum Call {
    /// The address of a key's value; 0 if the map does not have the key.
    Lookup = 1,
    /// Sets the value of a key.
    Update = 2,
    /// Removes a key.
    Delete = 3,
    /// CLOCK_MONOTONIC.
    Time = 5,
    /// The IDs of the current process (upper half) and thread (lower half).
    Ids = 14,
    /// The address of struct task_struct of the current thread.
    Task = 35,
    /// Reads memory of the current process.
    ReadUser = 112,
    /// Reads kernel memory.
    ReadKernel = 113,
    /// Reads a NUL-terminated string from the memory of the current process.
    ReadUserText = 114,
    /// Copies a record into a ring buffer.
    RingOutput = 130,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jumps_reach_their_labels() {
        let mut asm = Asm::default();
        let end = asm.label();
        asm.jump_if(If::Eq, Reg::R1, 5, end).mov(Reg::R6, Reg::R1).bind_label(end).exit();
        let code = asm.finish();
        // jeq r1, 5, +1; mov r6, r1; mov r0, 0; exit
        assert_eq!(code[0], [0x15, 1, 1, 0, 5, 0, 0, 0]);
        assert_eq!(code[1], [0xbf, 0x16, 0, 0, 0, 0, 0, 0]);
        assert_eq!(code[2..], [[0xb7, 0, 0, 0, 0, 0, 0, 0], [0x95, 0, 0, 0, 0, 0, 0, 0]]);
    }
}
