//! The seccomp filter: it stops a thread at the calls of the table, and lets all other calls pass.

use std::io;

use libc::sock_filter;

use crate::shared::layout::{CODE, GATE, SHARED};
use crate::table::{CALLS, FCNTL, IOCTL};

const LOAD: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
const EQUAL: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
const AT_LEAST: u16 = (libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K) as u16;
const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;
const AND: u16 = (libc::BPF_ALU | libc::BPF_AND | libc::BPF_K) as u16;

/// Offsets in `struct seccomp_data`.
const NUMBER: u32 = 0;
const ARCH: u32 = 4;
const INSTRUCTION: u32 = 8;
const ARGS: u32 = 16;

/// The last argument of the calls by which the recorder opens and closes its memory in a program; these calls pass.
pub const OWN: u64 = 0x6673_6479_6e6f_2172;

/// Calls that change the meaning of paths, in one program or in all.
pub const MOUNTS: [i64; 5] = [
    libc::SYS_chroot,
    libc::SYS_pivot_root,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_move_mount,
];

/// AUDIT_ARCH_X86_64.
const X86_64: u32 = 0xc000_003e;

const fn step(code: u16, k: u32, jt: u8, jf: u8) -> sock_filter {
    sock_filter { code, jt, jf, k }
}

const TRACE: sock_filter = step(RETURN, libc::SECCOMP_RET_TRACE, 0, 0);
const ALLOW: sock_filter = step(RETURN, libc::SECCOMP_RET_ALLOW, 0, 0);

/// Returns the program of the filter. With `inside`, calls made by the injected code pass, because it records them
/// itself; calls that would invalidate its thread IDs or its tables of descriptors stop.
pub fn program(inside: bool) -> Vec<sock_filter> {
    let mut all = vec![
        step(LOAD, ARCH, 0, 0),
        step(EQUAL, X86_64, 1, 0),
        // Calls by 32-bit programs stop, so that they can be counted.
        TRACE,
    ];
    if inside {
        all.extend(pass_gate());
    }
    all.push(step(LOAD, NUMBER, 0, 0));
    let fcntl: Vec<u32> = FCNTL.iter().map(|command| *command as u32).collect();
    all.extend(stop_if_arg(libc::SYS_fcntl, 1, &fcntl));
    all.extend(stop_if_arg(libc::SYS_ioctl, 1, IOCTL));
    all.extend(stop_file_mappings(inside));
    if inside {
        all.extend([libc::SYS_openat, libc::SYS_close].into_iter().flat_map(pass_own));
    }
    all.extend(stop_table(inside));
    all.push(ALLOW);
    all
}

/// Lets the calls of the injected code pass, identified by the address of the next instruction.
fn pass_gate() -> [sock_filter; 5] {
    let gate = (CODE + GATE + 2) as u64;
    [
        step(LOAD, INSTRUCTION, 0, 0),
        step(EQUAL, gate as u32, 0, 3),
        step(LOAD, INSTRUCTION + 4, 0, 0),
        step(EQUAL, (gate >> 32) as u32, 0, 1),
        ALLOW,
    ]
}

/// Stops a call if the lower half of an argument is one of the values, else lets it pass.
fn stop_if_arg(number: i64, arg: u32, values: &[u32]) -> Vec<sock_filter> {
    let mut all = vec![
        step(EQUAL, number as u32, 0, values.len() as u8 + 3),
        step(LOAD, ARGS + 8 * arg, 0, 0),
    ];
    let among = |(at, value): (usize, &u32)| step(EQUAL, *value, (values.len() - at) as u8, 0);
    all.extend(values.iter().enumerate().map(among));
    all.extend([ALLOW, TRACE]);
    all
}

/// Stops mmap(2) of a file. Anonymous mappings and mappings by the recorder pass.
fn stop_file_mappings(inside: bool) -> Vec<sock_filter> {
    let mut all = vec![
        step(EQUAL, libc::SYS_mmap as u32, 0, if inside { 11 } else { 5 }),
        step(LOAD, ARGS + 8 * 3, 0, 0),
        step(AND, libc::MAP_ANONYMOUS as u32, 0, 0),
        step(EQUAL, 0, 1, 0),
        ALLOW,
    ];
    if inside {
        const { assert!(CODE >> 32 == SHARED >> 32) };
        all.extend([
            step(LOAD, ARGS + 4, 0, 0),
            step(EQUAL, (CODE >> 32) as u32, 0, 3),
            step(LOAD, ARGS, 0, 0),
            step(EQUAL, CODE as u32, 2, 0),
            step(EQUAL, SHARED as u32, 1, 0),
            TRACE,
            ALLOW,
        ]);
    } else {
        all.push(TRACE);
    }
    all
}

/// Lets a call pass if its last argument shows that it is a call of the recorder; stops calls of the program.
fn pass_own(number: i64) -> [sock_filter; 7] {
    [
        step(EQUAL, number as u32, 0, 6),
        step(LOAD, ARGS + 8 * 5, 0, 0),
        step(EQUAL, OWN as u32, 0, 3),
        step(LOAD, ARGS + 8 * 5 + 4, 0, 0),
        step(EQUAL, (OWN >> 32) as u32, 0, 1),
        ALLOW,
        TRACE,
    ]
}

/// Stops the calls of the table, as ranges of their numbers.
fn stop_table(inside: bool) -> Vec<sock_filter> {
    let special = [libc::SYS_fcntl, libc::SYS_ioctl, libc::SYS_mmap];
    let mut numbers: Vec<u32> = CALLS.iter().map(|it| it.number as u32).collect();
    numbers.push(libc::SYS_io_uring_setup as u32);
    if inside {
        numbers.extend([libc::SYS_unshare as u32, libc::SYS_setns as u32]);
        numbers.extend(MOUNTS.map(|number| number as u32));
    }
    numbers.retain(|number| !special.contains(&i64::from(*number)));
    numbers.sort_unstable();
    let range = |run: &[u32]| {
        let (first, last) = (run[0], run[run.len() - 1]);
        [step(AT_LEAST, first, 0, 2), step(AT_LEAST, last + 1, 1, 0), TRACE]
    };
    numbers.chunk_by(|a, b| a + 1 == *b).flat_map(range).collect()
}

/// Installs the filter for the calling process and its future children.
///
/// Makes only system calls, so that it may be called between fork and exec.
pub fn install(program: &[sock_filter]) -> io::Result<()> {
    let filter =
        libc::sock_fprog { len: program.len() as u16, filter: program.as_ptr().cast_mut() };
    // SAFETY: `filter` describes `program`, and the kernel copies it.
    let done = unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
            && libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const filter) == 0
    };
    if done { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::FICLONERANGE;

    fn action(number: i64, args: [u64; 6], arch: u32) -> u32 {
        let action = action_at(0, number, args, arch);
        let gate = (CODE + GATE + 2) as u64;
        let native = arch == X86_64;
        let inside = if native { libc::SECCOMP_RET_ALLOW } else { libc::SECCOMP_RET_TRACE };
        assert_eq!(action_at(gate, number, args, arch), inside);
        assert_eq!(action_at(gate + 16, number, args, arch), action);
        action
    }

    /// Interprets the filter as seccomp(2) describes.
    fn action_at(instruction: u64, number: i64, args: [u64; 6], arch: u32) -> u32 {
        let program = program(true);
        let (mut at, mut accumulator) = (0usize, 0u32);
        loop {
            let it = program[at];
            at += 1;
            match it.code {
                LOAD => {
                    accumulator = match it.k {
                        NUMBER => number as u32,
                        ARCH => arch,
                        INSTRUCTION => instruction as u32,
                        12 => (instruction >> 32) as u32,
                        other => {
                            let arg = args[((other - ARGS) / 8) as usize];
                            (arg >> (8 * ((other - ARGS) % 8))) as u32
                        }
                    }
                }
                AND => accumulator &= it.k,
                EQUAL => at += usize::from(if accumulator == it.k { it.jt } else { it.jf }),
                AT_LEAST => at += usize::from(if accumulator >= it.k { it.jt } else { it.jf }),
                RETURN => return it.k,
                _ => panic!("{}", it.code),
            }
        }
    }

    #[test]
    fn calls_of_the_table_stop_and_others_pass() {
        let (trace, allow) = (libc::SECCOMP_RET_TRACE, libc::SECCOMP_RET_ALLOW);
        for number in 0..600 {
            let expected = CALLS.iter().any(|it| it.number == number)
                || [libc::SYS_io_uring_setup, libc::SYS_unshare, libc::SYS_setns].contains(&number)
                || MOUNTS.contains(&number);
            let special = [libc::SYS_fcntl, libc::SYS_ioctl, libc::SYS_mmap];
            if !special.contains(&number) {
                let expected = if expected { trace } else { allow };
                assert_eq!(action(number, [0; 6], X86_64), expected, "{number}");
            }
        }
        assert_eq!(action(libc::SYS_getpid, [0; 6], 0x4000_0003), trace);
        let fcntl = |command: i32| action(libc::SYS_fcntl, [3, command as u64, 0, 0, 0, 0], X86_64);
        assert_eq!(fcntl(libc::F_GETFD), allow);
        FCNTL.iter().for_each(|command| assert_eq!(fcntl(*command), trace));
        let ioctl = |request: u32| action(libc::SYS_ioctl, [3, request.into(), 0, 0, 0, 0], X86_64);
        assert_eq!(ioctl(0x5401), allow);
        assert_eq!(ioctl(FICLONERANGE), trace);
        let mmap = |flags: i32| action(libc::SYS_mmap, [0, 0, 0, flags as u64, 3, 0], X86_64);
        assert_eq!(mmap(libc::MAP_PRIVATE | libc::MAP_ANONYMOUS), allow);
        assert_eq!(mmap(libc::MAP_SHARED), trace);
    }

    #[test]
    fn calls_with_which_the_recorder_maps_its_code_pass() {
        let (trace, allow) = (libc::SECCOMP_RET_TRACE, libc::SECCOMP_RET_ALLOW);
        for number in [libc::SYS_openat, libc::SYS_close] {
            assert_eq!(action(number, [0, 0, 0, 0, 0, OWN], X86_64), allow);
            assert_eq!(action(number, [0, 0, 0, 0, 0, OWN & 0xffff_ffff], X86_64), trace);
            assert_eq!(action(number, [OWN, 0, 0, 0, 0, 0], X86_64), trace);
        }
        let mmap = |at: usize| action(libc::SYS_mmap, [at as u64, 0, 0, 1, 3, 0], X86_64);
        assert_eq!(
            [CODE, SHARED, CODE + 4096, 0, 1 << 28].map(mmap),
            [allow, allow, trace, trace, trace]
        );
    }
}
