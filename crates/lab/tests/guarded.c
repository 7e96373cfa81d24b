/* The threads and locks of a QEMU, for the clock guard's test: a main thread that makes a vCPU, has it
 * go on, and polls once while it runs. Ends with 0 if the vCPU had parked again before the main thread
 * went on after its poll, with 1 if not. With an argument the vCPU parks only once the main thread has
 * gone on: then it must be let. */
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
		/* Runs without the lock, as long as a main loop without a guard needs to be seen. */
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
	/* The poll of a main loop: without the lock, until something of the host wakes it. */
	pthread_mutex_unlock(&big_lock);
	usleep(100000);
	pthread_mutex_lock(&big_lock);
	passed = 1;
	return done != needed ? 0 : 1;
}
