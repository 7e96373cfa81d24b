// Makes calls on directories without a name, on reused descriptor numbers, and calls that fail, and aborts if a result is
// wrong: paths DIR. DIR has the file b-source of 10 bytes.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <termios.h>
#include <unistd.h>

#define MUST(it) do { if (!(it)) { fprintf(stderr, "line %d: %s: %s\n", __LINE__, #it, strerror(errno)); abort(); } } while (0)
#define FAILS(it, with) do { errno = 0; MUST((it) == -1 && errno == (with)); } while (0)

int main(int argc, char **argv) {
    struct stat st;
    struct termios terminal;
    char name[32];
    MUST(argc == 2 && chdir(argv[1]) == 0);
    FAILS(access("b-begin", F_OK), ENOENT);
    // A directory without a name in its path.
    int dir = open(".", O_RDONLY | O_DIRECTORY);
    MUST(dir >= 0 && fstat(dir, &st) == 0 && mkdirat(dir, "b-dir", 0755) == 0);
    int below = openat(dir, "b-dir/..", O_RDONLY);
    MUST(below >= 0 && faccessat(below, "b-dir", F_OK, 0) == 0 && fchdir(below) == 0);
    // Positions that the kernel writes back.
    int from = open("b-source", O_RDONLY), to = openat(dir, "b-copy", O_RDWR | O_CREAT | O_EXCL, 0644);
    off_t at = 2, into = 1;
    MUST(from >= 0 && to >= 0 && copy_file_range(from, &at, to, &into, 4, 0) == 4);
    at = 3;
    MUST(sendfile(to, from, &at, 5) == 5);
    // Commands and mappings that are not recorded.
    FAILS(ioctl(to, TCGETS, &terminal), ENOTTY);
    MUST(fcntl(to, F_GETFL, &terminal) >= 0);
    MUST(mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED);
    // A descriptor that is not open, whose number is used later.
    for (int number = 20; number < 24; number++) FAILS(close(number), EBADF);
    for (int number = 20; number < 24; number++) {
        snprintf(name, sizeof name, "b-new%d", number);
        int fd = open(name, O_CREAT | O_EXCL | O_WRONLY, 0644);
        MUST(fd >= 0 && dup2(fd, number) == number && close(fd) == 0);
    }
    // A link to a descriptor.
    MUST(linkat(20, "", AT_FDCWD, "b-link", AT_EMPTY_PATH) == 0 && access("b-link", F_OK) == 0);
    // Programs that do not exist.
    char *const none[] = {"b-none", NULL};
    FAILS(execve("b-dir/b-none", none, none), ENOENT);
    FAILS(execve("b-none/b-none", none, none), ENOENT);
    // Names relative to a directory that is not recorded.
    MUST(chdir("/proc/self") == 0 && stat("comm", &st) == 0 && fchdir(dir) == 0 && rmdir("b-dir") == 0);
    FAILS(access("b-end", F_OK), ENOENT);
    return 0;
}
