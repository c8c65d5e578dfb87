/* demo.c - the demonstration: two children, a folder with files to edit, and a text that says what to try.
 * Owns: the children, the folder's first contents.   May call: mem, log, cli, libuv.
 * Never: remove what somebody may have edited, signal a process it did not start.   Thread: one process, one loop. */
#include "demo.h"

#include <arpa/inet.h>
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <uv.h>

#include "cli.h"
#include "demo_files.h"
#include "log.h"
#include "mem.h"

enum { PORT_DEFAULT = 8888, LINE_BYTES_MAX = 4096, ARGS_MAX = 16 };

enum { CHILD_ORIGIN, CHILD_GATEWAY, CHILD_COUNT };

struct child {
  uv_process_t process;
  uv_pipe_t out; /* its standard output */
  struct mg_buf line;
  char space[1024];
  struct demo *demo;
  const char *name;
  int port; /* 0 until it listens */
  bool started;
  bool ended;
};

struct demo {
  uv_loop_t *loop;
  uv_signal_t signals[3];
  struct child children[CHILD_COUNT];
  char folder[PATH_MAX];
  char routes[PATH_MAX + 16];
  char pid[16];
  int wanted_port;
  int exit_code;
  bool stopping;
  char management[64];       /* where the dashboard is; empty: not told yet */
  char executable[PATH_MAX]; /* as one would type it */
};

/* ---- files ---- */

static bool make_folder(struct demo *demo)
{
  const char *parent = getenv("TMPDIR");
  if (!parent || *parent != '/') parent = "/tmp";
  int len = snprintf(demo->folder, sizeof demo->folder, "%s/moongate-demo-XXXXXX", parent);
  if (len < (int)sizeof demo->folder && mkdtemp(demo->folder)) return true;
  fprintf(stderr, "moongate demo: cannot make a folder in %s: %s\n", parent, strerror(errno));
  return false;
}

static bool write_file(const char *path, struct mg_str text)
{
  FILE *file = fopen(path, "wbx");
  bool done = file && fwrite(text.ptr, 1, text.len, file) == text.len;
  if (file && fclose(file) != 0) done = false;
  if (!done) fprintf(stderr, "moongate demo: cannot write %s: %s\n", path, strerror(errno));
  return done;
}

static bool write_files(struct demo *demo, int origin_port)
{
  char path[sizeof demo->folder + 32];
  struct mg_buf routes = {0};
  snprintf(path, sizeof path, "%s/filters", demo->folder);
  if (mkdir(path, 0755) < 0) {
    fprintf(stderr, "moongate demo: cannot make %s: %s\n", path, strerror(errno));
    return false;
  }
  snprintf(path, sizeof path, "%s/filters/greet.lua", demo->folder);
  snprintf(demo->routes, sizeof demo->routes, "%s/routes.yaml", demo->folder);
  mg_buf_printf(&routes, demo_routes, origin_port, origin_port);
  bool done = write_file(path, mg_str(demo_filter, sizeof demo_filter - 1)) &&
              write_file(demo->routes, mg_str(routes.ptr, routes.len));
  mg_buf_free(&routes);
  snprintf(path, sizeof path, "%s/server.yaml", demo->folder);
  return done && write_file(path, mg_str(demo_server, sizeof demo_server - 1));
}

/* True if something on this machine already listens there. */
static bool is_busy(int port)
{
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;
  if (fd < 0) return false;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  bool busy = bind(fd, (struct sockaddr *)&address, sizeof address) < 0 && errno == EADDRINUSE;
  close(fd);
  return busy;
}

/* ---- ending ---- */

static void close_handle(uv_handle_t *handle, void *context)
{
  (void)context;
  if (!uv_is_closing(handle)) uv_close(handle, NULL);
}

/* Ends the gateway, then the origin that its last requests need; once neither runs, nothing keeps the loop. */
static void stop(struct demo *demo, int number)
{
  demo->stopping = true;
  for (int i = CHILD_COUNT - 1; i >= 0; i--) {
    struct child *child = &demo->children[i];
    if (!child->started || child->ended) continue;
    uv_process_kill(&child->process, number);
    return;
  }
  uv_walk(demo->loop, close_handle, NULL);
}

static void fail(struct demo *demo)
{
  demo->exit_code = MG_EXIT_FAILED;
  if (!demo->stopping) stop(demo, SIGTERM);
}

static void on_signal(uv_signal_t *signal, int number)
{
  struct demo *demo = signal->data;
  (void)number;
  stop(demo, demo->stopping ? SIGKILL : SIGTERM);
}

static void on_child_exit(uv_process_t *process, int64_t status, int number)
{
  struct child *child = process->data;
  struct demo *demo = child->demo;
  child->ended = true;
  if (!demo->stopping) {
    demo->exit_code = MG_EXIT_FAILED;
    fprintf(stderr, "moongate demo: the %s ended by itself (%s %d)\n", child->name, number ? "signal" : "exit code",
            number ? number : (int)status);
  }
  stop(demo, SIGTERM);
}

/* ---- children ---- */

static void on_origin_listens(struct demo *demo);
static void on_gateway_listens(struct demo *demo);

static void on_line(struct child *child, const char *line)
{
  struct demo *demo = child->demo;
  const char *colon = strncmp(line, "listening on ", 13) == 0 ? strrchr(line, ':') : NULL;
  if (strncmp(line, "management on ", 14) == 0) {
    snprintf(demo->management, sizeof demo->management, "%s", line + 14);
    return;
  }
  if (child->port || !colon) {
    printf("%s: %s\n", child->name, line);
    fflush(stdout);
    return;
  }
  child->port = atoi(colon + 1);
  if (child == &demo->children[CHILD_ORIGIN])
    on_origin_listens(demo);
  else
    on_gateway_listens(demo);
}

static void on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *buf)
{
  struct child *child = handle->data;
  (void)suggested;
  *buf = uv_buf_init(child->space, sizeof child->space);
}

static void on_output(uv_stream_t *stream, ssize_t count, const uv_buf_t *buf)
{
  struct child *child = stream->data;
  if (count < 0) {
    uv_close((uv_handle_t *)stream, NULL);
    return;
  }
  mg_buf_append(&child->line, buf->base, (size_t)count);
  for (char *end; (end = memchr(child->line.ptr, '\n', child->line.len)) != NULL;) {
    *end = '\0';
    if (!child->demo->stopping) on_line(child, child->line.ptr);
    mg_buf_consume(&child->line, (size_t)(end + 1 - child->line.ptr));
  }
  if (child->line.len > LINE_BYTES_MAX) mg_buf_free(&child->line); /* no line of ours: dropped */
}

/* Starts this executable again with args (NULL at their end), in the folder, where no other configuration lies about;
 * its errors appear on our own stderr. */
static bool start(struct demo *demo, int which, const char *name, const char *const *args)
{
  struct child *child = &demo->children[which];
  char executable[] = "/proc/self/exe", *argv[ARGS_MAX] = {(char[]){"moongate"}};
  for (int i = 0; args[i]; i++) {
    MG_ASSERT(i + 2 < ARGS_MAX);
    argv[i + 1] = (char *)(uintptr_t)args[i]; /* execve's type; nobody writes there */
  }
  child->demo = demo;
  child->name = name;
  child->process.data = child->out.data = child;
  uv_pipe_init(demo->loop, &child->out, 0);
  uv_stdio_container_t stdio[3] = {
      {.flags = UV_IGNORE},
      {.flags = UV_CREATE_PIPE | UV_WRITABLE_PIPE, .data.stream = (uv_stream_t *)&child->out},
      {.flags = UV_INHERIT_FD, .data.fd = STDERR_FILENO}};
  setenv(MG_PARENT_VARIABLE, demo->pid, 1); /* if we are killed, they end too */
  uv_process_options_t options = {.file = executable,
                                  .args = argv,
                                  .cwd = demo->folder,
                                  .exit_cb = on_child_exit,
                                  .stdio = stdio,
                                  .stdio_count = 3};
  int fault = uv_spawn(demo->loop, &child->process, &options);
  if (fault < 0) {
    fprintf(stderr, "moongate demo: cannot start the %s: %s\n", name, uv_strerror(fault));
    return false;
  }
  child->started = true;
  return uv_read_start((uv_stream_t *)&child->out, on_alloc, on_output) == 0;
}

static void on_origin_listens(struct demo *demo)
{
  char port[16];
  if (is_busy(demo->wanted_port)) {
    printf("port %d is busy, taking a free one\n", demo->wanted_port);
    demo->wanted_port = 0;
  }
  snprintf(port, sizeof port, "%d", demo->wanted_port);
  const char *const args[] = {"run", "--routes",  demo->routes, "--host",    "127.0.0.1", "--port",
                              port,  "--workers", "1",          "--journal", "journals",  NULL};
  if (!write_files(demo, demo->children[CHILD_ORIGIN].port) || !start(demo, CHILD_GATEWAY, "gateway", args)) fail(demo);
}

static void on_gateway_listens(struct demo *demo)
{
  int port = demo->children[CHILD_GATEWAY].port;
  printf("listening on 127.0.0.1:%d\n\n", port);
  printf("A gateway with the built-in origin (127.0.0.1:%d) behind it; routes and filter are in\n  %s\n\n",
         demo->children[CHILD_ORIGIN].port, demo->folder);
  printf("Try\n"
         "  curl -i http://127.0.0.1:%d/echo/hello                   the origin echoes what it was asked\n"
         "  curl -i -H 'X-Name: Ada' http://127.0.0.1:%d/hello       filters/greet.lua adds X-Greeting\n"
         "  curl -i -H 'X-Name: Mallory' http://127.0.0.1:%d/hello   filters/greet.lua refuses\n\n",
         port, port, port);
  printf("Look\n");
  if (demo->management[0]) printf("  http://%s/   what it does, live\n", demo->management);
  printf("  %s journal find %s/journals   what was recorded; `show ID` in place of `find`: the messages\n\n",
         demo->executable, demo->folder);
  printf("Now edit %s/filters/greet.lua and save it: a line here says from when on requests run the new filter.\n"
         "A version that does not load is reported here, and the one before goes on.\n"
         "Ctrl-C ends the demonstration; the folder stays.\n",
         demo->folder);
  fflush(stdout);
}

static void watch_signals(struct demo *demo)
{
  static const int numbers[] = {SIGINT, SIGTERM, SIGHUP};
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
    uv_signal_init(demo->loop, &demo->signals[i]);
    demo->signals[i].data = demo;
    uv_signal_start(&demo->signals[i], on_signal, numbers[i]);
  }
}

int mg_demo_main(int argc, char **argv)
{
  static const char *const origin_args[] = {"origin", "--port", "0", NULL};
  struct mg_options options;
  int code = mg_cli_parse(&options, MG_OPTION_PORT, argc, argv);
  if (code != MG_EXIT_DONE) return code;
  struct demo *demo = mg_calloc(1, sizeof *demo);
  signal(SIGPIPE, SIG_IGN); /* a reader of our output that goes away must not orphan the children */
  demo->loop = uv_default_loop();
  snprintf(demo->pid, sizeof demo->pid, "%d", (int)getpid());
  if (readlink("/proc/self/exe", demo->executable, sizeof demo->executable - 1) <= 0)
    snprintf(demo->executable, sizeof demo->executable, "moongate");
  demo->wanted_port = options.port == MG_UNSET ? PORT_DEFAULT : (int)options.port;
  demo->exit_code = MG_EXIT_DONE;
  bool made = make_folder(demo);
  if (made) watch_signals(demo);
  if (!made || !start(demo, CHILD_ORIGIN, "origin", origin_args)) fail(demo);
  uv_run(demo->loop, UV_RUN_DEFAULT);
  MG_ASSERT(uv_loop_close(demo->loop) == 0);
  if (made) printf("what you edited is still in %s\n", demo->folder);
  for (int i = 0; i < CHILD_COUNT; i++) mg_buf_free(&demo->children[i].line);
  code = demo->exit_code;
  free(demo);
  return code;
}
