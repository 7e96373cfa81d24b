/* The threads and locks of QEMU, for the test of the clock guard: a main thread that creates a vCPU, resumes it, and
 * polls once while it runs. The exit code is 0 if the vCPU parked before the main thread continued after its poll, and
 * 1 otherwise. With an argument, the vCPU parks only after the main thread has continued, so it must yield; the exit
 * code is then 0 if the main thread continued first. */
#include <pthread.h>
#include <unistd.h>

static pthread_mutex_t big_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t made = PTHREAD_COND_INITIALIZER, go_on = PTHREAD_COND_INITIALIZER;
static int exists, work, done, needed, passed;

static void *vcpu(void *nothing)
{
	pthread_mutex_lock(&big_lock);
	exists = 1;
	pthread_cond_signal(&made);
	for (;;) {
		while (!work)
			pthread_cond_wait(&go_on, &big_lock);
		/* Runs without the lock, long enough for a main loop without a guard to be detected. */
		pthread_mutex_unlock(&big_lock);
		usleep(300000);
		pthread_mutex_lock(&big_lock);
		while (needed && !passed) {
			pthread_mutex_unlock(&big_lock);
			pthread_mutex_lock(&big_lock);
		}
		work = 0;
		done = 1;
	}
	return nothing;
}

int main(int count, char **words)
{
	pthread_t thread;
	(void)words;
	needed = count > 1;
	pthread_mutex_lock(&big_lock);
	if (pthread_create(&thread, NULL, vcpu, NULL))
		return 2;
	while (!exists)
		pthread_cond_wait(&made, &big_lock);
	work = 1;
	pthread_cond_broadcast(&go_on);
	/* The poll of a main loop: without the lock, until an event of the host wakes it. */
	pthread_mutex_unlock(&big_lock);
	usleep(100000);
	pthread_mutex_lock(&big_lock);
	passed = 1;
	return done != needed ? 0 : 1;
}
