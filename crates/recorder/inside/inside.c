// The code that runs inside the recorded programs. It makes their calls on files, and puts each call with its result
// into the ring of the thread. The recorder maps it into a program and redirects the calls of the C library to it
// (src/inject.rs). A call that it cannot record with certainty stops for the recorder. It uses no library, only its
// stack and the shared memory, and only general-purpose registers.
#include "layout.h"

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long u64;

#define TEXT(it) #it
#define NUMBER(it) TEXT(it)

// Calls made at GATE do not stop; those made at STOPPING do if they are recorded. A jump that replaces a syscall
// instruction leads to ENTRY, with the number and arguments in their registers, and the return address in rcx.
__asm__(".section .head, \"ax\"\n"
        "gate: syscall\n ret\n"
        ".org " NUMBER(STOPPING) "\n"
        "stopping: syscall\n ret\n"
        ".org " NUMBER(ENTRY) "\n"
        "lea -128(%rsp), %rsp\n"
        "push %rbp\n mov %rsp, %rbp\n"
        "push %rcx\n push %r9\n push %r8\n push %r10\n push %rdx\n push %rsi\n push %rdi\n push %rax\n"
        "mov %rsp, %rdi\n and $-16, %rsp\n cld\n call handle\n"
        "mov -56(%rbp), %rdi\n mov -48(%rbp), %rsi\n mov -40(%rbp), %rdx\n mov -32(%rbp), %r10\n"
        "mov -24(%rbp), %r8\n mov -16(%rbp), %r9\n mov -8(%rbp), %rcx\n"
        "mov %rbp, %rsp\n pop %rbp\n lea 128(%rsp), %rsp\n jmp *%rcx\n"
        ".org " NUMBER(CLOCK) "\n"
        ".quad 0\n"
        ".org " NUMBER(SHAPES) "\n"
        ".text\n");

struct call {
    u64 number, arg[6];
};

#define MAKE(label, it)                                                                            \
    ({                                                                                             \
        register u64 r10 __asm__("r10") = (it)->arg[3];                                            \
        register u64 r8 __asm__("r8") = (it)->arg[4];                                              \
        register u64 r9 __asm__("r9") = (it)->arg[5];                                              \
        long result;                                                                               \
        __asm__ volatile("call " label                                                             \
                         : "=a"(result)                                                            \
                         : "a"((it)->number), "D"((it)->arg[0]), "S"((it)->arg[1]), "d"((it)->arg[2]), \
                           "r"(r10), "r"(r8), "r"(r9)                                              \
                         : "rcx", "r11", "memory");                                                \
        result;                                                                                    \
    })

static long make(const struct call *it) { return MAKE("gate", it); }
static long stop(const struct call *it) { return MAKE("stopping", it); }

static long sys(u64 number, u64 a, u64 b, u64 c, u64 d, u64 e) {
    struct call it = {number, {a, b, c, d, e, 0}};
    return make(&it);
}

enum {
    READ = 0, WRITE = 1, OPEN = 2, CLOSE = 3, STAT = 4, FSTAT = 5, LSTAT = 6, LSEEK = 8, MMAP = 9, MUNMAP = 11, PREAD = 17,
    PWRITE = 18, READV = 19, WRITEV = 20, ACCESS = 21, EXECVE = 59, WAIT4 = 61, FCNTL = 72, FLOCK = 73, FSYNC = 74, FDATASYNC = 75,
    TRUNCATE = 76, FTRUNCATE = 77, CHDIR = 80, FCHDIR = 81, RENAME = 82, MKDIR = 83, RMDIR = 84, LINK = 86,
    UNLINK = 87, SYMLINK = 88, READLINK = 89, CHMOD = 90, FCHMOD = 91, CHOWN = 92, FCHOWN = 93, LCHOWN = 94, STATFS = 137,
    FSTATFS = 138, GETTID = 186, GETDENTS64 = 217, FADVISE = 221, CLOCK_GETTIME = 228, OPENAT = 257,
    MKDIRAT = 258, FCHOWNAT = 260, NEWFSTATAT = 262, UNLINKAT = 263, RENAMEAT = 264, LINKAT = 265, SYMLINKAT = 266,
    READLINKAT = 267, FCHMODAT = 268, FACCESSAT = 269, UNSHARE = 272, SYNC_FILE_RANGE = 277, UTIMENSAT = 280, FALLOCATE = 285,
    PREADV = 295, PWRITEV = 296, SYNCFS = 306, PROCESS_VM_READV = 310, RENAMEAT2 = 316, STATX = 332, FACCESSAT2 = 439,
    NUMBERS = 440,
};

enum {
    NONE, ON_DESCRIPTOR, ON_WRITE, ON_VECTOR, ON_READDIR, ON_FCNTL, ON_CLOSE, ON_MMAP, ON_MUNMAP, ON_WAIT, ON_PATH, ON_EXEC, ON_TWO
};

// The way in which a call takes its paths: the indices of the arguments for the directory (CWD: the working directory),
// for the path, and for flags (0: none) that may contain AT_SYMLINK_NOFOLLOW; then whether it follows links without
// flags, and whether it creates the name.
#define CWD 7
struct shape {
    u8 kind, dir, path, flags, follow, makes;
};

__attribute__((section(".head.shapes"), used)) static const struct shape shapes[NUMBERS] = {
    [READ] = {ON_DESCRIPTOR}, [PREAD] = {ON_DESCRIPTOR}, [WRITE] = {ON_WRITE}, [PWRITE] = {ON_WRITE},
    [READV] = {ON_VECTOR}, [WRITEV] = {ON_VECTOR}, [PREADV] = {ON_VECTOR}, [PWRITEV] = {ON_VECTOR},
    [FSTAT] = {ON_DESCRIPTOR}, [LSEEK] = {ON_DESCRIPTOR}, [FSYNC] = {ON_DESCRIPTOR}, [FDATASYNC] = {ON_DESCRIPTOR},
    [FTRUNCATE] = {ON_DESCRIPTOR}, [FLOCK] = {ON_DESCRIPTOR}, [FCHDIR] = {ON_DESCRIPTOR}, [FCHMOD] = {ON_DESCRIPTOR},
    [FCHOWN] = {ON_DESCRIPTOR}, [FSTATFS] = {ON_DESCRIPTOR}, [FADVISE] = {ON_DESCRIPTOR},
    [SYNC_FILE_RANGE] = {ON_DESCRIPTOR}, [FALLOCATE] = {ON_DESCRIPTOR}, [SYNCFS] = {ON_DESCRIPTOR},
    [GETDENTS64] = {ON_READDIR}, [FCNTL] = {ON_FCNTL}, [CLOSE] = {ON_CLOSE}, [MMAP] = {ON_MMAP}, [MUNMAP] = {ON_MUNMAP},
    [OPEN] = {ON_PATH, CWD, 0, 0, 1, 0}, [OPENAT] = {ON_PATH, 0, 1, 0, 1, 0},
    [STAT] = {ON_PATH, CWD, 0, 0, 1, 0}, [LSTAT] = {ON_PATH, CWD, 0, 0, 0, 0}, [NEWFSTATAT] = {ON_PATH, 0, 1, 3, 1, 0},
    [STATX] = {ON_PATH, 0, 1, 2, 1, 0}, [ACCESS] = {ON_PATH, CWD, 0, 0, 1, 0}, [FACCESSAT] = {ON_PATH, 0, 1, 0, 1, 0},
    [FACCESSAT2] = {ON_PATH, 0, 1, 0, 1, 0}, [READLINK] = {ON_PATH, CWD, 0, 0, 0, 0},
    [READLINKAT] = {ON_PATH, 0, 1, 0, 0, 0}, [MKDIR] = {ON_PATH, CWD, 0, 0, 0, 1}, [MKDIRAT] = {ON_PATH, 0, 1, 0, 0, 1},
    [RMDIR] = {ON_PATH, CWD, 0, 0, 0, 0}, [UNLINK] = {ON_PATH, CWD, 0, 0, 0, 0}, [UNLINKAT] = {ON_PATH, 0, 1, 0, 0, 0},
    [SYMLINK] = {ON_PATH, CWD, 1, 0, 0, 1}, [SYMLINKAT] = {ON_PATH, 1, 2, 0, 0, 1},
    [CHMOD] = {ON_PATH, CWD, 0, 0, 1, 0}, [FCHMODAT] = {ON_PATH, 0, 1, 0, 1, 0}, [CHOWN] = {ON_PATH, CWD, 0, 0, 1, 0},
    [LCHOWN] = {ON_PATH, CWD, 0, 0, 0, 0}, [FCHOWNAT] = {ON_PATH, 0, 1, 4, 1, 0}, [UTIMENSAT] = {ON_PATH, 0, 1, 3, 1, 0},
    [TRUNCATE] = {ON_PATH, CWD, 0, 0, 1, 0}, [CHDIR] = {ON_PATH, CWD, 0, 0, 1, 0}, [STATFS] = {ON_PATH, CWD, 0, 0, 1, 0},
    [EXECVE] = {ON_EXEC, CWD, 0, 0, 1, 0}, [WAIT4] = {ON_WAIT},
    [RENAME] = {ON_TWO, CWD, 0, 0, 0, 0}, [RENAMEAT] = {ON_TWO, 0, 1, 0, 0, 0}, [RENAMEAT2] = {ON_TWO, 0, 1, 0, 0, 0},
    [LINK] = {ON_TWO, CWD, 0, 0, 0, 0}, [LINKAT] = {ON_TWO, 0, 1, 0, 0, 0},
};

// struct stat as the kernel defines it.
struct stat {
    u64 dev, ino, nlink;
    u32 mode, uid, gid, pad;
    u64 rdev;
    long size, blksize, blocks, times[9];
};

struct info {
    u64 dev, ino, rdev, size, blocks;
    u32 mode, nlink;
};

struct place {
    u64 path, dev, ino;
    // The length is 0 if the path does not end in a name.
    u8 exists, base, walked, length, beyond, links, pad[2];
    struct info node;
    char name[256];
};

struct event {
    u32 length, flags;
    u64 begin, end, wall_begin, wall_end, cpu_begin, cpu_end, number, arg[6];
    long result;
    u64 more[4];
    // The flags determine which of these follow; each has only its actual length.
    struct info made;
    struct place place[2];
};

#define AT(offset) ((char *)SHARED + (offset))
#define FIELD(type, base, offset) ((volatile type *)((base) + (offset)))
#define BARRIER() __asm__ volatile("" ::: "memory")

#define S_IFMT 0170000
#define S_IFDIR 0040000
#define S_IFREG 0100000
#define S_IFLNK 0120000
#define S_IFIFO 0010000
#define S_IFSOCK 0140000
#define O_CREAT 0100
#define O_EXCL 0200
#define O_NOFOLLOW 0400000
#define O_TMPFILE 020000000
#define AT_SYMLINK_NOFOLLOW 0x100
#define AT_SYMLINK_FOLLOW 0x400
#define AT_EMPTY_PATH 0x1000
#define AT_FDCWD (-100)
#define ENOENT 2
#define EINVAL 22

static u64 next_sequence(void) { return __atomic_fetch_add((u64 *)AT(SEQUENCE), 1, __ATOMIC_SEQ_CST) + 1; }

#define WALL 1
#define CPU 3

#define the_clock (*(long (*volatile *)(u64 which, u64 *time))(CODE + CLOCK))

static u64 clock(u64 which) {
    u64 time[2] = {0, 0};
    if (which != WALL || !the_clock || the_clock(which, time)) sys(CLOCK_GETTIME, which, (u64)time, 0, 0, 0);
    return time[0] * 1000000000 + time[1];
}

// Returns the thread's CPU time at a wall time. A thread is not descheduled and scheduled again within a few
// microseconds: if the last reading is less than SHORT ago, the CPU time has advanced by the wall time.
#define SHORT 20000
static u64 used(char *ring, u64 wall) {
    u64 since = wall - *FIELD(u64, ring, RING_WALL);
    u64 cpu = since < SHORT ? *FIELD(u64, ring, RING_CPU) + since : clock(CPU);
    *FIELD(u64, ring, RING_WALL) = wall;
    *FIELD(u64, ring, RING_CPU) = cpu;
    return cpu;
}

static void copy(char *to, const char *from, u64 length) {
    for (u64 at = 0; at < length; at++) to[at] = from[at];
}

// Reads memory of the program, whose address may be invalid. Returns 0 if it could be read.
static int fetch(char *ring, void *to, u64 from, u64 length) {
    u64 local[2] = {(u64)to, length}, remote[2] = {from, length};
    struct call it = {PROCESS_VM_READV, {*FIELD(u32, ring, RING_THREAD), (u64)local, 1, (u64)remote, 1, 0}};
    return make(&it) == (long)length ? 0 : -1;
}

static u64 fingerprint(u64 dev, u64 ino) {
    u64 it = ino * 0x9e3779b97f4a7c15 ^ (dev + 0x7f4a7c15) * 0xbf58476d1ce4e5b9;
    it ^= it >> 29;
    it *= 0x94d049bb133111eb;
    it ^= it >> 32;
    return (it | 8) & ~7ul;
}

// Returns the flags of a node, after adding the flags `add`. A node that finds no free slot stays unknown. Nodes with
// adjacent inode numbers have adjacent slots, so that a program touches few pages; if those are full, a hash decides.
static u64 node(u64 dev, u64 ino, u64 add) {
    u64 key = fingerprint(dev, ino), *table = (u64 *)AT(NODES);
    u64 at = ino + dev * 0x2545f4914f6cdd1d;
    for (u64 probe = 0; probe < 16; probe++, at++) {
        if (probe == 8) at = key >> 8;
        u64 *slot = &table[at % NODES_COUNT], found = __atomic_load_n(slot, __ATOMIC_ACQUIRE);
        if (found == 0 && add == 0) return 0;
        if (found == 0 && __atomic_compare_exchange_n(slot, &found, key | add, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
            return add;
        if ((found & ~7ul) == key) {
            if (add) __atomic_fetch_or(slot, add, __ATOMIC_SEQ_CST);
            return (found & 7) | add;
        }
    }
    return 0;
}

static void describe(struct info *to, const struct stat *it) {
    to->dev = it->dev;
    to->ino = it->ino;
    to->rdev = it->rdev;
    to->size = it->size;
    to->blocks = it->blocks;
    to->mode = it->mode;
    to->nlink = it->nlink;
}

static int begins(const char *text, const char *with) {
    while (*with)
        if (*text++ != *with++) return 0;
    return 1;
}

#include "paths.h"

static u64 place_length(const struct place *it) { return sizeof *it - sizeof it->name + (it->length + 7ul) / 8 * 8; }

static u64 *put(u64 *to, const void *from, u64 length) {
    for (u64 at = 0; at < length / 8; at++) to[at] = ((const u64 *)from)[at];
    return to + length / 8;
}

// Puts an event into the ring. handle() has checked that there is room; only signal handlers during the call can fill
// the ring, and then a call that stops makes the recorder empty it.
static void publish(char *ring, struct event *it) {
    u64 length = __builtin_offsetof(struct event, made);
    if (it->flags & HAS_MADE) length += sizeof it->made;
    for (int at = 0; at < 2; at++)
        if (it->flags & (HAS_PLACE_0 << at)) length += place_length(&it->place[at]);
    it->length = length;
    *FIELD(u32, ring, RING_BUSY) = 1;
    BARRIER();
    u64 tail = *FIELD(u64, ring, RING_TAIL);
    if (tail + 2 * EVENT_MAX - __atomic_load_n(FIELD(u64, ring, RING_HEAD), __ATOMIC_ACQUIRE) > RING_CAPACITY) {
        struct call empty = {UNSHARE, {0}};
        stop(&empty);
    }
    u64 at = tail % RING_CAPACITY;
    if (at + EVENT_MAX > RING_CAPACITY) {
        *FIELD(u32, ring, RING_DATA + at) = SKIP;
        tail += RING_CAPACITY - at;
        at = 0;
    }
    u64 *to = put((u64 *)(ring + RING_DATA + at), it, __builtin_offsetof(struct event, made));
    if (it->flags & HAS_MADE) to = put(to, &it->made, sizeof it->made);
    for (int which = 0; which < 2; which++)
        if (it->flags & (HAS_PLACE_0 << which)) to = put(to, &it->place[which], place_length(&it->place[which]));
    __atomic_store_n((u64 *)(ring + RING_TAIL), tail + length, __ATOMIC_RELEASE);
    __atomic_fetch_add((u64 *)AT(PUBLISHED), 1, __ATOMIC_SEQ_CST);
    *FIELD(u32, ring, RING_BUSY) = 0;
}

// Reads the arguments in memory. Returns -1 for a call that cannot be recorded here.
static int read_more(const struct call *it, const struct shape *shape, char *ring, struct event *event) {
    const u64 *arg = it->arg;
    struct stat of;
    switch (shape->kind) {
    case ON_MMAP:
        // A mapping of code (PROT_EXEC): the recorder redirects its calls, if any.
        if (!(arg[2] & 4)) return 0;
        if (sys(FSTAT, arg[4], (u64)&of, 0, 0, 0) || (of.mode & S_IFMT) != S_IFREG) return -1;
        return node(of.dev, of.ino, 0) & NODE_PLAIN ? 0 : -1;
    case ON_WRITE:
        // The recorder samples the data of every 16th write.
        return arg[2] >= 512 && (*FIELD(u32, ring, RING_WRITES))++ % 16 == 0 ? -1 : 0;
    case ON_VECTOR: {
        u64 list[32];
        if (arg[2] > 16 || fetch(ring, list, arg[1], arg[2] * 16)) return -1;
        for (u64 at = 0; at < arg[2]; at++) {
            u64 sum = event->more[0] + list[2 * at + 1];
            event->more[0] = sum < event->more[0] ? ~0ul : sum;
        }
        event->more[1] = arg[2];
        return 0;
    }
    case ON_READDIR:
        if (sys(FSTAT, arg[0], (u64)&of, 0, 0, 0)) return -1;
        return node(of.dev, of.ino, 0) & NODE_LISTED ? 0 : -1;
    case ON_FCNTL:
        // F_SETFL = 4; F_GETLK to F_SETLKW = 5 to 7, F_OFD_GETLK to F_OFD_SETLKW = 36 to 38 take a struct flock.
        if (arg[1] == 4) return 0;
        return (arg[1] >= 5 && arg[1] <= 7) || (arg[1] >= 36 && arg[1] <= 38) ? fetch(ring, event->more, arg[2], 24) : -1;
    default:
        if (it->number == UTIMENSAT && arg[2]) return fetch(ring, event->more, arg[2], 32);
        return 0;
    }
}

// True for a call without effects, which can be repeated. Such a call is made first: its result saves calls that the
// resolution of its path would otherwise need.
static int is_repeatable(const struct call *it) {
    u64 flags = it->arg[3];
    switch (it->number) {
    // With an empty buffer, the kernel does not read the path.
    case READLINK: return (int)it->arg[2] > 0;
    case READLINKAT: return (int)it->arg[3] > 0;
    case LSTAT: return 1;
    case NEWFSTATAT: return flags == AT_SYMLINK_NOFOLLOW || flags == AT_EMPTY_PATH;
    default: return 0;
    }
}

// Returns the information that the result of such a call gives about the object of its path.
static long shown_by_result(const struct call *it, long result) {
    int reads = it->number == READLINK || it->number == READLINKAT;
    if (it->number == NEWFSTATAT && it->arg[3] == AT_EMPTY_PATH) return UNKNOWN;
    if (reads && result == -EINVAL) return NO_LINK;
    if (reads && result >= 0) return UNKNOWN;
    return result;
}

// Finds the places of the paths of a call. Returns -1 for a call that must stop.
static int find_places(const struct call *it, const struct shape *shape, char *ring, const u8 *table, u64 wall,
                       int repeatable, struct event *event) {
    const u64 *arg = it->arg;
    int dir = shape->dir == CWD ? AT_FDCWD : (int)arg[shape->dir], follow = shape->follow;
    u64 path = arg[shape->path];
    if (shape->flags) follow = !(arg[shape->flags] & AT_SYMLINK_NOFOLLOW);
    if (it->number == LINKAT) follow = !!(arg[4] & AT_SYMLINK_FOLLOW);
    if (it->number == LINKAT && arg[4] & AT_EMPTY_PATH) return -1;
    if (dir != AT_FDCWD && dir >= 0 && (dir >= DESCRIPTORS || table[dir] != DESCRIPTOR_FILE)) return -1;
    if (it->number == OPEN || it->number == OPENAT) {
        u64 flags = arg[shape->path + 1];
        if ((flags & O_TMPFILE) == O_TMPFILE) return -1;
        follow = !(flags & O_NOFOLLOW) && (flags & (O_CREAT | O_EXCL)) != (O_CREAT | O_EXCL);
    }
    if (it->number == UTIMENSAT && path == 0) return dir >= 0 ? 0 : -1;
    if ((it->number == NEWFSTATAT || it->number == STATX) && arg[shape->flags] & AT_EMPTY_PATH && dir >= 0) {
        char first;
        // A successful call has read the path.
        if (repeatable && event->result == 0) first = *(const char *)path;
        else if (fetch(ring, &first, path, 1)) return -1;
        if (first == 0) {
            event->flags |= EMPTY_PATH;
            return 0;
        }
    }
    long found = repeatable ? shown_by_result(it, event->result) : UNKNOWN;
    const struct stat *known = (const struct stat *)arg[it->number == LSTAT ? 1 : 2];
    if (find(&event->place[0], ring, dir, path, follow, wall, found, known)) return -1;
    // Only exec of a missing program, which fails, is handled here.
    if (shape->kind == ON_EXEC && event->place[0].exists) return -1;
    event->flags |= HAS_PLACE_0;
    if (shape->kind != ON_TWO) return 0;
    int plain = it->number == RENAME || it->number == LINK;
    dir = plain ? AT_FDCWD : (int)arg[2];
    if (dir != AT_FDCWD && dir >= 0 && (dir >= DESCRIPTORS || table[dir] != DESCRIPTOR_FILE)) return -1;
    if (find(&event->place[1], ring, dir, plain ? arg[1] : arg[3], 0, wall, UNKNOWN, 0)) return -1;
    event->flags |= HAS_PLACE_1;
    return 0;
}

// Returns the ring of this thread, or 0. The register gs holds it in every thread whose start the recorder saw.
static char *ring_of_thread(void) {
    if (*FIELD(u32, AT(0), BY_REGISTER)) {
        u64 base;
        __asm__ volatile("rdgsbase %0" : "=r"(base));
        u64 at = base - (u64)AT(RINGS);
        return at > 0 && at < (u64)RINGS_COUNT * RING_LENGTH && at % RING_LENGTH == 0 ? (char *)base : 0;
    }
    u64 thread = sys(GETTID, 0, 0, 0, 0, 0);
    u16 number = thread < THREADS ? *FIELD(u16, AT(RING_OF), 2 * thread) : 0;
    return number ? AT(RINGS) + (u64)number * RING_LENGTH : 0;
}

// True for a descriptor of a pipe or socket, which may be from another program or from an unrecorded call. Describes it
// in the event.
static int finds_pipe(int fd, struct event *event) {
    struct stat of;
    if (sys(FSTAT, fd, (u64)&of, 0, 0, 0)) return 0;
    u32 type = of.mode & S_IFMT;
    if (type != S_IFIFO && type != S_IFSOCK) return 0;
    describe(&event->made, &of);
    event->flags = HAS_MADE | HAS_FOUND;
    return 1;
}

// True if a call may change which directory a path leads to, including by symbolic links.
static int changes_paths(const struct call *it, const struct event *event) {
    u64 number = it->number;
    if (number == CHDIR || number == FCHDIR) return 1;
    if (number != RMDIR && number != UNLINK && number != UNLINKAT && number != RENAME && number != RENAMEAT && number != RENAMEAT2)
        return 0;
    for (int at = 0; at < 2; at++) {
        const struct place *place = &event->place[at];
        if (event->flags & (HAS_PLACE_0 << at) && place->exists && (place->node.mode & S_IFMT) != S_IFREG) return 1;
    }
    return 0;
}

// Makes a call, with a sequence number and the time before and after it.
static void make_between(const struct call *it, struct event *event) {
    event->begin = next_sequence();
    event->wall_begin = clock(WALL);
    event->result = make(it);
    event->wall_end = clock(WALL);
    event->end = next_sequence();
}

__attribute__((used)) long handle(const struct call *it) {
    const struct shape *shape = it->number < NUMBERS ? &shapes[it->number] : &shapes[NUMBERS - 2];
    const u64 *arg = it->arg;
    // Anonymous mappings are not recorded, nor are other commands of fcntl(2): the filter lets them pass.
    if (shape->kind == ON_MMAP && arg[3] & 0x20) return make(it);
    if (*FIELD(u32, AT(0), OFF) || shape->kind == NONE) return stop(it);
    char *ring = ring_of_thread();
    if (!ring) return stop(it);
    u64 tail = *FIELD(u64, ring, RING_TAIL), head = __atomic_load_n(FIELD(u64, ring, RING_HEAD), __ATOMIC_ACQUIRE);
    if (*FIELD(u32, ring, RING_BUSY) || tail + 3 * EVENT_MAX - head > RING_CAPACITY) return stop(it);
    volatile u8 *table = FIELD(u8, AT(TABLES), (u64) * FIELD(u32, ring, RING_TABLE) * DESCRIPTORS);
    int fd = (int)(shape->kind == ON_MMAP ? arg[4] : arg[0]);
    struct event event;
    event.flags = 0;
    if (shape->kind < ON_MUNMAP && (fd < 0 || fd >= DESCRIPTORS || (table[fd] == 0 && !finds_pipe(fd, &event)))) return stop(it);

    u64 wall = clock(WALL);
    event.cpu_begin = used(ring, wall);
    event.more[0] = event.more[1] = event.more[2] = event.more[3] = 0;
    if (read_more(it, shape, ring, &event)) return stop(it);
    int repeatable = is_repeatable(it);
    if (repeatable) make_between(it, &event);
    if (shape->kind >= ON_PATH && find_places(it, shape, ring, (u8 *)table, wall, repeatable, &event)) return stop(it);
    event.number = it->number;
    for (int at = 0; at < 6; at++) event.arg[at] = arg[at];
    if (shape->kind == ON_CLOSE) {
        // The beginning has its own sequence number, by which the end refers to it.
        event.begin = next_sequence();
        table[fd] = 0;
        event.flags |= IS_BEGIN;
        publish(ring, &event);
        event.flags = 0;
    } else if (event.flags & HAS_FOUND) {
        table[fd] = DESCRIPTOR_OUTSIDE;
    }
    int changes = changes_paths(it, &event);
    if (changes) increment(EPOCH), increment(MADE_EPOCH);
    u64 closes = event.begin;
    if (!repeatable) make_between(it, &event);
    if (shape->kind == ON_CLOSE) event.begin = closes;
    if (changes) increment(EPOCH), increment(MADE_EPOCH);
    if (shape->makes || it->number == LINK || it->number == LINKAT) increment(MADE_EPOCH);
    // Only a wait that returned a child is recorded.
    if (shape->kind == ON_WAIT && event.result <= 0) return event.result;

    struct stat after;
    int opens = it->number == OPEN || it->number == OPENAT, made = 0;
    if (event.result >= 0) {
        // A file that existed is already described.
        if (opens && !event.place[0].exists) made = !sys(FSTAT, event.result, (u64)&after, 0, 0, 0);
        if (shape->makes) {
            int dir = shape->dir == CWD ? AT_FDCWD : (int)arg[shape->dir];
            made = !sys(NEWFSTATAT, dir, arg[shape->path], (u64)&after, AT_SYMLINK_NOFOLLOW, 0);
        }
    }
    if (made) {
        event.flags |= HAS_MADE;
        describe(&event.made, &after);
    } else if (opens && event.result >= 0 && event.place[0].exists) {
        event.flags |= HAS_MADE;
        event.made = event.place[0].node;
    }
    if (it->number == SYMLINK || it->number == SYMLINKAT) {
        // The kernel has read the target if it made the link.
        const char *target = (const char *)arg[0];
        if (event.result == 0)
            while (target[event.more[0]]) event.more[0]++;
    }
    event.cpu_end = used(ring, clock(WALL));
    publish(ring, &event);
    // A thread that sees these flags can rely on the event being in the ring.
    if (made && !event.place[0].exists)
        node(after.dev, after.ino, NODE_KNOWN | ((after.mode & S_IFMT) == S_IFDIR ? NODE_PARENT | NODE_LISTED : 0));
    if (opens && event.flags & HAS_MADE && event.result < DESCRIPTORS) {
        u32 type = event.made.mode & S_IFMT;
        table[event.result] = type == S_IFREG || type == S_IFDIR ? DESCRIPTOR_FILE : DESCRIPTOR_OUTSIDE;
    }
    return event.result;
}
