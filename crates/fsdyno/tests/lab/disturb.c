/* Disturbs QEMU at the points where host time could reach the guest's clock, for the test of the clock guard.
 *
 * A vCPU leaves its run of instructions by siglongjmp, after a halt too: it is marked as halted then,
 * and its last instructions are not yet accounted. Every STRIDEth time a signal wakes the main loop right
 * there (QEMU reads SIGALRM by a signalfd), and the vCPU sleeps for as long as the main loop may need.
 * Without the guard six runs of six differed (stride 16); with only 3,000 signals a second, one
 * of twelve.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

enum { STRIDE = 64, MICROSECONDS = 200 };

static void disturb(void)
{
	static unsigned count;
	if (++count % STRIDE == 0) {
		/* Shows the test that a disturbance took place. */
		const char *mark = getenv("FSDYNO_DISTURBED");
		if (count == STRIDE && mark)
			close(open(mark, O_CREAT | O_WRONLY, 0600));
		kill(getpid(), SIGALRM);
		usleep(MICROSECONDS);
	}
}

__attribute__((noreturn)) static void go(const char *name, sigjmp_buf where, int value)
{
	void (*real)(sigjmp_buf, int) = (void (*)(sigjmp_buf, int))dlsym(RTLD_NEXT, name);
	disturb();
	real(where, value);
	abort();
}

void siglongjmp(sigjmp_buf where, int value)
{
	go("siglongjmp", where, value);
}

/* The same function in a QEMU that was built with checks of stack frames. */
void __longjmp_chk(sigjmp_buf where, int value)
{
	go("__longjmp_chk", where, value);
}
