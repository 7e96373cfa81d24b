// Makes calls with all kinds of arguments, valid and invalid, and aborts if a result is wrong: sees DIR.
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#define MUST(it) do { if (!(it)) { fprintf(stderr, "line %d: %s: %s\n", __LINE__, #it, strerror(errno)); abort(); } } while (0)
#define FAILS(it, with) do { errno = 0; MUST((it) == -1 && errno == (with)); } while (0)

static volatile sig_atomic_t handled;
static char text[300];

static void handle(int signal) {
    (void)signal;
    struct stat st;
    // A call from a handler, perhaps within another call.
    if (stat("s-dir", &st) == 0) handled++;
}

int main(int argc, char **argv) {
    struct stat st;
    MUST(argc == 2 && chdir(argv[1]) == 0);
    for (int round = 0; round < 2; round++) {
        MUST(mkdir("s-dir", 0755) == 0);
        FAILS(mkdir("s-dir", 0755), EEXIST);
        int fd = open("s-dir/s-file", O_CREAT | O_EXCL | O_RDWR, 0644);
        MUST(fd >= 0 && fstat(fd, &st) == 0 && st.st_size == 0);
        FAILS(open("s-dir/s-file", O_CREAT | O_EXCL | O_RDWR, 0644), EEXIST);
        // Missing directories, paths that end in a directory or in slashes, links within paths.
        FAILS(stat("s-none/a/./b", &st), ENOENT);
        FAILS(open("s-none/../s-dir", O_RDONLY), ENOENT);
        FAILS(mkdir("s-none/a/", 0755), ENOENT);
        FAILS(rmdir("s-dir/."), EINVAL);
        MUST(stat("s-dir/.", &st) == 0 && stat("s-dir/", &st) == 0 && stat("s-dir/..", &st) == 0 && stat(".", &st) == 0);
        MUST(access("s-dir//", F_OK) == 0 && mkdir("s-other//", 0755) == 0 && rmdir("s-other/") == 0);
        MUST(symlink("s-void", "s-dangling") == 0 && symlink("s-dir", "s-way") == 0);
        FAILS(stat("s-dangling/a", &st), ENOENT);
        FAILS(stat("s-dir/s-file/a", &st), ENOTDIR);
        MUST(lstat("s-way/", &st) == 0 && S_ISDIR(st.st_mode) && lstat("s-way", &st) == 0 && S_ISLNK(st.st_mode));
        MUST(stat("s-way/s-file", &st) == 0 && unlink("s-dangling") == 0 && unlink("s-way") == 0);
        struct iovec two[2] = {{"hello ", 6}, {"world\n", 6}};
        MUST(writev(fd, two, 2) == 12 && pwrite(fd, "H", 1, 0) == 1);
        char big[20000];
        memset(big, 7, sizeof big);
        for (int at = 0; at < 40; at++) MUST(write(fd, big, sizeof big) == sizeof big);
        MUST(lseek(fd, 0, SEEK_SET) == 0 && read(fd, text, 12) == 12 && !memcmp(text, "Hello world\n", 12));
        MUST(ftruncate(fd, 100) == 0 && fsync(fd) == 0 && fchmod(fd, 0600) == 0);
        MUST(fstat(fd, &st) == 0 && st.st_size == 100);
        struct flock lock = {.l_type = F_WRLCK, .l_start = 3, .l_len = 4};
        MUST(fcntl(fd, F_SETLK, &lock) == 0 && flock(fd, LOCK_EX) == 0 && fcntl(fd, F_GETFL) >= 0);
        char *map = mmap(NULL, 100, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        MUST(map != MAP_FAILED && map[0] == 'H');
        map[0] = 'J';
        MUST(munmap(map, 100) == 0);
        int other = fcntl(fd, F_DUPFD, 100);
        MUST(other >= 100 && dup2(fd, 50) == 50 && pread(50, text, 1, 0) == 1 && text[0] == 'J');
        MUST(close(other) == 0 && close(50) == 0 && close(fd) == 0);
        FAILS(close(fd), EBADF);
        FAILS(read(fd, text, 1), EBADF);
        // Invalid addresses make the call fail and do not affect the program.
        FAILS(open((char *)8, O_RDONLY), EFAULT);
        FAILS(open((char *)0x7000, O_RDONLY), EFAULT);
        FAILS(stat((char *)0x123456789000, &st), EFAULT);
        fd = open("s-dir/s-file", O_WRONLY);
        FAILS(writev(fd, (struct iovec *)0x7000, 2), EFAULT);
        FAILS(write(fd, (char *)0x7000, 10), EFAULT);
        FAILS(fcntl(fd, F_SETLK, (struct flock *)0x7000), EFAULT);
        MUST(close(fd) == 0);
        FAILS(open("s-dir/s-none/s-x", O_RDONLY), ENOENT);
        FAILS(open("s-dir/s-file/s-x", O_RDONLY), ENOTDIR);
        FAILS(access("s-none", F_OK), ENOENT);
        memset(text, 'n', 299);
        FAILS(access(text, F_OK), ENAMETOOLONG);
        MUST(symlink("s-file", "s-dir/s-link") == 0 && readlink("s-dir/s-link", text, sizeof text) == 6);
        MUST(stat("s-dir/s-link", &st) == 0 && S_ISREG(st.st_mode) && lstat("s-dir/s-link", &st) == 0 && S_ISLNK(st.st_mode));
        MUST(link("s-dir/s-file", "s-second") == 0 && stat("s-second", &st) == 0 && st.st_nlink == 2);
        MUST(rename("s-second", "s-third") == 0 && unlink("s-third") == 0 && truncate("s-dir/s-file", 5) == 0);
        MUST(utimensat(AT_FDCWD, "s-dir/s-file", NULL, 0) == 0 && chmod("s-dir/s-file", 0644) == 0);
        int dir = open("s-dir", O_RDONLY | O_DIRECTORY);
        MUST(dir >= 0 && fstatat(dir, "s-file", &st, 0) == 0 && st.st_size == 5 && fstatat(dir, "", &st, AT_EMPTY_PATH) == 0);
        MUST(S_ISDIR(st.st_mode) && unlinkat(dir, "s-link", 0) == 0 && close(dir) == 0);
        struct statfs fs;
        MUST(statfs("s-dir", &fs) == 0);
        DIR *list = opendir("s-dir");
        int entries = 0;
        while (readdir(list)) entries++;
        MUST(entries == 3 && closedir(list) == 0);
        // Calls by syscall(2): recorded calls, other calls, calls with six arguments, and creations of processes.
        MUST(syscall(SYS_getpid) == getpid() && syscall(SYS_mkdirat, AT_FDCWD, "s-number", 0755) == 0);
        FAILS(syscall(SYS_close, -1), EBADF);
        FAILS(syscall(100000), ENOSYS);
        FAILS(syscall(-1), ENOSYS);
        fd = open("s-number/s-file", O_CREAT | O_RDWR, 0644);
        MUST(fd >= 0 && ftruncate(fd, 8192) == 0);
        map = (char *)syscall(SYS_mmap, NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 4096);
        MUST(map != MAP_FAILED && (map[0] = 'N') && syscall(SYS_munmap, map, 4096) == 0);
        MUST(syscall(SYS_pread64, fd, text, 1, 4096) == 1 && text[0] == 'N' && syscall(SYS_close, fd) == 0);
        pid_t forked = (pid_t)syscall(SYS_fork);
        if (forked == 0) syscall(SYS_exit_group, syscall(SYS_unlinkat, AT_FDCWD, "s-number/s-file", 0) == 0 ? 4 : 5);
        int how;
        MUST(syscall(SYS_wait4, forked, &how, 0, NULL) == forked && WEXITSTATUS(how) == 4 && rmdir("s-number") == 0);
        // Pipes, and signals that interrupt a call.
        int pair[2];
        MUST(pipe(pair) == 0);
        struct sigaction action = {.sa_handler = handle};
        sigaction(SIGALRM, &action, NULL);
        alarm(1);
        FAILS(read(pair[0], text, 1), EINTR);
        MUST(handled == round + 1);
        pid_t child = fork();
        if (child == 0) {
            MUST(write(pair[1], "c", 1) == 1 && chdir("s-dir") == 0 && unlink("s-file") == 0);
            _exit(3);
        }
        int status;
        MUST(read(pair[0], text, 1) == 1 && waitpid(child, &status, 0) == child && WEXITSTATUS(status) == 3);
        MUST(close(pair[0]) == 0 && close(pair[1]) == 0 && rmdir("s-dir") == 0);
        FAILS(rmdir("s-dir"), ENOENT);
        // Standard streams of the C library.
        FILE *stream = fopen("s-stream", "w");
        MUST(stream && fputs("text", stream) >= 0 && fclose(stream) == 0 && remove("s-stream") == 0);
    }
    return 0;
}
