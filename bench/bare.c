/*
 * The bare loop that the engine is compared with: the same calls, and nothing else but names.
 *
 * bare N DIRECTORY [marks]: makes N empty files in the directory, asks for the status of each,
 * removes each, in order. Prints three lines: the phase and its nanoseconds. Nothing is timed op by
 * op. With marks it sends itself a SIGUSR1 between phases, for bench/count.c.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define DIGITS 7

static int marks;
static char pairs[200];
static char name[1 + DIGITS + 1] = "f";

static long long now(void)
{
	struct timespec t;

	if (marks)
		raise(SIGUSR1);
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static void fail(const char *what)
{
	fprintf(stderr, "bare: failed to %s %s: %s\n", what, name, strerror(errno));
	exit(1);
}

/* f0000000 to f9999999, two digits at a time. */
static inline const char *number(unsigned n)
{
	memcpy(name + 6, pairs + 2 * (n % 100), 2);
	n /= 100;
	memcpy(name + 4, pairs + 2 * (n % 100), 2);
	n /= 100;
	memcpy(name + 2, pairs + 2 * (n % 100), 2);
	name[1] = '0' + n / 100;
	return name;
}

int main(int argc, char **argv)
{
	unsigned i, n = argc == 3 || argc == 4 ? strtoul(argv[1], NULL, 10) : 0;
	struct stat status;
	long long at[4];
	int dir, fd;

	if (n == 0 || n > 10000000) {
		fprintf(stderr, "usage: bare N DIRECTORY [marks], N from 1 to 10000000\n");
		return 2;
	}
	marks = argc == 4;
	for (i = 0; i < 100; i++) {
		pairs[2 * i] = '0' + i / 10;
		pairs[2 * i + 1] = '0' + i % 10;
	}
	dir = open(argv[2], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dir < 0) {
		fprintf(stderr, "bare: failed to open %s: %s\n", argv[2], strerror(errno));
		return 1;
	}
	at[0] = now();
	for (i = 0; i < n; i++) {
		fd = openat(dir, number(i), O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
		if (fd < 0)
			fail("create");
		if (close(fd))
			fail("close");
	}
	at[1] = now();
	for (i = 0; i < n; i++)
		if (fstatat(dir, number(i), &status, AT_SYMLINK_NOFOLLOW))
			fail("stat");
	at[2] = now();
	for (i = 0; i < n; i++)
		if (unlinkat(dir, number(i), 0))
			fail("unlink");
	at[3] = now();
	printf("create %lld\nstat %lld\nunlink %lld\n", at[1] - at[0], at[2] - at[1], at[3] - at[2]);
	return 0;
}
