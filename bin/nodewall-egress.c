/*
 * The CNI plugin nodewall-egress (docs/egress.md, "The start of pods"), last in a network's chain.
 * ADD returns when the agent has the pod in its rules, and its egress gateways too. The agent
 * decides: this program passes the call on to its socket, and prints prevResult as it came.
 *
 * While the file `required` is beside the socket, no pod starts without the agent's answer.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define LONGEST (1 << 20)
#define DEFAULT_SOCKET "/var/lib/nodewall/cni/agent.sock"
#define WAIT_MS 10000
#define DEL_WAIT_MS 2000
#define RETRY_MS 20

/* Error codes of the CNI specification. */
enum { INVALID_ENVIRONMENT = 4, IO_FAILURE = 5, INVALID_CONFIG = 7, TRY_AGAIN = 11, NOT_AVAILABLE = 50 };

struct text {
  const char *at;
  size_t length;
};

static char input[LONGEST + 1];
static struct text version = {"\"1.0.0\"", 7};

static int fail(int code, const char *message) {
  printf("{\"cniVersion\":%.*s,\"code\":%d,\"msg\":\"nodewall-egress: %s\"}\n", (int)version.length, version.at,
         code, message);
  return 1;
}

static const char *blank(const char *at) {
  return at + strspn(at, " \t\r\n");
}

/* Behind a JSON string that begins here; NULL: it does not end. */
static const char *behind_string(const char *at) {
  for (at++; *at != '\0'; at++) {
    if (*at == '\\' && at[1] != '\0') at++;
    else if (*at == '"') return at + 1;
  }
  return NULL;
}

/* Behind a JSON value that begins here; NULL: it does not end. */
static const char *behind_value(const char *at) {
  if (*at == '"') return behind_string(at);
  if (*at != '{' && *at != '[') {
    size_t length = strcspn(at, ",}] \t\r\n");
    return length == 0 ? NULL : at + length;
  }
  size_t depth = 0;
  while (*at != '\0') {
    if (*at == '"') {
      at = behind_string(at);
      if (at == NULL) return NULL;
      continue;
    }
    if (*at == '{' || *at == '[') depth++;
    if ((*at == '}' || *at == ']') && --depth == 0) return at + 1;
    at++;
  }
  return NULL;
}

/* The value of a field of the object in `input`, as it was written; empty: there is none. */
static struct text field(const char *name) {
  struct text none = {NULL, 0};
  const char *at = blank(input);
  if (*at != '{') return none;
  at = blank(at + 1);
  while (*at == '"') {
    const char *key = at + 1;
    const char *end = behind_string(at);
    if (end == NULL) return none;
    const char *value = blank(end);
    if (*value != ':') return none;
    value = blank(value + 1);
    const char *next = behind_value(value);
    if (next == NULL) return none;
    size_t length = (size_t)(end - key) - 1;
    if (length == strlen(name) && strncmp(key, name, length) == 0)
      return (struct text){value, (size_t)(next - value)};
    at = blank(next);
    if (*at != ',') return none;
    at = blank(at + 1);
  }
  return none;
}

static long now_ms(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * 1000 + time.tv_nsec / 1000000;
}

static const char *environment(const char *name) {
  const char *value = getenv(name);
  return value == NULL ? "" : value;
}

/* An agent that is stopped takes no call from its queue: neither connect nor send waits for longer. */
static int limit_wait(int fd, long until) {
  long left = until - now_ms();
  struct timeval wait = {.tv_sec = left / 1000, .tv_usec = left % 1000 * 1000};
  return left <= 0 ? -1 : setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &wait, sizeof wait);
}

static int send_all(int fd, const char *bytes, size_t length, long until) {
  while (length > 0) {
    if (limit_wait(fd, until) != 0) return -1;
    ssize_t sent = send(fd, bytes, length, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return -1;
    bytes += sent;
    length -= (size_t)sent;
  }
  return 0;
}

/* Returns -1 if the agent does not listen, or its queue stays full. */
static int connected(const struct sockaddr_un *agent, long until) {
  int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return -1;
  if (limit_wait(fd, until) == 0 && connect(fd, (const struct sockaddr *)agent, sizeof *agent) == 0) return fd;
  close(fd);
  return -1;
}

/* One call of the agent; its answer without the line feed. Returns -1 if there is none. */
static int ask(const struct sockaddr_un *agent, const char *command, long until, char *answer, size_t size) {
  int fd = connected(agent, until);
  if (fd < 0) return -1;
  int result = -1;
  const char *texts[] = {environment("CNI_ARGS"), environment("CNI_CONTAINERID"), environment("CNI_IFNAME"), input};
  char header[128];
  int length = snprintf(header, sizeof header, "nodewall-egress/1 %s %zu %zu %zu %zu\n", command, strlen(texts[0]),
                        strlen(texts[1]), strlen(texts[2]), strlen(texts[3]));
  if (send_all(fd, header, (size_t)length, until) != 0) goto out;
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
    if (send_all(fd, texts[i], strlen(texts[i]), until) != 0) goto out;
  size_t got = 0;
  while (got < size - 1) {
    struct pollfd wait = {.fd = fd, .events = POLLIN};
    long left = until - now_ms();
    if (left <= 0 || poll(&wait, 1, (int)left) <= 0) goto out;
    ssize_t more = recv(fd, answer + got, size - 1 - got, 0);
    if (more <= 0) goto out;
    got += (size_t)more;
    answer[got] = '\0';
    char *end = strchr(answer, '\n');
    if (end == NULL) continue;
    *end = '\0';
    result = 0;
    break;
  }
out:
  close(fd);
  return result;
}

/* Whether the agent must have answered: it steers pods on this node. */
static int is_required(const char *socket_path) {
  char path[sizeof((struct sockaddr_un *)NULL)->sun_path + 16];
  const char *name = strrchr(socket_path, '/');
  int folder = name == NULL ? 0 : (int)(name - socket_path) + 1;
  snprintf(path, sizeof path, "%.*srequired", folder, socket_path);
  return access(path, F_OK) == 0;
}

static int print_result(void) {
  struct text result = field("prevResult");
  printf("%.*s\n", (int)result.length, result.at);
  return 0;
}

static int read_input(void) {
  size_t length = 0;
  while (length < LONGEST) {
    ssize_t more = read(STDIN_FILENO, input + length, LONGEST - length);
    if (more < 0 && errno == EINTR) continue;
    if (more < 0) return -1;
    if (more == 0) return strlen(input) == length ? 0 : -1;
    length += (size_t)more;
  }
  return -1;
}

/* Waits for the agent, as long as it is required. */
static int ask_until_answered(const struct sockaddr_un *agent, const char *command) {
  int isAdd = strcmp(command, "ADD") == 0;
  long until = now_ms() + (strcmp(command, "DEL") == 0 ? DEL_WAIT_MS : WAIT_MS);
  char answer[1024];
  while (ask(agent, command, until, answer, sizeof answer) != 0) {
    /* What it knows of the pod ends with the file of its result, too. */
    if (strcmp(command, "DEL") == 0) return 0;
    if (!is_required(agent->sun_path)) return isAdd ? print_result() : 0;
    if (now_ms() >= until) return fail(TRY_AGAIN, "the agent does not answer; pods start when it runs");
    struct timespec pause = {0, RETRY_MS * 1000000L};
    nanosleep(&pause, NULL);
  }
  if (strcmp(answer, "ok") == 0) return isAdd ? print_result() : 0;
  char *message = NULL;
  long code = strncmp(answer, "error ", 6) == 0 ? strtol(answer + 6, &message, 10) : 0;
  if (code <= 0 || *message != ' ') return fail(IO_FAILURE, "the agent's answer is not valid");
  return fail((int)code, message + 1);
}

int main(void) {
  const char *command = environment("CNI_COMMAND");
  if (read_input() != 0) return fail(IO_FAILURE, "cannot read the configuration, or it is larger than 1 MiB");
  struct text given = field("cniVersion");
  if (given.length > 0 && given.length < 20) version = given;
  if (strcmp(command, "VERSION") == 0) {
    printf("{\"cniVersion\":%.*s,\"supportedVersions\":[\"0.3.0\",\"0.3.1\",\"0.4.0\",\"1.0.0\",\"1.1.0\"]}\n",
           (int)version.length, version.at);
    return 0;
  }
  if (strcmp(command, "GC") == 0) return 0;

  struct sockaddr_un agent = {.sun_family = AF_UNIX, .sun_path = DEFAULT_SOCKET};
  struct text path = field("socket");
  if (path.length > 2) {
    if (*path.at != '"' || path.length - 2 >= sizeof agent.sun_path || memchr(path.at, '\\', path.length) != NULL)
      return fail(INVALID_CONFIG, "socket: must be a path of less than 108 bytes");
    memset(agent.sun_path, 0, sizeof agent.sun_path);
    memcpy(agent.sun_path, path.at + 1, path.length - 2);
  }
  if (strcmp(command, "STATUS") == 0) {
    int runs = connected(&agent, now_ms() + DEL_WAIT_MS) >= 0;
    return runs || !is_required(agent.sun_path) ? 0 : fail(NOT_AVAILABLE, "the agent does not run");
  }
  if (strcmp(command, "ADD") != 0 && strcmp(command, "DEL") != 0 && strcmp(command, "CHECK") != 0)
    return fail(INVALID_ENVIRONMENT, "CNI_COMMAND: must be ADD, DEL, CHECK, GC, STATUS or VERSION");
  if (strcmp(command, "ADD") == 0 && field("prevResult").length == 0)
    return fail(INVALID_CONFIG, "there is no prevResult: this plugin comes after others in a chain");
  return ask_until_answered(&agent, command);
}
