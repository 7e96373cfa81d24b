// The memory that the recorder shares with the programs it records. build.rs makes constants of Rust of these lines.

// Addresses in the recorded program. Nothing else is mapped there: between the heap and the libraries.
#define CODE 0x2fd000000000
#define CODE_LENGTH 0x10000
#define SHARED 0x2fd010000000
#define SHARED_LENGTH 0xa000000

// In the code: the only address whose calls the filter allows, calls that it stops, the entry, and the recorded numbers.
#define GATE 0
#define STOPPING 16
#define ENTRY 32
#define SHAPES 256
// u64 of each program: where its clock_gettime is that makes no call (vDSO), or 0.
#define CLOCK 240

// In the shared memory.
#define SEQUENCE 0
#define OFF 64
#define PUBLISHED 128
// Rises with each change of what paths of directories mean.
#define EPOCH 192
// Rises with each new name that may be one of a directory.
#define MADE_EPOCH 200
// u32: directories are looked up each time.
#define ALWAYS 256
// u32: the register gs holds the ring of each thread.
#define BY_REGISTER 260
// u16 by thread: its ring, or 0.
#define RING_OF 0x10000
#define THREADS 0x400000
// u64 by hash: the nodes that the recorder knows, with flags.
#define NODES 0x1000000
#define NODES_COUNT 0x100000
#define NODE_KNOWN 1
#define NODE_PARENT 2
#define NODE_LISTED 4
// A file that is no directory and has no calls to lead: its mapping as code need not stop.
#define NODE_PLAIN 2
// u8 by descriptor: 0 for one that the recorder does not know.
#define TABLES 0x1800000
#define TABLES_COUNT 1024
#define DESCRIPTORS 4096
#define DESCRIPTOR_FILE 1
#define DESCRIPTOR_OUTSIDE 2
// By hash of an absolute path: the directory that it led to a moment ago.
#define WAYS 0x1d00000
#define WAYS_COUNT 4096
#define RINGS 0x2000000
#define RINGS_COUNT 1024
#define RING_LENGTH 0x20000

// In a ring.
#define RING_HEAD 0
#define RING_TAIL 64
#define RING_BUSY 72
#define RING_TABLE 96
#define RING_WRITES 100
#define RING_THREAD 104
#define RING_PROCESS 108
// u64: CLOCK_MONOTONIC and the thread's CPU time at the last look.
#define RING_WALL 112
#define RING_CPU 120
#define RING_DATA 4096
#define RING_ROOM 0x1f000
#define EVENT_MOST 2048

// Flags of an event.
#define HAS_PLACE_0 1
#define HAS_PLACE_1 2
#define HAS_MADE 4
#define EMPTY_PATH 8
// The call only begins: its descriptor is free for others from now on.
#define IS_BEGIN 16
// What was made is the object of the descriptor, which the recorder does not know yet.
#define HAS_FOUND 32
// In the place of a length: the rest up to the end of the ring is unused.
#define SKIP 0xffffffff
