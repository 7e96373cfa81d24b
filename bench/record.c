/* Median duration of each of eight calls on files, in nanoseconds: record DIR ROUNDS */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define KINDS 8
static const char *names[KINDS] = {"open", "write", "pread", "fstat", "close", "rename", "access", "unlink"};

static long now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000L + t.tv_nsec;
}

static int order(const void *a, const void *b) {
    long x = *(const long *)a, y = *(const long *)b;
    return (x > y) - (x < y);
}

int main(int argc, char **argv) {
    if (argc != 3) return 2;
    long rounds = atol(argv[2]), *took[KINDS];
    char name[512], other[512], buffer[100] = {0};
    snprintf(name, sizeof name, "%s/a", argv[1]);
    snprintf(other, sizeof other, "%s/b", argv[1]);
    for (int k = 0; k < KINDS; k++) took[k] = malloc(rounds * sizeof(long));
    struct stat st;
    int fd = 0, good = 1;
    for (long i = 0; i < rounds; i++) {
        long t[KINDS + 1];
        t[0] = now();
        fd = open(name, O_CREAT | O_EXCL | O_RDWR, 0644);
        t[1] = now();
        good &= write(fd, buffer, sizeof buffer) == sizeof buffer;
        t[2] = now();
        good &= pread(fd, buffer, sizeof buffer, 0) == sizeof buffer;
        t[3] = now();
        good &= fstat(fd, &st) == 0;
        t[4] = now();
        good &= close(fd) == 0;
        t[5] = now();
        good &= rename(name, other) == 0;
        t[6] = now();
        good &= access(name, F_OK) != 0;
        t[7] = now();
        good &= unlink(other) == 0;
        t[8] = now();
        for (int k = 0; k < KINDS; k++) took[k][i] = t[k + 1] - t[k];
    }
    if (!good) return 1;
    for (int k = 0; k < KINDS; k++) {
        qsort(took[k], rounds, sizeof(long), order);
        printf("%s %ld\n", names[k], took[k][rounds / 2]);
    }
    return 0;
}
