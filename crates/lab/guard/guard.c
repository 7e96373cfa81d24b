/* Keeps host time out of the guest's clock: QEMU's main loop waits while the vCPU runs.
 *
 * QEMU is started with this in LD_PRELOAD (see src/guard.rs). In its instruction clock
 * (-icount sleep=off) a main loop that finds the vCPU halted moves the clock on to the next timer.
 * But a vCPU is marked as halted while it still runs, before its last instructions have been booked
 * (accel/tcg/tcg-accel-ops-rr.c runs it without the big lock), so a main loop that some event of
 * the host wakes just then reads a clock that is late, and moves it too far by what is not booked.
 *
 * The vCPU seldom needs a main loop while it runs: it runs its timers itself, and wakes the main loop
 * once it has nothing to do. So the main thread, which polls without the big lock, gets the lock back
 * only while the vCPU's thread is parked, that is, waits for its condition and was not yet told to go on.
 * Where that does not come, the vCPU gives way when it is about to take the lock itself: it has then
 * either booked all it did or is not halted. A machine that was loaded from a snapshot needs that.
 *
 * Which thread is the vCPU's: while the machine is made the main thread waits with QEMU's big lock
 * for the vCPU to exist; the first other thread that waits with that lock is the vCPU, and what it
 * waits for is its condition of going on.
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

/* What the lab sees of us, in memory that it shares; src/guard.rs has the same two words. */
struct seen {
	_Atomic uint64_t parked; /* how often the vCPU was parked */
	_Atomic uint64_t passes; /* how often the main thread got the lock beside a parked vCPU */
};

/* Where the vCPU is; also the futex at which the main thread waits. */
enum { ABSENT, RUNNING, PARKED, GIVES_WAY };

/* How often the vCPU takes the lock before a main thread that waits; about a millisecond's worth. */
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

/* By version: without one dlsym may find the conditions of before glibc 2.3.2, another format. */
static void *real(const char *name, const char *version)
{
	void *found = dlvsym(RTLD_NEXT, name, version);
	if (!found)
		abort();
	return found;
}

/* Called wherever they are used: what is loaded with us may run before start(). */
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

/* Whether this wait is the vCPU's for its condition. The first such wait tells which that is. */
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
	/* The vCPU holds the big lock until it waits, so the main thread cannot get it too early. */
	seen->parked++;
	set_vcpu(PARKED);
	int result = real_wait(cond, lock);
	/* A wait may also end without a reason. */
	vcpu = RUNNING;
	return result;
}

/* From here on the vCPU is no longer parked, though its thread may wake much later. */
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
	/* It goes on to wait for the lock, which is ours. */
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
