// The memory that the recorder shares with the programs it records. build.rs converts the defines to Rust constants.

// Addresses in the recorded program, between the heap and the libraries, where nothing else is mapped.
#define CODE 0x2fd000000000
#define CODE_LENGTH 0x10000
#define SHARED 0x2fd010000000
#define SHARED_LENGTH 0xa000000

// Offsets in the code: the only address from which the filter lets calls pass, that for calls that stop, the entry, and
// the table of shapes.
#define GATE 0
#define STOPPING 16
#define ENTRY 32
#define SHAPES 256
// u64, private to each program: the address of clock_gettime in the vDSO, or 0.
#define CLOCK 240

// Offsets in the shared memory.
#define SEQUENCE 0
#define OFF 64
#define PUBLISHED 128
// Increases with each change that may affect which directory a path leads to.
#define EPOCH 192
// Increases with each new name that may be that of a directory.
#define MADE_EPOCH 200
// u32: not 0 if directories must be looked up each time.
#define ALWAYS 256
// u32: not 0 if the register gs holds the ring of each thread.
#define BY_REGISTER 260
// u16 by thread ID: its ring, or 0.
#define RING_OF 0x10000
#define THREADS 0x400000
// u64 by hash: the nodes that the recorder knows, with flags.
#define NODES 0x1000000
#define NODES_COUNT 0x100000
#define NODE_KNOWN 1
#define NODE_PARENT 2
#define NODE_LISTED 4
// A file that is not a directory and has no calls to redirect: its mapping as code need not stop.
#define NODE_PLAIN 2
// u8 by descriptor: its kind; 0 for a descriptor that the recorder does not know.
#define TABLES 0x1800000
#define TABLES_COUNT 1024
#define DESCRIPTORS 4096
#define DESCRIPTOR_FILE 1
#define DESCRIPTOR_OUTSIDE 2
// By hash of a path: the directory to which it recently led.
#define PATH_CACHE 0x1d00000
#define PATH_CACHE_COUNT 4096
#define RINGS 0x2000000
#define RINGS_COUNT 1024
#define RING_LENGTH 0x20000

// Offsets in a ring.
#define RING_HEAD 0
#define RING_TAIL 64
#define RING_BUSY 72
#define RING_TABLE 96
#define RING_WRITES 100
#define RING_THREAD 104
#define RING_PROCESS 108
// u64: CLOCK_MONOTONIC and the thread's CPU time at the last reading.
#define RING_WALL 112
#define RING_CPU 120
#define RING_DATA 4096
#define RING_CAPACITY 0x1f000
#define EVENT_MAX 2048

// Flags of an event.
#define HAS_PLACE_0 1
#define HAS_PLACE_1 2
#define HAS_MADE 4
#define EMPTY_PATH 8
// The call only begins: from now on, its descriptor may be reused.
#define IS_BEGIN 16
// The field `made` describes the object of the descriptor, which the recorder does not know yet.
#define HAS_FOUND 32
// Instead of a length: the rest up to the end of the ring is unused.
#define SKIP 0xffffffff
