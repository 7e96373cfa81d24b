//! Assembles programs of BPF (Documentation/bpf/standardization/instruction-set.rst of Linux).

use std::collections::HashMap;
use std::os::fd::RawFd;

/// A register. R0 has results, R1 to R5 arguments; calls change these. R10 is the end of the stack.
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
    /// Kept by calls.
    R6,
    /// Kept by calls.
    R7,
    /// Kept by calls.
    R8,
    /// Kept by calls.
    R9,
    /// The end of the stack.
    R10,
}

/// A place in a program.
pub type Label = u32;

/// The number of bytes of a load or store.
#[derive(Clone, Copy, Debug)]
pub enum Size {
    /// 2 bytes.
    Half,
    /// 4 bytes.
    Word,
    /// 8 bytes.
    Long,
}

impl Size {
    fn code(self) -> u8 {
        match self {
            Size::Half => 0x08,
            Size::Word => 0x00,
            Size::Long => 0x18,
        }
    }
}

/// An operation of a register of 64 bits with a number or another register.
#[derive(Clone, Copy, Debug)]
pub enum Op {
    /// Addition.
    Add = 0x00,
    /// Subtraction.
    Sub = 0x10,
    /// Bits of both.
    And = 0x50,
    /// Shift to the left.
    Shl = 0x60,
    /// Shift to the right.
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
    /// A common bit.
    Set = 0x40,
    /// Not equal.
    Ne = 0x50,
    /// Less, with signs.
    SignedLt = 0xc0,
}

/// A program.
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

    /// A new place, which [`Asm::here`] sets.
    pub fn label(&mut self) -> Label {
        self.next += 1;
        self.next
    }

    /// Sets a place to the next instruction.
    pub fn here(&mut self, label: Label) -> &mut Asm {
        self.places.insert(label, self.code.len());
        self
    }

    /// An operation with a register.
    pub fn op(&mut self, op: Op, dst: Reg, src: Reg) -> &mut Asm {
        self.push(0x0f | op as u8, dst, src as u8, 0, 0)
    }

    /// An operation with a number.
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

    /// Stores a number.
    pub fn store_value(&mut self, size: Size, dst: Reg, offset: i16, value: i32) -> &mut Asm {
        self.push(0x62 | size.code(), dst, 0, offset, value)
    }

    /// Adds a register to a number of 64 bits in memory, in one step.
    pub fn atomic_add(&mut self, dst: Reg, offset: i16, src: Reg) -> &mut Asm {
        self.push(0xdb, dst, src as u8, offset, 0)
    }

    /// Goes on elsewhere if a register compares to a number.
    pub fn jump_if(&mut self, how: If, dst: Reg, value: i32, to: Label) -> &mut Asm {
        self.jumps.push((self.code.len(), to));
        self.push(0x05 | how as u8, dst, 0, 0, value)
    }

    /// Goes on elsewhere if a register compares to another.
    pub fn jump_if_reg(&mut self, how: If, dst: Reg, src: Reg, to: Label) -> &mut Asm {
        self.jumps.push((self.code.len(), to));
        self.push(0x0d | how as u8, dst, src as u8, 0, 0)
    }

    /// Goes on elsewhere.
    pub fn jump(&mut self, to: Label) -> &mut Asm {
        self.jumps.push((self.code.len(), to));
        self.push(0x05, Reg::R0, 0, 0, 0)
    }

    /// `dst` = a map.
    pub fn map(&mut self, dst: Reg, map: RawFd) -> &mut Asm {
        // BPF_PSEUDO_MAP_FD
        self.push(0x18, dst, 1, 0, map).push(0, Reg::R0, 0, 0, 0)
    }

    /// Calls a function of the kernel.
    pub fn call(&mut self, function: Call) -> &mut Asm {
        self.push(0x85, Reg::R0, 0, 0, function as i32)
    }

    /// Ends the program with the result 0.
    pub fn exit(&mut self) -> &mut Asm {
        self.set(Reg::R0, 0).push(0x95, Reg::R0, 0, 0, 0)
    }

    /// The instructions.
    pub fn finish(mut self) -> Vec<[u8; 8]> {
        for (at, label) in std::mem::take(&mut self.jumps) {
            let to = self.places.get(&label).copied().unwrap_or(at);
            let by = (to as i64 - at as i64 - 1) as i16;
            [self.code[at][2], self.code[at][3]] = by.to_le_bytes();
        }
        self.code
    }
}

/// Functions that the kernel gives to programs (enum bpf_func_id).
#[derive(Clone, Copy, Debug)]
pub enum Call {
    /// The value of a key; 0 if there is none.
    Lookup = 1,
    /// Sets the value of a key.
    Update = 2,
    /// Removes a key.
    Delete = 3,
    /// CLOCK_MONOTONIC.
    Time = 5,
    /// Process and thread.
    Ids = 14,
    /// struct task_struct of the current thread.
    Task = 35,
    /// Reads memory of the program.
    ReadUser = 112,
    /// Reads memory of the kernel.
    ReadKernel = 113,
    /// Reads a text of the program.
    ReadUserText = 114,
    /// Puts a record into a ring.
    RingOutput = 130,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jumps_lead_to_their_places() {
        let mut asm = Asm::default();
        let end = asm.label();
        asm.jump_if(If::Eq, Reg::R1, 5, end).mov(Reg::R6, Reg::R1).here(end).exit();
        let code = asm.finish();
        // jeq r1, 5, +1; mov r6, r1; mov r0, 0; exit
        assert_eq!(code[0], [0x15, 1, 1, 0, 5, 0, 0, 0]);
        assert_eq!(code[1], [0xbf, 0x16, 0, 0, 0, 0, 0, 0]);
        assert_eq!(code[2..], [[0xb7, 0, 0, 0, 0, 0, 0, 0], [0x95, 0, 0, 0, 0, 0, 0, 0]]);
    }
}
