// Makes calls on files from THREADS threads, counts them, and prints the count:
// counted DIR THREADS ROUNDS. A round of a thread is 8 calls. With BY_NUMBER, they are made by syscall(2).
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifdef BY_NUMBER
#define open(path, flags, mode) (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode)
#define write(fd, from, length) syscall(SYS_write, fd, from, length)
#define pread(fd, to, length, at) syscall(SYS_pread64, fd, to, length, at)
#define fstat(fd, st) syscall(SYS_statx, fd, "", AT_EMPTY_PATH, STATX_BASIC_STATS, (struct statx[1]){{0}})
#define close(fd) syscall(SYS_close, fd)
#define rename(from, to) syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0)
#define access(path, mode) syscall(SYS_faccessat, AT_FDCWD, path, mode)
#define unlink(path) syscall(SYS_unlinkat, AT_FDCWD, path, 0)
#endif

static const char *dir;
static long rounds, calls[256];

static void *work(void *argument) {
    long id = (long)argument;
    char name[512], other[512], buffer[100] = {0};
    struct stat st;
    snprintf(name, sizeof name, "%s/t%ld", dir, id);
    snprintf(other, sizeof other, "%s/o%ld", dir, id);
    for (long i = 0; i < rounds; i++) {
        int fd = open(name, O_CREAT | O_EXCL | O_RDWR, 0644);
        if (fd < 0) abort();
        if (write(fd, buffer, sizeof buffer) != sizeof buffer) abort();
        if (pread(fd, buffer, sizeof buffer, 0) != sizeof buffer) abort();
        if (fstat(fd, &st)) abort();
        if (close(fd)) abort();
        if (rename(name, other)) abort();
        if (access(name, F_OK) == 0) abort();
        if (unlink(other)) abort();
        calls[id] += 8;
    }
    return NULL;
}

int main(int argc, char **argv) {
    if (argc != 4) return 2;
    dir = argv[1];
    long n = atol(argv[2]), sum = 0;
    rounds = atol(argv[3]);
    pthread_t threads[256];
    for (long i = 0; i < n; i++)
        if (pthread_create(&threads[i], NULL, work, (void *)i)) abort();
    for (long i = 0; i < n; i++) pthread_join(threads[i], NULL);
    for (long i = 0; i < n; i++) sum += calls[i];
    printf("%ld\n", sum);
    return 0;
}
