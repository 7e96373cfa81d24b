// Makes calls on files from THREADS threads, counts them itself, and prints the count:
// counted DIR THREADS ROUNDS. A round of a thread is 8 calls.
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *dir;
static long rounds, calls[256];

static void *work(void *given) {
    long id = (long)given;
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
