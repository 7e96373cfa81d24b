/*
 * The bare loop that the engine is compared with: the same calls, and nothing else but names.
 *
 * bare N DIRECTORY [THREADS]: in the directory, which is empty, of N files
 *   create   makes each, empty: openat and close
 *   stat     asks for the status of each
 *   rename   gives each another name, and then its own again
 *   readdir  reads the directory to its end, 8 times: openat, getdents64, close
 *   unlink   removes each
 *   write    makes each with 4 KiB: openat, write, close; removes them again, which is not timed
 * all in order; each thread has its own run of names. Prints the nanoseconds of each phase, from the
 * common start to the last thread's end. Nothing is timed call by call. Before each phase it waits
 * for what the kernel still owes for the one before, as the engine's side does.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define DIGITS 7
#define SCANS 8
#define MOST_THREADS 64

/* The engine writes to each file a content of its own, cut from a pool of this size at a place that
 * is a multiple of the stride; so does this, for what is copied costs more if it is not in a cache. */
#define POOL (4 << 20)
#define STRIDE 2592009u
#define SIZE 4096

/* One thread: its names, its run of numbers, and when it ended. */
struct worker {
	pthread_t thread;
	char name[1 + DIGITS + 1], other[1 + DIGITS + 1];
	unsigned from, to;
	long long end;
};

typedef void phase(struct worker *w);

static char pairs[200];
static char pool[POOL + SIZE];
static int dir;
static pthread_barrier_t start;

static long long now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static void fail(const char *what, const char *name)
{
	fprintf(stderr, "bare: failed to %s %s: %s\n", what, name, strerror(errno));
	exit(1);
}

/* The digits of f0000000 to f9999999, two at a time. */
static inline const char *number(char *name, unsigned n)
{
	memcpy(name + 6, pairs + 2 * (n % 100), 2);
	n /= 100;
	memcpy(name + 4, pairs + 2 * (n % 100), 2);
	n /= 100;
	memcpy(name + 2, pairs + 2 * (n % 100), 2);
	name[1] = '0' + n / 100;
	return name;
}

static void create(struct worker *w)
{
	for (unsigned i = w->from; i < w->to; i++) {
		int fd = openat(dir, number(w->name, i), O_WRONLY | O_CREAT | O_CLOEXEC, 0644);

		if (fd < 0)
			fail("create", w->name);
		if (close(fd))
			fail("close", w->name);
	}
}

static void get_status(struct worker *w)
{
	struct stat status;

	for (unsigned i = w->from; i < w->to; i++)
		if (fstatat(dir, number(w->name, i), &status, AT_SYMLINK_NOFOLLOW))
			fail("stat", w->name);
}

static void rename_each(struct worker *w)
{
	for (unsigned i = w->from; i < w->to; i++)
		if (renameat(dir, number(w->name, i), dir, number(w->other, i)))
			fail("rename", w->name);
	for (unsigned i = w->from; i < w->to; i++)
		if (renameat(dir, number(w->other, i), dir, number(w->name, i)))
			fail("rename", w->other);
}

static void read_directory(struct worker *w)
{
	char *buffer = malloc(32 << 10);

	(void)w;
	for (int i = 0; i < SCANS; i++) {
		int fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		long got;

		if (fd < 0)
			fail("open", "the directory");
		while ((got = syscall(SYS_getdents64, fd, buffer, 32 << 10)) > 0)
			;
		if (got < 0 || close(fd))
			fail("read", "the directory");
	}
	free(buffer);
}

static void unlink_each(struct worker *w)
{
	for (unsigned i = w->from; i < w->to; i++)
		if (unlinkat(dir, number(w->name, i), 0))
			fail("unlink", w->name);
}

static void write_each(struct worker *w)
{
	for (unsigned i = w->from; i < w->to; i++) {
		int fd = openat(dir, number(w->name, i), O_WRONLY | O_CREAT | O_CLOEXEC, 0644);

		if (fd < 0)
			fail("create", w->name);
		if (write(fd, pool + (unsigned long long)i * STRIDE % POOL, SIZE) != SIZE)
			fail("write", w->name);
		if (close(fd))
			fail("close", w->name);
	}
}

static const struct {
	const char *name;
	phase *run;
	phase *after; /* not timed */
} phases[] = {
	{ "create", create, NULL }, { "stat", get_status, NULL }, { "rename", rename_each, NULL },
	{ "readdir", read_directory, NULL }, { "unlink", unlink_each, NULL },
	{ "write", write_each, unlink_each },
};

#define PHASES (sizeof(phases) / sizeof(phases[0]))

static void prepare(void)
{
	unsigned i;

	for (i = 0; i < 100; i++) {
		pairs[2 * i] = '0' + i / 10;
		pairs[2 * i + 1] = '0' + i % 10;
	}
	for (i = 0; i < sizeof(pool); i++)
		pool[i] = i * 131 >> 3;
}

static struct worker worker(unsigned n, unsigned at, unsigned threads)
{
	struct worker w = { .name = "f", .other = "g" };

	w.from = (unsigned long long)n * at / threads;
	w.to = (unsigned long long)n * (at + 1) / threads;
	return w;
}

/* A phase of one thread, which is the caller. The bench against_bare calls it in its own process, to
 * let the two sides take turns phase by phase. */
long long bare_phase(int directory, unsigned n, unsigned at)
{
	struct worker w = worker(n, 0, 1);
	long long begin, end;

	if (!pairs[0])
		prepare();
	dir = directory;
	begin = now();
	phases[at].run(&w);
	end = now();
	if (phases[at].after)
		phases[at].after(&w);
	return end - begin;
}

static void *work(void *argument)
{
	struct worker *w = argument;

	for (unsigned i = 0; i < PHASES; i++) {
		pthread_barrier_wait(&start);
		phases[i].run(w);
		w->end = now();
		pthread_barrier_wait(&start);
		if (phases[i].after)
			phases[i].after(w);
	}
	return NULL;
}

/* 10 ms for what the kernel does late (inodes are freed by RCU), then 1 ms so as not to begin idle. */
static void settle(void)
{
	struct timespec nap = { 0, 10000000 };
	long long begin;

	nanosleep(&nap, NULL);
	for (begin = now(); now() - begin < 1000000;)
		;
}

/* A phase of many threads, from their common start to the last one's end. */
static long long together(struct worker *workers, unsigned threads)
{
	long long begin = now(), end = 0;

	pthread_barrier_wait(&start);
	pthread_barrier_wait(&start);
	for (unsigned t = 0; t < threads; t++)
		end = workers[t].end > end ? workers[t].end : end;
	return end - begin;
}

int main(int argc, char **argv)
{
	static struct worker workers[MOST_THREADS];
	unsigned n = argc == 3 || argc == 4 ? strtoul(argv[1], NULL, 10) : 0;
	unsigned i, t, threads = argc == 4 ? strtoul(argv[3], NULL, 10) : 1;
	int directory;

	if (n == 0 || n > 10000000 || threads == 0 || threads > MOST_THREADS) {
		fprintf(stderr, "usage: bare N DIRECTORY [THREADS], N from 1 to 10000000\n");
		return 2;
	}
	directory = open(argv[2], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (directory < 0)
		fail("open", argv[2]);
	prepare();
	dir = directory;
	pthread_barrier_init(&start, NULL, threads + 1);
	/* One thread is the program itself: the kernel treats a lone one better. */
	for (t = 0; threads > 1 && t < threads; t++) {
		workers[t] = worker(n, t, threads);
		pthread_create(&workers[t].thread, NULL, work, &workers[t]);
	}
	for (i = 0; i < PHASES; i++) {
		settle();
		printf("%s %lld\n", phases[i].name,
		       threads > 1 ? together(workers, threads) : bare_phase(directory, n, i));
	}
	for (t = 0; threads > 1 && t < threads; t++)
		pthread_join(workers[t].thread, NULL);
	return 0;
}
