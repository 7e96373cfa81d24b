// Creates an instance of io_uring; the exit code is the error.
#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

int main(void) {
    char parameters[120] = {0};
    return syscall(SYS_io_uring_setup, 8, parameters) < 0 ? errno : 0;
}
