/* The clock guard keeps host time out of the guest's clock: it makes QEMU's main loop wait while the vCPU runs.
 *
 * QEMU is started with this library in LD_PRELOAD (see src/guard.rs). With the instruction clock
 * (-icount sleep=off), a main loop that finds the vCPU halted advances the clock to the next timer. But the vCPU is
 * marked as halted while it still runs, before its last instructions have been added to the clock
 * (accel/tcg/tcg-accel-ops-rr.c runs it without the big lock). If an event of the host wakes the main loop at that
 * moment, the main loop reads a clock that lags behind, and advances it too far, by the instructions not yet added.
 *
 * The vCPU rarely needs the main loop while it runs: it runs its timers itself, and wakes the main loop when it has
 * nothing to do. Therefore the main thread, which polls without the big lock, gets the lock back only while the vCPU's
 * thread is parked, that is, while it waits for its condition and has not been signalled. If the vCPU's thread does not
 * park, it yields when it is about to take the lock itself: by then it has either added all its instructions to the
 * clock, or is not halted. A machine that was loaded from a snapshot needs this.
 *
 * The vCPU's thread is identified as follows. While the machine is being created, the main thread waits with QEMU's big
 * lock until the vCPU exists. The first other thread that waits with this lock is the vCPU's, and the condition that it
 * waits for is the one that resumes it.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Counters in memory shared with the lab; src/guard.rs uses the same layout. */
struct seen {
	_Atomic uint64_t parked; /* the number of times that the vCPU was parked */
	_Atomic uint64_t passes; /* the number of times that the main thread then got the lock */
};

/* The state of the vCPU's thread, which is also the futex that the main thread waits for. */
enum { ABSENT, RUNNING, PARKED, GIVES_WAY };

/* The number of times that the vCPU takes the lock before it yields to a waiting main thread: about a millisecond. */
enum { PATIENCE = 1000 };

static _Atomic uint32_t vcpu = ABSENT;
static _Atomic(pthread_cond_t *) go_on;     /* the vCPU's condition */
static _Atomic(pthread_mutex_t *) big_lock; /* the lock that the main thread last waited with */
static atomic_bool main_waits;
static pthread_t main_thread, vcpu_thread;
static struct seen nobody, *seen = &nobody;

static int (*real_wait)(pthread_cond_t *, pthread_mutex_t *);
static int (*real_signal)(pthread_cond_t *);
static int (*real_broadcast)(pthread_cond_t *);
static int (*real_lock)(pthread_mutex_t *);

/* Looks up a function by its version: without a version, dlsym may find the condition variables from before
 * glibc 2.3.2, which have a different format. */
static void *real(const char *name, const char *version)
{
	void *found = dlvsym(RTLD_NEXT, name, version);
	if (!found)
		abort();
	return found;
}

/* Called before each use of these functions, because other libraries' constructors may run before start(). */
static void find_real(void)
{
	if (real_lock)
		return;
	real_wait = real("pthread_cond_wait", "GLIBC_2.3.2");
	real_signal = real("pthread_cond_signal", "GLIBC_2.3.2");
	real_broadcast = real("pthread_cond_broadcast", "GLIBC_2.3.2");
	real_lock = real("pthread_mutex_lock", "GLIBC_2.2.5");
}

__attribute__((constructor)) static void start(void)
{
	const char *fd = getenv("FSDYNO_GUARD");
	void *memory = fd ? mmap(NULL, sizeof *seen, PROT_READ | PROT_WRITE, MAP_SHARED, atoi(fd), 0)
			  : MAP_FAILED;
	if (memory != MAP_FAILED)
		seen = memory;
	main_thread = pthread_self();
	find_real();
}

static void set_vcpu(uint32_t state)
{
	vcpu = state;
	syscall(SYS_futex, &vcpu, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

static void wait_while_vcpu(uint32_t state)
{
	while (vcpu == state)
		syscall(SYS_futex, &vcpu, FUTEX_WAIT_PRIVATE, state, NULL, NULL, 0);
}

/* Reports whether this is the vCPU's wait for its condition. The first such wait identifies the condition. */
static int is_park(pthread_cond_t *cond, pthread_mutex_t *lock)
{
	if (pthread_equal(pthread_self(), main_thread)) {
		if (!go_on)
			big_lock = lock;
		return 0;
	}
	if (!go_on && lock == big_lock) {
		vcpu_thread = pthread_self();
		go_on = cond;
	}
	return cond == go_on;
}

int pthread_cond_wait(pthread_cond_t *cond, pthread_mutex_t *lock)
{
	find_real();
	if (!is_park(cond, lock))
		return real_wait(cond, lock);
	/* The vCPU holds the big lock until it waits, so the main thread cannot get the lock too early. */
	seen->parked++;
	set_vcpu(PARKED);
	int result = real_wait(cond, lock);
	/* A wait may also end without a signal. */
	vcpu = RUNNING;
	return result;
}

/* Called before a condition is signalled: if it is the vCPU's, the vCPU is no longer parked, although its thread may
 * wake much later. */
static void told(pthread_cond_t *cond)
{
	find_real();
	uint32_t parked = PARKED;
	if (cond == go_on)
		atomic_compare_exchange_strong(&vcpu, &parked, RUNNING);
}

int pthread_cond_signal(pthread_cond_t *cond)
{
	told(cond);
	return real_signal(cond);
}

int pthread_cond_broadcast(pthread_cond_t *cond)
{
	told(cond);
	return real_broadcast(cond);
}

static int lock_in_main(pthread_mutex_t *lock)
{
	main_waits = 1;
	wait_while_vcpu(RUNNING);
	int result = real_lock(lock);
	main_waits = 0;
	seen->passes++;
	/* The vCPU then waits for the lock, which the main thread now holds. */
	if (vcpu == GIVES_WAY)
		set_vcpu(RUNNING);
	return result;
}

static void give_way(void)
{
	static unsigned taken;
	taken = main_waits ? taken + 1 : 0;
	if (taken < PATIENCE)
		return;
	taken = 0;
	set_vcpu(GIVES_WAY);
	wait_while_vcpu(GIVES_WAY);
}

int pthread_mutex_lock(pthread_mutex_t *lock)
{
	find_real();
	if (lock == big_lock && vcpu != ABSENT) {
		if (pthread_equal(pthread_self(), main_thread))
			return lock_in_main(lock);
		if (pthread_equal(pthread_self(), vcpu_thread))
			give_way();
	}
	return real_lock(lock);
}
