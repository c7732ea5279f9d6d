/* Command-line options, the clock, and the end of a run. */
#include "probe.h"
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

volatile int stopped;

const char *option(int argc, char **argv, const char *name, const char *otherwise)
{
	for (int i = 0; i + 1 < argc; i++)
		if (strcmp(argv[i], name) == 0)
			return argv[i + 1];
	return otherwise;
}

long option_number(int argc, char **argv, const char *name, long otherwise)
{
	const char *text = option(argc, argv, name, NULL);
	return text ? strtol(text, NULL, 10) : otherwise;
}

void fail(const char *what)
{
	fprintf(stderr, "probe: %s: %s\n", what, strerror(errno));
	exit(1);
}

int64_t now_us(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000LL + now.tv_nsec / 1000;
}

static void on_signal(int signal)
{
	(void)signal;
	stopped = 1;
}

void stop_on_signals(void)
{
	struct sigaction action = {.sa_handler = on_signal};
	sigaction(SIGTERM, &action, NULL);
	sigaction(SIGINT, &action, NULL);
	signal(SIGPIPE, SIG_IGN);
}
