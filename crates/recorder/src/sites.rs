//! Finds the sites in a C library whose calls are redirected to the injected code (inside/inside.c), and generates the
//! stubs.
//!
//! A site is one of these ([`Form`]):
//!
//! - `mov $NUMBER,%eax; syscall`, or `mov $NUMBER,%eax; mov %rdi,%rsi; mov $VALUE,%edi; syscall` (open). A jump replaces
//!   the instruction before `syscall`; a jump of the library to `syscall` itself still makes the call, and stops.
//! - `mov 8(%rsp),%r9; syscall` in the function syscall(2), which takes the number as an argument. Its stub jumps to that
//!   `syscall` for a number that the injected code does not record.
//! - `xor %eax,%eax; syscall; cmp $-4096,%rax` (read), if no jump of the library can lead to the second or third of these
//!   instructions.

use std::collections::HashSet;

use crate::shared::INSIDE;
use crate::shared::layout::{CODE, ENTRY, SHAPES};

/// Length in bytes of a jump.
pub const JUMP: usize = 5;

/// `syscall; cmp $-4096,%rax`.
const SYSCALL_CMP: &[u8] = &[0x0f, 0x05, 0x48, 0x3d, 0x00, 0xf0, 0xff, 0xff];

/// `mov %rdi,%rsi`, and the first byte of `mov $VALUE,%edi`.
const MOVES: &[u8] = &[0x48, 0x89, 0xfe, 0xbf];

/// `mov %r9,%r8; mov 8(%rsp),%r9`: the end of the shift of the arguments in the function syscall(2).
const SHIFT: &[u8] = &[0x4d, 0x89, 0xc8, 0x4c, 0x8b, 0x4c, 0x24, 0x08];

/// A place in a library with instructions that make a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Site {
    /// The offset in the code.
    pub at: usize,
    /// The sequence of instructions.
    pub form: Form,
}

/// A sequence of instructions that makes a call, with the instruction that the jump replaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// A recorded call.
    Number([u8; JUMP]),
    /// A call whose number is known only at run time.
    Any([u8; JUMP]),
    /// `xor %eax,%eax; syscall; cmp $-4096,%rax`, of which the jump replaces the first bytes.
    Read,
}

impl Site {
    /// Returns the length in bytes of its stub, which leads from the site to the injected code and back.
    pub fn stub_length(&self) -> usize {
        if matches!(self.form, Form::Any(_)) { 72 } else { 48 }
    }
}

/// Number of entries in the table of shapes, and the length of an entry in bytes.
const NUMBERS: u32 = 440;
const SHAPE: usize = 6;

/// True for a call that the injected code can record.
fn is_handled(number: u32) -> bool {
    // The first byte of an entry is the kind, 0 for none.
    let at = SHAPES + SHAPE * number as usize;
    number < NUMBERS && INSIDE.get(at).is_some_and(|kind| *kind != 0)
}

/// Finds the sites in the executable part of a library.
pub fn find(text: &[u8]) -> Vec<Site> {
    let mut found = Vec::new();
    for at in (1..text.len().saturating_sub(12)).filter(|at| text[*at] == 0x0f) {
        if text[at + 1] != 0x05 {
            continue;
        }
        // The offset of the instruction that moves the call's number to eax.
        let number_at = match &text[at.saturating_sub(MOVES.len() + JUMP - 1)..at] {
            [moves @ .., _, _, _, _] if moves == MOVES => {
                at.saturating_sub(MOVES.len() + 2 * JUMP - 1)
            }
            _ => at.saturating_sub(JUMP),
        };
        if number_at > 0 && text[number_at] == 0xb8 {
            let number = &text[number_at + 1..number_at + JUMP];
            let number = number.try_into().map_or(u32::MAX, u32::from_le_bytes);
            // With a REX prefix, the register is not eax.
            let prefixed = (0x40..0x50).contains(&text[number_at - 1]);
            if let (Ok(before), true, false) =
                (text[at - JUMP..at].try_into(), is_handled(number), prefixed)
            {
                found.push(Site { at: at - JUMP, form: Form::Number(before) });
            }
        } else if let Some(before) = text[..at].strip_suffix(SHIFT).and(text[..at].last_chunk()) {
            found.push(Site { at: at - JUMP, form: Form::Any(*before) });
        } else if at > 2 && text[at - 2..at] == [0x31, 0xc0] && text[at..].starts_with(SYSCALL_CMP)
        {
            found.push(Site { at: at - 2, form: Form::Read });
        }
    }
    let mut inner = vec![false; text.len()];
    for at in found.iter().filter(|it| it.form == Form::Read).flat_map(|it| it.at + 1..it.at + JUMP)
    {
        inner[at] = true;
    }
    let reached = reached(text, &inner);
    found.retain(|it| {
        it.form != Form::Read || !(it.at + 1..it.at + JUMP).any(|at| reached.contains(&at))
    });
    found
}

/// Returns the offsets among `targets` to which a jump leads. Every offset may be the beginning of an instruction.
fn reached(text: &[u8], targets: &[bool]) -> HashSet<usize> {
    /// True for a byte that may begin a jump; most do not.
    const JUMPS: [bool; 256] = {
        let mut all = [false; 256];
        let mut at = 0;
        while at < 256 {
            all[at] = matches!(at, 0x0f | 0x70..=0x7f | 0xe0..=0xe3 | 0xe8 | 0xe9 | 0xeb);
            at += 1;
        }
        all
    };
    let mut reached = HashSet::new();
    let end = text.len().saturating_sub(6);
    for at in (0..end).filter(|at| JUMPS[usize::from(text[*at])]) {
        let long = |from: usize| {
            let bytes = [text[from], text[from + 1], text[from + 2], text[from + 3]];
            (from + 4).wrapping_add_signed(i32::from_le_bytes(bytes) as isize)
        };
        let target = match text[at] {
            0xe8 | 0xe9 => long(at + 1),
            0x0f if text[at + 1] & 0xf0 == 0x80 => long(at + 2),
            0x70..=0x7f | 0xeb | 0xe0..=0xe3 => {
                (at + 2).wrapping_add_signed(text[at + 1] as i8 as isize)
            }
            _ => continue,
        };
        if targets.get(target) == Some(&true) {
            reached.insert(target);
        }
    }
    reached
}

/// Returns the stub for a site in code at address `text`, and the jump to it; None if a jump does not reach that far.
pub fn stub(site: &Site, text: u64, stub: u64) -> Option<(Vec<u8>, [u8; JUMP])> {
    let jump = |from: u64, to: u64| -> Option<[u8; JUMP]> {
        let by = to.wrapping_sub(from.wrapping_add(JUMP as u64)) as i64;
        let by = i32::try_from(by).ok()?.to_le_bytes();
        Some([0xe9, by[0], by[1], by[2], by[3]])
    };
    let place = text + site.at as u64;
    // The replaced instruction, or eax = 0; then rcx = the address to continue at. A call clobbers rcx and r11.
    let mut code = match site.form {
        Form::Number(before) | Form::Any(before) => before.to_vec(),
        Form::Read => vec![0x31, 0xc0],
    };
    if matches!(site.form, Form::Any(_)) {
        // cmp $NUMBERS,%rax; jae plain; movabs $SHAPES,%r11; lea (%rax,%rax,2),%rcx; cmpb $0,(%r11,%rcx,2);
        // jne past plain
        const AFTER: u8 = 10 + 4 + 5 + 2;
        const { assert!(SHAPE == 6, "rax is multiplied by 3 and 2") };
        code.extend([0x48, 0x3d]);
        code.extend(NUMBERS.to_le_bytes());
        code.extend([0x73, AFTER, 0x49, 0xbb]);
        code.extend(((CODE + SHAPES) as u64).to_le_bytes());
        code.extend([0x48, 0x8d, 0x0c, 0x40, 0x41, 0x80, 0x3c, 0x4b, 0x00, 0x75, JUMP as u8]);
        // plain: to the call itself
        code.extend(jump(stub + code.len() as u64, place + JUMP as u64)?);
    }
    // The replaced instructions after the call, and the distance from the site to the instruction after them.
    let (tail, length) = match site.form {
        Form::Number(_) | Form::Any(_) => (&[][..], 7),
        Form::Read => (&SYSCALL_CMP[2..], 10),
    };
    let after_entry = code.len() + 10 + 10 + 3;
    code.extend([0x48, 0xb9]);
    code.extend((stub + after_entry as u64).to_le_bytes());
    code.extend([0x49, 0xbb]);
    code.extend(((CODE + ENTRY) as u64).to_le_bytes());
    code.extend([0x41, 0xff, 0xe3]);
    code.extend(tail);
    code.extend(jump(stub + code.len() as u64, place + length)?);
    debug_assert!(code.len() <= site.stub_length());
    code.resize(site.stub_length(), 0xcc);
    Some((code, jump(place, stub)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_certain_sites_are_found() {
        // mov $3,%eax; syscall. mov $257,%eax; mov %rdi,%rsi; mov $-100,%edi; syscall. The first one with a REX prefix.
        // A call that is not recorded. xor, syscall, cmp.
        let mut text = vec![0x90; 8];
        text.extend([0xb8, 3, 0, 0, 0, 0x0f, 0x05, 0x90]);
        let close = Site { at: 8, form: Form::Number([0xb8, 3, 0, 0, 0]) };
        let form = Form::Number([0xbf, 0x9c, 0xff, 0xff, 0xff]);
        let open = Site { at: text.len() + 8, form };
        text.extend([0xb8, 1, 1, 0, 0, 0x48, 0x89, 0xfe, 0xbf, 0x9c, 0xff, 0xff, 0xff, 0x0f, 0x05]);
        text.extend([0x90, 0x41, 0xb8, 3, 0, 0, 0, 0x0f, 0x05]);
        text.extend([0x90, 0xb8, 39, 0, 0, 0, 0x0f, 0x05, 0x90]);
        let read = text.len();
        text.extend([0x31, 0xc0]);
        text.extend(SYSCALL_CMP);
        text.extend([0x90; 16]);
        // syscall(2)'s function.
        let any = text.len() + SHIFT.len() - JUMP;
        text.extend(SHIFT);
        text.extend([0x0f, 0x05, 0x48, 0x3d]);
        let form = Form::Any(text[any..any + JUMP].try_into().unwrap());
        let any = Site { at: any, form };
        text.extend([0x90; 16]);
        let sites = [close, open, Site { at: read, form: Form::Read }, any];
        assert_eq!(find(&text), sites);
        // A jump to the comparison after the call rules the site out.
        let from = text.len();
        text.extend([0xeb, (read as i64 + 4 - (from as i64 + 2)) as u8]);
        text.extend([0x90; 16]);
        assert_eq!(find(&text), [close, open, any]);
    }

    #[test]
    fn a_stub_for_any_number_makes_an_unrecorded_call_at_the_site() {
        let site = Site { at: 0x100, form: Form::Any(SHIFT[3..].try_into().unwrap()) };
        let (code, jump) = stub(&site, 0x1000, 0x9000).unwrap();
        assert_eq!((code.len(), jump[0]), (site.stub_length(), 0xe9));
        let target = |at: usize| {
            let by = i32::from_le_bytes(code[at + 1..at + JUMP].try_into().unwrap());
            (0x9000 + (at + JUMP) as u64).wrapping_add_signed(i64::from(by))
        };
        // The two conditional jumps, to the jump to `syscall` and past it.
        let plain = 13 + usize::from(code[12]);
        assert_eq!((code[11], code[plain], target(plain)), (0x73, 0xe9, 0x1000 + 0x105));
        let past = plain + usize::from(code[plain - 1]);
        assert_eq!(
            (code[plain - 2], past, &code[past..past + 2]),
            (0x75, plain + JUMP, &[0x48, 0xb9][..])
        );
        let end = code.iter().rposition(|byte| *byte != 0xcc).unwrap() + 1 - JUMP;
        assert_eq!((code[end], target(end)), (0xe9, 0x1000 + 0x107));
    }
}
