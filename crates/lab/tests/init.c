/* PID 1 of the boot test: performs the action that the job names. */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>

static uint64_t now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000ull + t.tv_nsec;
}

static char *region(const char *slot, size_t size, size_t at) {
    char path[100];
    snprintf(path, sizeof path, "/sys/bus/pci/devices/0000:00:%s.0/enable", slot);
    int fd = open(path, O_WRONLY);
    if (fd < 0 || write(fd, "1", 1) != 1) return NULL;
    close(fd);
    snprintf(path, sizeof path, "/sys/bus/pci/devices/0000:00:%s.0/resource2", slot);
    fd = open(path, O_RDWR);
    char *memory = fd < 0 ? MAP_FAILED : mmap(0, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, at);
    return memory == MAP_FAILED ? NULL : memory;
}

static char pages[64 << 20];

int main(int argc, char **argv) {
    uint64_t booted = now();
    mount("s", "/sys", "sysfs", 0, 0);
    volatile uint64_t *mailbox = (volatile uint64_t *)region("10", 16 << 20, 0);
    if (!mailbox) {
        printf("no mailbox\n");
        return 1; /* PID 1 ends: the kernel panics */
    }
    mailbox[3] = 1;
    /* Stops a guest that is to be saved; see record/src/guest.rs. */
    mknod("/dev/port", S_IFCHR | 0600, makedev(1, 4));
    int ports = open("/dev/port", O_WRONLY);
    mailbox[11] = __builtin_ia32_rdtsc();
    if (pwrite(ports, "\1", 1, 0x505) != 1) printf("no port to stop at\n");
    mailbox[3] = 3;
    const char *job = (const char *)mailbox + 4096;
    if (!strcmp(job, "panic")) {
        printf("this guest will panic\n");
        fflush(stdout);
        return 1;
    }
    if (!strcmp(job, "loop")) for (;;) ;
    if (!strcmp(job, "beat")) for (;;) mailbox[6]++;
    if (!strcmp(job, "fill")) {
        for (size_t at = 0;; at += sizeof pages) {
            char *disk = region("11", sizeof pages, at);
            if (disk) memset(disk, 1, sizeof pages);
        }
    }
    struct timespec nap = {0, 50000};
    for (int i = 0; i < 200; i++) {
        memset(pages, i, 1 << 20);
        nanosleep(&nap, 0);
    }
    char *disk = region("11", 1 << 20, 0);
    if (disk) memset(disk, 1, 1 << 20);
    char report[200];
    int length = snprintf(report, sizeof report, "%d %s booted %llu done %llu", argc, argv[1],
                          (unsigned long long)booted, (unsigned long long)now());
    memcpy((char *)mailbox + (1 << 20), report, length);
    mailbox[3] = 7;
    mailbox[2] = length;
    sync();
    reboot(RB_POWER_OFF);
}
