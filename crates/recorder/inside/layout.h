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

// In the shared memory.
#define SEQUENCE 0
#define OFF 64
#define PUBLISHED 128
// u16 by thread: its ring, or 0.
#define RING_OF 0x10000
#define THREADS 0x400000
// u64 by hash: the nodes that the recorder knows, with flags.
#define NODES 0x1000000
#define NODES_COUNT 0x100000
#define NODE_KNOWN 1
#define NODE_PARENT 2
#define NODE_LISTED 4
// u8 by descriptor: 0 for one that the recorder does not know.
#define TABLES 0x1800000
#define TABLES_COUNT 1024
#define DESCRIPTORS 4096
#define DESCRIPTOR_FILE 1
#define DESCRIPTOR_OUTSIDE 2
#define RINGS 0x2000000
#define RINGS_COUNT 1024
#define RING_LENGTH 0x20000

// In a ring.
#define RING_HEAD 0
#define RING_TAIL 64
#define RING_BUSY 72
#define RING_TABLE 96
#define RING_WRITES 100
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
// In the place of a length: the rest up to the end of the ring is unused.
#define SKIP 0xffffffff
