/* The probe: sends real packets and sees what becomes of them. One mode per file; probe.ts builds and starts it. */
#include "probe.h"
#include <stdio.h>
#include <string.h>

static const struct {
	const char *name;
	int (*run)(int argc, char **argv);
} MODES[] = {
	{"send", mode_send},   {"watch", mode_watch}, {"flood", mode_flood},
	{"crr", mode_crr},     {"serve", mode_serve}, {"listen", mode_listen},
	{"bytes", mode_bytes}, {"connect", mode_connect}, {"queue", mode_queue},
};

int main(int argc, char **argv)
{
	for (size_t i = 0; argc > 1 && i < sizeof MODES / sizeof *MODES; i++)
		if (strcmp(argv[1], MODES[i].name) == 0)
			return MODES[i].run(argc - 2, argv + 2);
	fprintf(stderr, "usage: probe send|watch|flood|crr|serve|listen|bytes|connect|queue [options]\n");
	return 2;
}
