/* command.c - asks a running gateway one thing over its control socket.
 * Owns: one connection.   May call: mem, cli, control (path and connect), libc.   Never: start anything.
 * Thread: the main thread. */
#include "command.h"

#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "cli.h"
#include "control.h"

enum { PORT_DEFAULT = 8888, LAST_BREATH_MS = 5000 };

/* Names the other gateways whose sockets lie in the same directory, when there are any. */
static void hint_at_others(const char *path)
{
  char folder[MG_CONTROL_PATH_SIZE];
  const char *slash = strrchr(path, '/');
  if (!slash) return;
  snprintf(folder, sizeof folder, "%.*s", (int)(slash - path), path);
  DIR *entries = opendir(folder);
  if (!entries) return;
  unsigned count = 0;
  for (struct dirent *entry; (entry = readdir(entries));) {
    char other[MG_CONTROL_PATH_SIZE];
    char *end;
    unsigned long port = strtoul(entry->d_name, &end, 10);
    if (end == entry->d_name || strcmp(end, ".sock") != 0 || port > 65535) continue;
    if (snprintf(other, sizeof other, "%s/%s", folder, entry->d_name) >= (int)sizeof other) continue;
    int fd = mg_control_connect(other);
    if (fd < 0) continue;
    close(fd);
    fprintf(stderr, "%s%lu", count++ ? ", " : "gateways that answer here: --port ", port);
  }
  closedir(entries);
  if (count) fputc('\n', stderr);
}

static int ask(const char *path, const char *line)
{
  int fd = mg_control_connect(path);
  if (fd < 0) {
    fprintf(stderr, "no gateway answers at %s (%s); its port is chosen with --port, its socket with --control\n", path,
            strerror(errno));
    hint_at_others(path);
    return -1;
  }
  if (send(fd, line, strlen(line), MSG_NOSIGNAL) == (ssize_t)strlen(line)) return fd;
  fprintf(stderr, "the gateway at %s does not listen: %s\n", path, strerror(errno));
  close(fd);
  return -1;
}

/* A descriptor that becomes readable when the process at the other end is gone; -1 where the kernel cannot. */
static int watch_peer(int fd)
{
  struct ucred peer;
  socklen_t size = sizeof peer;
  if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) return -1;
  return (int)syscall(SYS_pidfd_open, peer.pid, 0);
}

static void read_all(int fd, struct mg_buf *answer)
{
  for (;;) {
    ssize_t count = read(fd, mg_buf_reserve(answer, 4096), 4096);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return;
    answer->len += (size_t)count;
  }
}

static int print(const struct mg_buf *answer)
{
  const char *end = answer->len ? memchr(answer->ptr, '\n', answer->len) : NULL;
  if (!end) {
    fprintf(stderr, "the gateway ended without an answer\n");
    return MG_EXIT_FAILED;
  }
  bool ok = end - answer->ptr == 2 && memcmp(answer->ptr, "ok", 2) == 0;
  fwrite(end + 1, 1, answer->len - (size_t)(end + 1 - answer->ptr), ok ? stdout : stderr);
  return ok ? MG_EXIT_DONE : MG_EXIT_FAILED;
}

int mg_command_main(int argc, char **argv)
{
  struct mg_options options;
  struct mg_buf error = {0}, answer = {0};
  char path[MG_CONTROL_PATH_SIZE], line[64];
  bool stop = strcmp(argv[0], "stop") == 0;
  unsigned allowed = MG_OPTIONS_CONTROL | (strcmp(argv[0], "status") == 0 ? MG_OPTION_JSON : 0);
  int code = mg_cli_parse(&options, allowed, argc, argv);
  if (code != MG_EXIT_DONE) return code;
  unsigned port = options.port == MG_UNSET ? PORT_DEFAULT : (unsigned)options.port;
  if (mg_control_path(path, options.control, port, false, &error) != 0) {
    fprintf(stderr, "%.*s\n", (int)error.len, error.ptr);
    mg_buf_free(&error);
    return MG_EXIT_FAILED;
  }
  snprintf(line, sizeof line, "%s%s\n", argv[0], options.json ? " json" : "");
  int fd = ask(path, line);
  if (fd < 0) return MG_EXIT_FAILED;
  int process = stop ? watch_peer(fd) : -1;
  read_all(fd, &answer);
  close(fd);
  struct pollfd gone = {.fd = process, .events = POLLIN};
  if (process >= 0 && poll(&gone, 1, LAST_BREATH_MS) >= 0) close(process);
  code = print(&answer);
  mg_buf_free(&answer);
  return code;
}
