/* `nodewall` in the images, which have no shell: starts the command line as bin/nodewall does in a checkout. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char **argv) {
  const char *command = argc > 1 ? argv[1] : "";
  char **args = calloc((size_t)argc + 4, sizeof *args);
  if (args == NULL) return 3;
  int count = 0;
  args[count++] = "/usr/local/bin/node";
  if (strcmp(command, "agent") == 0) {
    setenv("MALLOC_ARENA_MAX", "1", 1);
    setenv("UV_THREADPOOL_SIZE", "16", 1);
    args[count++] = "--max-semi-space-size=4";
    args[count++] = "--heap-growing-percent=20";
  } else if (strcmp(command, "controller") == 0) {
    args[count++] = "--no-parallel-scavenge";
  } else if (strcmp(command, "diff") == 0) {
    args[count++] = "--max-semi-space-size=16";
  }
  args[count++] = "/opt/nodewall/cli/main.cjs";
  for (int i = 1; i < argc; i++) args[count++] = argv[i];
  execv(args[0], args);
  fprintf(stderr, "nodewall: %s: %s\n", args[0], strerror(errno));
  return 3;
}
