/* `nodewall` in the images, which have no shell: starts the command line as bin/nodewall does in a checkout. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

/*
 * `nodewall health-of SOCKET PATH`, for a kubelet: whether the process behind the socket answers 200, and what else it says.
 * It is asked every few seconds on each node, so no Node.js is started for it. The socket is in the container: nobody else answers there.
 */
static int health_of(const char *socket_path, const char *path) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  struct timeval patience = {.tv_sec = 4};
  char answer[4096];
  size_t length = 0;
  int descriptor = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (descriptor < 0 || strlen(socket_path) >= sizeof address.sun_path) return 1;
  strcpy(address.sun_path, socket_path);
  setsockopt(descriptor, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  setsockopt(descriptor, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
  if (connect(descriptor, (struct sockaddr *)&address, sizeof address) != 0 ||
      dprintf(descriptor, "GET %s HTTP/1.0\r\n\r\n", path) < 0) {
    fprintf(stderr, "nodewall: %s: %s\n", socket_path, strerror(errno));
    return 1;
  }
  while (length < sizeof answer - 1) {
    ssize_t got = read(descriptor, answer + length, sizeof answer - 1 - length);
    if (got <= 0) break;
    length += (size_t)got;
  }
  answer[length] = '\0';
  const char *text = strstr(answer, "\r\n\r\n");
  fputs(text == NULL ? "no answer\n" : text + 4, stdout);
  return strncmp(answer, "HTTP/1.1 200 ", 13) == 0 ? 0 : 1;
}

int main(int argc, char **argv) {
  const char *command = argc > 1 ? argv[1] : "";
  if (strcmp(command, "health-of") == 0 && argc == 4) return health_of(argv[2], argv[3]);
  char **args = calloc((size_t)argc + 5, sizeof *args);
  if (args == NULL) return 3;
  int count = 0;
  args[count++] = "/usr/local/bin/node";
  if (strcmp(command, "agent") == 0) {
    setenv("MALLOC_ARENA_MAX", "1", 1);
    setenv("UV_THREADPOOL_SIZE", "16", 1);
    args[count++] = "--max-semi-space-size=4";
    args[count++] = "--heap-growing-percent=20";
    args[count++] = "--initial-heap-size=64";
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
