/*
 * Counts the user instructions of a program between its marks, exactly, one step at a time.
 *
 * count PROGRAM ARGUMENT...: a mark is a SIGUSR1 that the program sends to itself; it never arrives.
 * Prints one number a line for each stretch from one mark to the next, the mark's own few
 * instructions included. What the kernel executes is not counted, the vDSO's clock is.
 */
#include <signal.h>
#include <stdio.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	long steps = 0;
	int marks = 0, status;
	pid_t child;

	if (argc < 2) {
		fprintf(stderr, "usage: count PROGRAM ARGUMENT...\n");
		return 2;
	}
	child = fork();
	if (child == 0) {
		ptrace(PTRACE_TRACEME, 0, 0, 0);
		execv(argv[1], argv + 1);
		perror(argv[1]);
		_exit(127);
	}
	while (child > 0 && waitpid(child, &status, 0) == child && WIFSTOPPED(status)) {
		int signal = WSTOPSIG(status) == SIGTRAP ? 0 : WSTOPSIG(status);

		if (signal == SIGUSR1) {
			if (marks++)
				printf("%ld\n", steps);
			steps = 0;
			signal = 0;
		} else {
			steps++;
		}
		if (ptrace(marks ? PTRACE_SINGLESTEP : PTRACE_CONT, child, 0, signal))
			break;
	}
	return child > 0 && WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}
