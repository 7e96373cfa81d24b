/* The processor model: adds to the guest's clock the costs that an instruction count does not cover.
 *
 * It is a QEMU plugin, loaded by src/processor.rs. QEMU's clock (-icount) advances by one tick per instruction. The
 * plugin simulates the first-level caches and the second-level cache for the kernel's instructions and data accesses.
 * Cache misses, locked instructions and system calls each have a cost in ticks, which the processor profile states. The
 * plugin subtracts the costs from QEMU's budget of instructions until the next timer, so QEMU counts them as executed:
 * the guest's clock and its timers advance, in whatever task the event occurred. Nothing depends on the host, so the
 * same guest has the same times everywhere.
 *
 * QEMU has no interface for this. The budget is a 16-bit word just before the CPU's state (icount_decr.u16.low), from
 * which each translation block subtracts its number of instructions. The plugin finds it by observing which word
 * behaves in this way, and ends QEMU if there is not exactly one.
 *
 * The guest's clock is slower than QEMU's by a constant factor (tsc_early_khz). The period of the timer chip is set to
 * match, so that its timers expire on time.
 *
 * The agent sends commands to the plugin with MARKER, a long NOP at the start of a block, and the command in RAX; the
 * response replaces the command. On a machine without the plugin, RAX does not change.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The parts of QEMU's plugin interface that are used (docs/devel/tcg-plugins; version 1). */
typedef uint64_t qemu_plugin_id_t;
typedef uint32_t qemu_plugin_meminfo_t;
struct qemu_plugin_tb;
struct qemu_plugin_insn;
struct qemu_info;
enum { NO_REGISTERS = 0, READS_AND_WRITES = 3 };
typedef void on_execution(unsigned, void *);
void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t,
	void (*)(qemu_plugin_id_t, struct qemu_plugin_tb *));
void qemu_plugin_register_vcpu_tb_exec_cb(struct qemu_plugin_tb *, on_execution *, int, void *);
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

#define likely(x) __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)

/* src/processor.rs and crates/record/src/processor.rs have the same names and commands. */
enum event { SYSTEM_CALL, LOCKED, OF_BLOCKS, MISS = OF_BLOCKS, STREAMED, FETCH, COSTLY,
	INSTRUCTIONS = COSTLY, EVENTS };
static const char *const NAMES[COSTLY] = { "system_call", "locked", "miss", "streamed", "fetch" };
enum { PRESENT = 0, START = 1, THREAD_BEGIN = 2, THREAD_END = 3, FREE = 4, NOT_FREE = 5, PAID = 8, COUNT = 16 };
static const uint8_t MARKER[] = { 0x0f, 0x1f, 0x84, 0x00, 'f', 's', 'd', 'y' };

/* Costs in 1/1024 of a tick. */
static uint64_t cost[COSTLY];
static uint64_t debt, paid, counts[EVENTS];
/* All charges, paid or not. The profile plugin (profile/profile.c) reads them at the address in FSDYNO_CHARGED. */
static uint64_t charged;
static bool charging, counting;
/* True while one of the instrument's threads runs, whose events are not charged. */
static bool is_free;

static __attribute__((noreturn)) void fail(const char *why, int number)
{
	fprintf(stderr, "the processor model: %s (%d)\n", why, number);
	_Exit(97);
}

/* The CPU's state begins with its registers. */
static uint8_t *state;
static volatile uint16_t *budget;
enum { RAX = 0, RSP = 4 };
static uint64_t read_register(int at)
{
	return ((volatile uint64_t *)state)[at];
}

static inline void charge(uint64_t parts)
{
	debt += parts;
	charged += parts;
}

#define HAPPENED(event) (counts[event]++, charge(cost[event]))

static inline void pay(void)
{
	uint64_t ticks = debt >> 10;
	uint16_t left = *budget;
	if (ticks > left)
		ticks = left;
	*budget = left - ticks;
	debt -= ticks << 10;
	paid += ticks;
}

/* Caches with LRU replacement: each set is a list of the pages of its lines, with the most recently used page first. */
enum { MOST_WAYS = 32, MOST_SETS = 1 << 14 };
struct cache {
	uint32_t sets, ways;
	uint32_t *pages;
};
static struct cache first, second, code;
static uint32_t first_pages[64 * MOST_WAYS], second_pages[MOST_SETS * MOST_WAYS], code_pages[64 * MOST_WAYS];

static inline bool touch(uint32_t *set, uint32_t ways, uint32_t page)
{
	if (set[0] == page)
		return true;
	uint32_t at = 1;
	while (at < ways && set[at] != page)
		at++;
	bool hit = at < ways;
	for (uint32_t i = hit ? at : ways - 1; i > 0; i--)
		set[i] = set[i - 1];
	set[0] = page;
	return hit;
}

/* A real second-level cache is indexed by physical address, so the pages are scattered over its sets. */
static inline bool in_second(uint64_t line)
{
	uint32_t page = line >> 6, scattered = (page * 0x9e3779b1u) >> 16;
	uint32_t set = ((line & 63) | scattered << 6) & (second.sets - 1);
	return touch(second.pages + (size_t)set * second.ways, second.ways, page);
}

/* Processors prefetch the next lines of a stream. A miss belongs to a stream if it is within two lines of the last miss
 * in the same page. */
static struct { uint32_t page, line; } streams[64];
static inline bool in_stream(uint64_t line)
{
	uint32_t page = line >> 6, at = (page * 0x9e3779b1u) >> 26;
	bool found = streams[at].page == page && (uint32_t)line - streams[at].line + 2 <= 4;
	streams[at].page = page;
	streams[at].line = line;
	return found;
}

static __attribute__((noinline)) void not_latest(uint64_t line)
{
	if (touch(first.pages + (line & 63) * first.ways, first.ways, line >> 6))
		return;
	bool stream = in_stream(line);
	if (in_second(line))
		return;
	if (stream)
		HAPPENED(STREAMED);
	else
		HAPPENED(MISS);
}

static void on_data(unsigned vcpu, qemu_plugin_meminfo_t info, uint64_t address, void *unused)
{
	(void)vcpu, (void)info, (void)unused;
	uint64_t line = address >> 6;
	if (likely(first.pages[(line & 63) * first.ways] == (uint32_t)(line >> 6)))
		return;
	if (charging && !is_free)
		not_latest(line);
}

static inline void fetch(uint64_t line)
{
	if (touch(code.pages + (line & 63) * code.ways, code.ways, line >> 6))
		return;
	if (in_second(line))
		HAPPENED(FETCH);
	else
		HAPPENED(MISS);
}

/* A translation block: a sequence of instructions without a branch. */
struct block {
	uint64_t address, end;
	uint64_t cost;
	uint16_t instructions;
	uint16_t events[OF_BLOCKS];
	bool kernel;
};

/* Counting, for the fit of a profile: only the events of the thread that issues the ops are counted. The thread is
 * identified by its kernel stack, which is the most frequent one between two commands of the agent. Code on the CPU's
 * entry stacks is counted; code on other stacks, including those of interrupts, is not. */
enum { STACKS = 64, STACK_SHIFT = 14 };
static uint64_t thread, stacks[STACKS], seen[STACKS], kept[EVENTS];
static bool learning, in_thread = true;

static void learn(uint64_t stack)
{
	for (int at = 0; at < STACKS; at++) {
		if (!seen[at])
			stacks[at] = stack;
		if (stacks[at] == stack) {
			seen[at]++;
			return;
		}
	}
}

static inline bool is_stack(uint64_t pointer)
{
	return pointer >> 47 == 0x1ffff && pointer >> 39 != 0x1fffffc;
}

/* The instrument's threads (fsdyno's own, which a real machine does not have). Their only cost is their instructions,
 * and they do not change the caches. They too are identified by their kernel stacks. */
enum { MOST_FREE = 64 };
static uint64_t free_stacks[MOST_FREE];
static unsigned free_count;
static bool joining, leaving;

static __attribute__((noinline)) void join_or_leave(uint64_t stack)
{
	unsigned at = 0;
	while (at < free_count && free_stacks[at] != stack)
		at++;
	if (joining && at == free_count) {
		if (free_count == MOST_FREE)
			fail("too many threads of the instrument", MOST_FREE);
		free_stacks[free_count++] = stack;
	} else if (leaving && at < free_count) {
		free_stacks[at] = free_stacks[--free_count];
	}
	joining = leaving = false;
}

static inline void follow_free(void)
{
	uint64_t pointer = read_register(RSP), stack = pointer >> STACK_SHIFT;
	if (!is_stack(pointer))
		return;
	if (unlikely(joining || leaving))
		join_or_leave(stack);
	is_free = false;
	for (unsigned at = 0; at < free_count; at++)
		is_free |= free_stacks[at] == stack;
}

static void follow_thread(const struct block *b)
{
	uint64_t pointer = read_register(RSP), stack = pointer >> STACK_SHIFT;
	bool on_stack = b->kernel && is_stack(pointer);
	if (learning && on_stack)
		learn(stack);
	bool now = !thread || (on_stack ? stack == thread : b->kernel || in_thread);
	if (now == in_thread)
		return;
	/* When the thread is left, its counts are saved; when it continues, the counts of others are discarded. */
	if (in_thread)
		memcpy(kept, counts, sizeof kept);
	else
		memcpy(counts, kept, sizeof kept);
	in_thread = now;
}

static void on_block(unsigned vcpu, void *data)
{
	(void)vcpu;
	const struct block *b = data;
	if (b->kernel)
		follow_free();
	if (!charging || is_free)
		return;
	if (counting) {
		follow_thread(b);
		counts[INSTRUCTIONS] += b->instructions;
	}
	if (b->kernel)
		for (uint64_t line = b->address >> 6; line <= (b->end - 1) >> 6; line++)
			fetch(line);
	if (b->cost || counting) {
		for (int event = 0; event < OF_BLOCKS; event++)
			counts[event] += b->events[event];
		charge(b->cost);
	}
	if (debt >= 1024)
		pay();
}

static void start(void)
{
	if (!budget)
		fail("the instruction budget is not found yet", 0);
	memset(first_pages, 0, sizeof first_pages);
	memset(second_pages, 0, sizeof second_pages);
	memset(code_pages, 0, sizeof code_pages);
	memset(streams, 0, sizeof streams);
	memset(counts, 0, sizeof counts);
	debt = paid = 0;
	charging = true;
}

static void on_marker(unsigned vcpu, void *unused)
{
	(void)vcpu, (void)unused;
	uint64_t command = read_register(RAX), answer = 1;
	switch (command) {
	case PRESENT:
		break;
	case START:
		start();
		break;
	case THREAD_BEGIN:
		memset(seen, 0, sizeof seen);
		memset(stacks, 0, sizeof stacks);
		learning = true;
		break;
	case THREAD_END: {
		int most = 0;
		for (int at = 1; at < STACKS; at++)
			most = seen[at] > seen[most] ? at : most;
		thread = stacks[most];
		learning = false;
		in_thread = true;
		break;
	}
	case FREE:
		joining = true;
		break;
	case NOT_FREE:
		leaving = true;
		break;
	case PAID:
		answer = paid;
		break;
	default:
		answer = command >= COUNT && command < COUNT + EVENTS ? counts[command - COUNT] : 0;
	}
	((volatile uint64_t *)state)[RAX] = answer;
}

/* The search for the budget: the word before the CPU's state that decreases by each block's number of instructions. */
enum { WORDS = 32, TRIES = 4096 };
static uint16_t words[WORDS];
static unsigned fits[WORDS], tries;
static uint64_t speed; /* instructions per microsecond */

/* Sets the period of the timer chip. The chip counts units of 10 ns of QEMU's time; in the guest's time, its period is
 * shorter by the factor between the two clocks. */
static void set_timer_chip(void)
{
	void *(*find)(const char *, const char *, bool *);
	*(void **)&find = dlsym(RTLD_DEFAULT, "object_resolve_path_type");
	uint8_t *chip = find ? find("", "hpet", NULL) : NULL;
	int found = 0;
	for (int at = 0; chip && at < 4096; at += 8) {
		uint64_t *word = (uint64_t *)(chip + at);
		/* Capabilities: a period of 10,000,000 fs, vendor 8086, 64 bits, legacy routes. */
		if (*word >> 32 == 10000000 && (*word & 0xffffe0ff) == 0x8086a001) {
			*word = (uint32_t)*word | (10000000ull * 1000 / speed) << 32;
			found++;
		}
	}
	if (found != 1)
		fail("the timer chip of this QEMU is not known", found);
}

__attribute__((used)) static void find_budget(unsigned vcpu, void *data, uint8_t *cpu)
{
	(void)vcpu;
	uint16_t instructions = (uintptr_t)data;
	if (budget)
		return;
	if (!state) {
		state = cpu;
		set_timer_chip();
	}
	if (state != cpu)
		fail("the guest has more than one CPU", 2);
	for (int at = 0; at < WORDS; at++) {
		uint16_t word = *(volatile uint16_t *)(state - 2 * (at + 1));
		fits[at] += (uint16_t)(words[at] - word) == instructions;
		words[at] = word;
	}
	if (++tries < TRIES)
		return;
	int found = 0, many = 0;
	for (int at = 0; at < WORDS; at++) {
		if (fits[at] > TRIES / 10 * 9) {
			found = at;
			many++;
		}
	}
	if (many != 1)
		fail("the instruction budget of this QEMU is not known", many);
	budget = (uint16_t *)(state - 2 * (found + 1));
}

/* The address of the CPU's state is in a register that translated code reserves for it. */
#if defined __x86_64__
__attribute__((naked)) static void search(unsigned vcpu, void *data)
{
	(void)vcpu, (void)data;
	__asm__("mov %rbp, %rdx\n\tjmp find_budget");
}
#else
static void search(unsigned vcpu, void *data)
{
	(void)vcpu, (void)data;
	fail("not available on this host's architecture", 0);
}
#endif

/* The properties of an instruction that the model needs (Intel SDM, volume 2, appendix A). */
struct decoded {
	bool locked, system_call, stack, per_cpu;
};

static struct decoded decode(const uint8_t *byte, size_t size)
{
	static const uint8_t PREFIXES[] = { 0x66, 0x67, 0xf0, 0xf2, 0xf3, 0x2e, 0x36, 0x3e, 0x26, 0x64, 0x65 };
	struct decoded d = { 0 };
	size_t at = 0;
	bool ds = false;
	uint8_t rex = 0;
	for (; at < size && memchr(PREFIXES, byte[at], sizeof PREFIXES); at++) {
		d.locked |= byte[at] == 0xf0;
		d.per_cpu |= byte[at] == 0x65;
		ds |= byte[at] == 0x3e;
	}
	if (at < size && (byte[at] & 0xf0) == 0x40)
		rex = byte[at++];
	if (at >= size)
		return d;
	uint8_t op = byte[at], next = at + 1 < size ? byte[at + 1] : 0, extension = next >> 3 & 7;
	bool two = op == 0x0f;
	d.stack = (op >= 0x50 && op <= 0x5f) || op == 0xe8 || op == 0xc3 || op == 0xc2 || op == 0xc9 ||
		op == 0x9c || op == 0x9d || op == 0x68 || op == 0x6a || op == 0xcf;
	d.system_call = two && next == 0x05;
	bool conditional = (two && (next & 0xf0) == 0x80) || (op & 0xf0) == 0x70 || (op >= 0xe0 && op <= 0xe3);
	size_t operand = at + 1;
	if (two)
		operand += next == 0x38 || next == 0x3a ? 2 : 1;
	bool has_operand = two || !((op < 0x40 && (op & 7) >= 4) || (op >= 0x50 && op <= 0x61) ||
		op == 0x68 || op == 0x6a || (op >= 0x70 && op <= 0x7f) || (op >= 0x90 && op <= 0xbf) ||
		(op >= 0xc2 && op <= 0xc3) || (op >= 0xc8 && op <= 0xcf) || (op >= 0xe0 && op <= 0xf5) ||
		(op >= 0xf8 && op <= 0xfd));
	if (!has_operand || operand >= size)
		return d;
	uint8_t mode = byte[operand];
	bool memory = mode < 0xc0;
	bool branch = conditional || op == 0xe8 || op == 0xe9 || op == 0xeb ||
		(op == 0xff && extension >= 2 && extension <= 5);
	d.locked |= (op == 0x86 || op == 0x87) && memory;
	/* With one CPU, the kernel replaces its lock prefixes with 3e. Real machines have more CPUs, and pay. */
	d.locked |= ds && !branch && memory;
	if (memory && (mode & 7) == 4 && operand + 1 < size)
		d.stack |= (byte[operand + 1] & 7) == 4 && !(rex & 1);
	d.stack |= op == 0xff && !memory;
	return d;
}

static bool is_marker(struct qemu_plugin_tb *tb)
{
	struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, 0);
	return qemu_plugin_insn_size(insn) == sizeof MARKER &&
		memcmp(qemu_plugin_insn_data(insn), MARKER, sizeof MARKER) == 0;
}

static void on_translation(qemu_plugin_id_t id, struct qemu_plugin_tb *tb)
{
	(void)id;
	size_t count = qemu_plugin_tb_n_insns(tb);
	uint64_t address = qemu_plugin_tb_vaddr(tb);
	if (!budget)
		qemu_plugin_register_vcpu_tb_exec_cb(tb, search, NO_REGISTERS, (void *)count);
	struct block b = { .address = address, .instructions = count, .kernel = address >> 63 };
	for (size_t at = 0; at < count; at++) {
		struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, at);
		size_t size = qemu_plugin_insn_size(insn);
		struct decoded d = decode(qemu_plugin_insn_data(insn), size);
		b.end = qemu_plugin_insn_vaddr(insn) + size;
		b.events[SYSTEM_CALL] += d.system_call;
		if (!b.kernel)
			continue;
		b.events[LOCKED] += d.locked;
		if (!d.stack && !d.per_cpu)
			qemu_plugin_register_vcpu_mem_cb(insn, on_data, NO_REGISTERS, READS_AND_WRITES, NULL);
	}
	for (int event = 0; event < OF_BLOCKS; event++)
		b.cost += b.events[event] * cost[event];
	if (!b.kernel && is_marker(tb))
		qemu_plugin_register_vcpu_tb_exec_cb(tb, on_marker, NO_REGISTERS, NULL);
	else if (b.kernel || b.events[SYSTEM_CALL] || counting) {
		struct block *kept_block = malloc(sizeof b);
		if (!kept_block)
			fail("out of memory", 0);
		*kept_block = b;
		qemu_plugin_register_vcpu_tb_exec_cb(tb, on_block, NO_REGISTERS, kept_block);
	}
}

static bool set_cache(struct cache *cache, uint32_t *pages, uint64_t sets, uint64_t ways)
{
	*cache = (struct cache){ .sets = sets, .ways = ways, .pages = pages };
	return ways >= 1 && ways <= MOST_WAYS && sets >= 64 && sets <= MOST_SETS && !(sets & (sets - 1));
}

EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const struct qemu_info *info, int argc, char **argv)
{
	(void)info;
	uint64_t first_ways = 0, sets = 0, ways = 0, code_ways = 0;
	for (int at = 0; at < argc; at++) {
		char *value = strchr(argv[at], '=');
		if (!value)
			return 1;
		*value++ = 0;
		uint64_t number = strtoull(value, NULL, 10);
		int event = 0;
		while (event < COSTLY && strcmp(argv[at], NAMES[event]))
			event++;
		if (event < COSTLY)
			cost[event] = number;
		else if (!strcmp(argv[at], "speed"))
			speed = number;
		else if (!strcmp(argv[at], "first_ways"))
			first_ways = number;
		else if (!strcmp(argv[at], "second_sets"))
			sets = number;
		else if (!strcmp(argv[at], "second_ways"))
			ways = number;
		else if (!strcmp(argv[at], "fetch_ways"))
			code_ways = number;
		else if (!strcmp(argv[at], "counting"))
			counting = number;
		else
			return 1;
	}
	if (!speed || !set_cache(&first, first_pages, 64, first_ways) ||
		!set_cache(&second, second_pages, sets, ways) || !set_cache(&code, code_pages, 64, code_ways))
		return 1;
	char place[32];
	snprintf(place, sizeof place, "%lx", (unsigned long)&charged);
	if (setenv("FSDYNO_CHARGED", place, 1))
		return 1;
	qemu_plugin_register_vcpu_tb_trans_cb(id, on_translation);
	return 0;
}
