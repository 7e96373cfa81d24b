/* Counts the guest's instructions by function and chain of callers, and pauses the machine at the start of each stage
 * of a trial, so that the host can read the counts and the disks.
 *
 * It is a QEMU plugin, loaded by src/profile.rs in a second pass of a trial. QEMU calls it before each translation
 * block, a sequence of instructions without a branch. The plugin takes host time but no guest time, because the guest's
 * clock counts only the guest's own instructions.
 *
 * The instructions are counted in a call tree. Its roots are tasks, which are identified by their kernel stacks; the
 * nodes below them are functions. The last instruction of each block determines the next node: a call descends to the
 * callee, a return to the address after the call ascends to the caller, and a jump into another function replaces the
 * current one. A fault or a system call descends from the current node, and its return goes back to that node. The
 * return from an interrupt also goes back to the interrupted node, but the handler is counted below a separate node of
 * the root: the interrupted function did not call it, and a subtree below every interrupted chain of callers would
 * exhaust the space. The current task is identified by the stack from which the kernel's task switch pops registers.
 *
 * Functions of the kernel image are identified by their addresses, which the host passes. Functions of modules are
 * identified by calls to them: the host determines the modules' addresses later, from these calls and from the first
 * bytes of the called code.
 */
#define _GNU_SOURCE
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#define unlikely(x) __builtin_expect(!!(x), 0)

/* The parts of QEMU's plugin interface that are used (docs/devel/tcg-plugins; version 1). */
typedef uint64_t qemu_plugin_id_t;
typedef uint32_t qemu_plugin_meminfo_t;
struct qemu_plugin_tb;
struct qemu_plugin_insn;
struct qemu_info;
/* QEMU 7.2 confuses reads with writes if only one of them is requested, so both are. */
enum { NO_REGISTERS = 0, READS_AND_WRITES = 3 };
void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t,
	void (*)(qemu_plugin_id_t, struct qemu_plugin_tb *));
void qemu_plugin_register_vcpu_tb_exec_cb(struct qemu_plugin_tb *, void (*)(unsigned, void *), int,
	void *);
void qemu_plugin_register_vcpu_mem_cb(struct qemu_plugin_insn *,
	void (*)(unsigned, qemu_plugin_meminfo_t, uint64_t, void *), int, int, void *);
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *);
uint64_t qemu_plugin_tb_vaddr(const struct qemu_plugin_tb *);
struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *, size_t);
const void *qemu_plugin_insn_data(const struct qemu_plugin_insn *);
size_t qemu_plugin_insn_size(const struct qemu_plugin_insn *);
uint64_t qemu_plugin_insn_vaddr(const struct qemu_plugin_insn *);

#define EXPORT __attribute__((visibility("default")))
EXPORT int qemu_plugin_version = 1;

/* The memory shared with the host; src/profile.rs uses the same layout. */
enum { MOST_FUNCTIONS = 1 << 18, MOST_ENTRIES = 1 << 10, MOST_NODES = 1 << 22, NONE = ~0u };
enum { MOST_CODES = 1 << 14, MOST_BYTES = 31 };

struct node {
	uint64_t function; /* the start address; a root's task; or USER (all user-space code) or INTERRUPT */
	uint64_t instructions;
	uint64_t calls;
	uint64_t charged; /* by the processor model, in 1/1024 of an instruction */
	uint32_t parent; /* NONE for a root */
	uint32_t child;  /* the child that was looked up last */
};

/* The first bytes of a module's function. */
struct code {
	uint64_t address;
	uint8_t size;
	uint8_t byte[MOST_BYTES];
};

struct shared {
	_Atomic uint64_t begun; /* the number of stages that have begun */
	_Atomic uint64_t seen;  /* the number of those that the host has released */
	uint64_t stage, phase;  /* the stage that began last, and its phase */
	uint64_t nodes;
	uint64_t lost;          /* calls that did not fit into the tree */
	uint64_t functions, entries, interrupts;
	uint64_t switch_from, switch_to; /* the code that switches stacks */
	uint64_t fork;                   /* the start of a new task */
	uint64_t codes;
	uint64_t pad[499];
	uint64_t entry[MOST_ENTRIES];    /* entries of faults and system calls; ascending */
	uint64_t interrupt[MOST_ENTRIES]; /* entries of interrupts; ascending */
	uint64_t function[MOST_FUNCTIONS]; /* ascending */
	struct node node[MOST_NODES];
	struct code code[MOST_CODES];
};

enum { USER = 1, INTERRUPT = 2 };
#define KERNEL (1ull << 63)

/* Words of the mailbox (record/src/mailbox.rs). */
enum { MAILBOX = 4096, STAGE = 3, PHASE = 4 };

/* The kind of a block's last instruction. */
enum { JUMPS, CALLS, RETURNS, LEAVES };

struct block {
	uint64_t address, end, function;
	uint32_t instructions;
	uint8_t ends;
	bool enters, interrupts, forks;
	struct code *code; /* for a block of a module */
	struct block *next;
};

struct frame {
	uint64_t back; /* the return address; 0 for an entry into the kernel */
	uint32_t node;
	struct block *before; /* the block before an interrupt, which may have come between a call and its callee */
};

enum { DEEPEST = 512, MOST_TASKS = 4096 };

struct task {
	uint64_t stack, forks;
	uint32_t root, node;
	int depth;
	struct frame frame[DEEPEST];
};

static struct shared *shared;
static const volatile uint64_t *mailbox;
static uint64_t stage, phase;
static bool user;

/* The total charge of the processor model (processor/processor.c), if QEMU has that plugin too. QEMU calls it after
 * this one, so that at the start of a block the total covers exactly the blocks before it. */
static const uint64_t *ticks, none;
static uint64_t attributed;
static uint32_t running;

static void attribute(uint32_t node)
{
	if (unlikely(!ticks)) {
		const char *place = getenv("FSDYNO_CHARGED");
		ticks = place ? (const uint64_t *)strtoull(place, NULL, 16) : &none;
		attributed = *ticks;
	}
	shared->node[running].charged += *ticks - attributed;
	attributed = *ticks;
	running = node;
}

static struct block nowhere, *last = &nowhere;
static struct task *tasks[MOST_TASKS], *current;

static uint32_t *children; /* a hash table of nodes by parent and function */
enum { CHILDREN = 1 << 24 };

static struct block **blocks; /* a hash table of blocks by address and length */
enum { BLOCKS = 1 << 20 };

static uint64_t hash(uint64_t a, uint64_t b)
{
	uint64_t mixed = (a ^ (b << 40 | b >> 24)) * 0x9e3779b97f4a7c15ull;
	return mixed ^ mixed >> 29;
}

static uint32_t child(uint32_t parent, uint64_t function)
{
	if (parent != NONE) {
		uint32_t guess = shared->node[parent].child;
		if (guess && shared->node[guess].function == function)
			return guess;
	}
	uint64_t at = hash(function, parent);
	uint32_t found;
	while ((found = children[at % CHILDREN])) {
		struct node *node = &shared->node[found];
		if (node->parent == parent && node->function == function)
			goto out;
		at++;
	}
	/* Node 0 belongs to no function; it receives the counts that do not fit into the tree. */
	if (shared->nodes == MOST_NODES) {
		shared->lost++;
		return 0;
	}
	found = shared->nodes++;
	children[at % CHILDREN] = found;
	shared->node[found] = (struct node){ .function = function, .parent = parent };
out:
	if (parent != NONE)
		shared->node[parent].child = found;
	return found;
}

static struct task *task_of(uint64_t stack)
{
	uint64_t at = hash(stack, 0);
	for (int tried = 0; tried < MOST_TASKS; tried++, at++) {
		struct task **task = &tasks[at % MOST_TASKS];
		if (!*task) {
			*task = calloc(1, sizeof **task);
			if (!*task)
				abort();
			(*task)->stack = stack;
			(*task)->root = (*task)->node = child(NONE, stack);
		}
		if ((*task)->stack == stack)
			return *task;
	}
	return current;
}

/* Returns the last of the ascending addresses that is not above `address`, or 0. */
static uint64_t below(const uint64_t *list, uint64_t count, uint64_t address)
{
	uint64_t low = 0, high = count;
	while (low < high) {
		uint64_t middle = (low + high) / 2;
		if (list[middle] <= address)
			low = middle + 1;
		else
			high = middle;
	}
	return low ? list[low - 1] : 0;
}

static bool is_one_of(const uint64_t *list, uint64_t count, uint64_t address)
{
	return count && below(list, count, address) == address;
}

/* Pushes a frame, and returns the node from which the call descends. A chain that exceeds the maximum depth starts
 * again at the root. */
static uint32_t push(struct task *task, uint64_t back, uint32_t node, struct block *before)
{
	if (task->depth == DEEPEST) {
		shared->lost++;
		task->depth = 0;
		node = task->root;
	}
	task->frame[task->depth++] = (struct frame){ back, node, before };
	return node;
}

/* Marks a module's block as the start of a function, because control came to it from another function. */
static void begins_function(struct block *block)
{
	block->function = block->address;
	if (block->code && shared->codes < MOST_CODES)
		shared->code[shared->codes++] = *block->code;
}

static uint32_t called(uint32_t node, struct block *block)
{
	if (!block->function)
		begins_function(block);
	uint32_t callee = child(node, block->function);
	shared->node[callee].calls++;
	return callee;
}

static uint32_t jumped(struct task *task, uint32_t node, struct block *block, bool jump)
{
	uint64_t here = shared->node[node].function;
	if (node == task->root)
		return called(node, block);
	/* A jump within a module stays in the same function, unless its target has been called before; a jump from
	 * outside the module goes to the start of a function. */
	if (!block->function && here <= shared->function[shared->functions - 1])
		begins_function(block);
	if (!block->function || block->function == here)
		return node;
	uint32_t parent = shared->node[node].parent;
	uint32_t other = child(parent == NONE ? task->root : parent, block->function);
	/* A jump to the start of a function is a tail call. */
	shared->node[other].calls += jump && block->function == block->address;
	return other;
}

static uint32_t returned(struct task *task, uint32_t node, struct block *block)
{
	for (int at = task->depth - 1; at >= 0 && task->frame[at].back; at--) {
		if (task->frame[at].back == block->address) {
			task->depth = at;
			return task->frame[at].node;
		}
	}
	return jumped(task, node, block, false);
}

static uint32_t left(struct task *task, uint32_t node, struct block **before)
{
	*before = &nowhere;
	for (int at = task->depth - 1; at >= 0; at--) {
		if (!task->frame[at].back) {
			task->depth = at;
			*before = task->frame[at].before;
			return task->frame[at].node;
		}
	}
	return node;
}

static void in_kernel(unsigned cpu, void *data)
{
	(void)cpu;
	struct block *block = data, *before = last;
	struct task *task = current;
	uint32_t node = task->node;
	last = block;
	if (user) {
		user = false;
		task->depth = 0;
		node = task->root;
	}
	/* After an interrupt, the interrupted code continues as if the interrupt had not happened. */
	if (before->ends == LEAVES)
		node = left(task, node, &before);
	if (block->enters) {
		/* A fault has interrupted its block, which is executed again after the fault. */
		node = called(push(task, 0, node, &nowhere), block);
	} else if (block->interrupts) {
		push(task, 0, node, before);
		node = called(child(task->root, INTERRUPT), block);
	} else if (block->forks) {
		/* A new task, on a stack that may have belonged to an earlier one. */
		task->depth = 0;
		task->root = child(NONE, task->stack | ++task->forks << 52);
		node = called(task->root, block);
	} else if (before->ends == CALLS) {
		node = called(push(task, before->end, node, before), block);
	} else if (before->ends == RETURNS) {
		node = returned(task, node, block);
	} else if (before != &nowhere && block->function != shared->node[node].function) {
		node = jumped(task, node, block, true);
	}
	task->node = node;
	attribute(node);
	shared->node[node].instructions += block->instructions;
}

/* Tells the host which stage begins, and waits until the host releases it. */
static void begin_stage(void)
{
	const struct timespec moment = { 0, 200000 };
	shared->stage = stage = mailbox[STAGE];
	shared->phase = phase = mailbox[PHASE];
	uint64_t begun = shared->begun + 1;
	shared->begun = begun;
	while (shared->seen < begun)
		nanosleep(&moment, NULL);
}

static void in_user(unsigned cpu, void *data)
{
	(void)cpu;
	struct block *block = data;
	struct task *task = current;
	last = block;
	if (!user) {
		user = true;
		task->depth = 0;
		task->node = child(task->root, USER);
	}
	/* The agent writes the stage, and runs in user space. The block that wrote it has ended when the next one
	 * begins. */
	attribute(task->node);
	if (mailbox[STAGE] != stage || mailbox[PHASE] != phase)
		begin_stage();
	shared->node[task->node].instructions += block->instructions;
}

static void switched(unsigned cpu, qemu_plugin_meminfo_t info, uint64_t address, void *data)
{
	(void)cpu, (void)info, (void)data;
	/* Stacks have a size and an alignment of 16 KiB (asm/page_64_types.h). */
	uint64_t stack = address >> 14;
	if (stack != current->stack)
		current = task_of(stack);
}

static const uint8_t PREFIXES[] = { 0x66, 0x67, 0xf0, 0xf2, 0xf3, 0x2e, 0x36, 0x3e, 0x26, 0x64, 0x65 };

/* Returns the kind of an instruction that ends a block, from its bytes (Intel SDM, volume 2, appendix A). */
static int ending(const uint8_t *byte, size_t size)
{
	size_t at = 0;
	while (at < size && (memchr(PREFIXES, byte[at], sizeof PREFIXES)
			|| (byte[at] & 0xf0) == 0x40))
		at++;
	if (at >= size)
		return JUMPS;
	uint8_t more = at + 1 < size ? byte[at + 1] : 0;
	switch (byte[at]) {
	case 0xe8:
		return CALLS;
	case 0xff: /* group 5: /2 and /3 are calls */
		return (more >> 3 & 7) == 2 || (more >> 3 & 7) == 3 ? CALLS : JUMPS;
	case 0xc2: case 0xc3: case 0xca: case 0xcb:
		return RETURNS;
	case 0xcf:
		return LEAVES;
	case 0x0f: /* sysret, sysexit */
		return more == 0x07 || more == 0x35 ? LEAVES : JUMPS;
	}
	return JUMPS;
}

static bool pops(const uint8_t *byte, size_t size)
{
	return (size == 1 && (byte[0] & 0xf8) == 0x58)
		|| (size == 2 && byte[0] == 0x41 && (byte[1] & 0xf8) == 0x58);
}

/* Returns the first bytes of a block. */
static struct code *code_of(struct qemu_plugin_tb *tb, size_t count)
{
	struct code *code = calloc(1, sizeof *code);
	if (!code)
		abort();
	code->address = qemu_plugin_tb_vaddr(tb);
	for (size_t at = 0; at < count; at++) {
		struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, at);
		size_t size = qemu_plugin_insn_size(insn);
		if (code->size + size > MOST_BYTES)
			break;
		memcpy(code->byte + code->size, qemu_plugin_insn_data(insn), size);
		code->size += size;
	}
	return code;
}

static void translated(qemu_plugin_id_t id, struct qemu_plugin_tb *tb)
{
	(void)id;
	uint64_t address = qemu_plugin_tb_vaddr(tb);
	size_t count = qemu_plugin_tb_n_insns(tb);
	struct block **place = &blocks[hash(address, count) % BLOCKS], *block = *place;
	while (block && (block->address != address || block->instructions != count))
		block = block->next;
	if (!block) {
		block = calloc(1, sizeof *block);
		if (!block)
			abort();
		block->address = address;
		block->instructions = count;
		block->next = *place;
		*place = block;
		if (address >= KERNEL && address < shared->function[shared->functions - 1])
			block->function = below(shared->function, shared->functions, address);
		else if (address >= KERNEL)
			block->code = code_of(tb, count);
		block->enters = is_one_of(shared->entry, shared->entries, address);
		block->interrupts = is_one_of(shared->interrupt, shared->interrupts, address);
		block->forks = address == shared->fork;
	}
	/* The code at this address may have changed. */
	struct qemu_plugin_insn *final = qemu_plugin_tb_get_insn(tb, count - 1);
	size_t size = qemu_plugin_insn_size(final);
	block->end = qemu_plugin_insn_vaddr(final) + size;
	block->ends = ending(qemu_plugin_insn_data(final), size);
	qemu_plugin_register_vcpu_tb_exec_cb(tb, address >= KERNEL ? in_kernel : in_user, NO_REGISTERS,
		block);
	if (address < shared->switch_from || address >= shared->switch_to)
		return;
	for (size_t at = 0; at < count; at++) {
		struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, at);
		if (pops(qemu_plugin_insn_data(insn), qemu_plugin_insn_size(insn)))
			qemu_plugin_register_vcpu_mem_cb(insn, switched, NO_REGISTERS, READS_AND_WRITES,
				NULL);
	}
}

static void *mapped(const char *text, size_t size, int protection)
{
	void *memory = mmap(NULL, size, protection, MAP_SHARED, atoi(text), 0);
	return memory == MAP_FAILED ? NULL : memory;
}

EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const struct qemu_info *info, int argc, char **argv)
{
	(void)info;
	for (int at = 0; at < argc; at++) {
		const char *value = strchr(argv[at], '=');
		if (!value)
			return 1;
		if (!strncmp(argv[at], "shared=", 7))
			shared = mapped(value + 1, sizeof *shared, PROT_READ | PROT_WRITE);
		else if (!strncmp(argv[at], "mailbox=", 8))
			mailbox = mapped(value + 1, MAILBOX, PROT_READ);
	}
	children = calloc(CHILDREN, sizeof *children);
	blocks = calloc(BLOCKS, sizeof *blocks);
	if (!shared || !mailbox || !children || !blocks || !shared->functions)
		return 1;
	/* Node 0 belongs to no function. */
	shared->node[0].parent = NONE;
	shared->nodes = 1;
	current = task_of(0);
	qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
	return 0;
}
