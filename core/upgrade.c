/* upgrade.c - starting a successor, waiting for its word, ending it when that does not come.
 * Owns: the successor's process until it is ready, the channel to it, a timer.
 * May call: mem, channel, inherit, libuv.   Never: stop this gateway; that is for who is told.
 * Thread: the loop thread.   Ends: mg_upgrade_close(). */
#include "upgrade.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "channel.h"

enum { HANDLES = 3, VARIABLES_MAX = 1024, GRACE_MS = 2000 };

struct mg_upgrade {
  uv_process_t process;
  uv_timer_t timer;
  struct mg_channel channel;
  struct mg_upgrade_events events;
  struct mg_buf reason; /* why it does not serve, in its own words */
  int pid;
  unsigned open; /* handles that libuv still holds */
  bool ready;
  bool parted;
  bool timed_out;
  bool closing;
};

/* --- where we come from */

static bool is_this_file(const char *path)
{
  struct stat there, here;
  return stat(path, &there) == 0 && stat("/proc/self/exe", &here) == 0 && there.st_ino == here.st_ino &&
         there.st_dev == here.st_dev;
}

static bool join(char out[MG_UPGRADE_PATH_SIZE], const char *folder, size_t folder_len, const char *name)
{
  int len = snprintf(out, MG_UPGRADE_PATH_SIZE, "%.*s/%s", (int)folder_len, folder, name);
  return len < MG_UPGRADE_PATH_SIZE && is_this_file(out);
}

static bool find_in_path(char out[MG_UPGRADE_PATH_SIZE], const char *name)
{
  const char *folders = getenv("PATH");
  for (const char *at = folders ? folders : ""; *at;) {
    size_t len = strcspn(at, ":");
    if (len && *at == '/' && join(out, at, len, name)) return true;
    at += len + (at[len] == ':');
  }
  return false;
}

bool mg_upgrade_executable(char out[MG_UPGRADE_PATH_SIZE])
{
  const char *name = program_invocation_name;
  char here[PATH_MAX];
  if (*name == '/' && strlen(name) < MG_UPGRADE_PATH_SIZE && is_this_file(name)) return strcpy(out, name), true;
  if (strchr(name, '/') && getcwd(here, sizeof here) && join(out, here, strlen(here), name)) return true;
  if (!strchr(name, '/') && find_in_path(out, name)) return true;
  ssize_t len = readlink("/proc/self/exe", out, MG_UPGRADE_PATH_SIZE - 1);
  if (len <= 0) return false;
  out[len] = '\0';
  return true;
}

/* --- its end */

static void on_handle_closed(struct mg_upgrade *upgrade)
{
  if (--upgrade->open) return;
  mg_buf_free(&upgrade->reason);
  free(upgrade);
}

static void on_closed(uv_handle_t *handle)
{
  on_handle_closed(handle->data);
}

static void on_channel_closed(struct mg_channel *channel)
{
  on_handle_closed(channel->owner);
}

static void on_exit_of_successor(uv_process_t *process, int64_t code, int signal)
{
  struct mg_upgrade *upgrade = process->data;
  if (upgrade->closing || upgrade->ready) return;
  struct mg_buf text = {0};
  if (upgrade->timed_out)
    mg_buf_printf(&text, "it was not ready in time and was ended");
  else if (upgrade->reason.len)
    mg_buf_append(&text, upgrade->reason.ptr, upgrade->reason.len);
  else if (signal)
    mg_buf_printf(&text, "it was ended by signal %d", signal);
  else
    mg_buf_printf(&text, "it ended with exit code %d", (int)code);
  upgrade->events.failed(upgrade->events.context, mg_str(text.ptr, text.len));
  mg_buf_free(&text);
}

/* First it may end in order; then it is killed. */
static void on_time_over(uv_timer_t *timer)
{
  struct mg_upgrade *upgrade = timer->data;
  uv_process_kill(&upgrade->process, upgrade->timed_out ? SIGKILL : SIGTERM);
  if (!upgrade->timed_out) uv_timer_start(timer, on_time_over, GRACE_MS, 0);
  upgrade->timed_out = true;
}

/* --- its words */

static void on_frame(struct mg_channel *channel, const struct mg_frame *frame)
{
  struct mg_upgrade *upgrade = channel->owner;
  if (frame->type != MG_FRAME_READY || upgrade->ready || upgrade->timed_out || upgrade->closing) return;
  if (frame->payload.len) { /* its end follows */
    upgrade->reason.len = 0;
    mg_buf_append(&upgrade->reason, frame->payload.ptr, frame->payload.len);
    return;
  }
  upgrade->ready = true;
  uv_timer_stop(&upgrade->timer);
  upgrade->events.ready(upgrade->events.context, upgrade->pid);
}

static void on_channel_end(struct mg_channel *channel)
{
  struct mg_upgrade *upgrade = channel->owner;
  mg_channel_close(channel);
  if (!upgrade->ready || upgrade->parted || upgrade->closing) return;
  upgrade->parted = true;
  upgrade->events.parted(upgrade->events.context);
}

/* --- its start */

static bool is_replaced(const char *variable)
{
  static const char *const names[] = {MG_INHERIT_VARIABLE "=", "LISTEN_", "WATCHDOG_PID="};
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
    if (strncmp(variable, names[i], strlen(names[i])) == 0) return true;
  return false;
}

static int spawn(struct mg_upgrade *upgrade, uv_loop_t *loop, const char *executable, char *const *argv,
                 const struct mg_inherited *inherited)
{
  enum { FIRST = MG_INHERITED_FIRST_FD };
  uv_stdio_container_t stdio[FIRST + 2 + MG_INHERITED_MAX] = {0};
  char *environment[VARIABLES_MAX + 2], described[128] = MG_INHERIT_VARIABLE "=";
  int count = 0, variables = 0;
  for (; count < FIRST; count++) {
    stdio[count].flags = UV_INHERIT_FD;
    stdio[count].data.fd = count;
  }
  stdio[count].flags = UV_CREATE_PIPE | UV_READABLE_PIPE | UV_WRITABLE_PIPE;
  stdio[count++].data.stream = (uv_stream_t *)&upgrade->channel.pipe;
  for (int i = -1; i < (int)inherited->listener_count; i++) {
    int fd = i < 0 ? inherited->management : inherited->listeners[i];
    if (fd < 0) continue;
    stdio[count].flags = UV_INHERIT_FD;
    stdio[count++].data.fd = fd;
  }
  mg_inherit_describe(inherited, described + strlen(described), sizeof described - strlen(described));
  for (char **at = environ; *at && variables < VARIABLES_MAX; at++)
    if (!is_replaced(*at)) environment[variables++] = *at;
  environment[variables++] = described;
  environment[variables] = NULL;
  uv_process_options_t how = {.file = executable,
                              .args = (char **)(uintptr_t)argv,
                              .env = environment,
                              .exit_cb = on_exit_of_successor,
                              .stdio = stdio,
                              .stdio_count = count};
  return uv_spawn(loop, &upgrade->process, &how);
}

struct mg_upgrade *mg_upgrade_start(uv_loop_t *loop, const char *executable, char *const *argv,
                                    const struct mg_inherited *inherited, uint64_t limit_ms,
                                    const struct mg_upgrade_events *events, struct mg_buf *error)
{
  struct mg_upgrade *upgrade = mg_calloc(1, sizeof *upgrade);
  *upgrade = (struct mg_upgrade){.events = *events, .open = HANDLES};
  upgrade->process.data = upgrade->timer.data = upgrade->channel.owner = upgrade;
  upgrade->channel.on_frame = on_frame;
  upgrade->channel.on_end = on_channel_end;
  upgrade->channel.on_closed = on_channel_closed;
  uv_timer_init(loop, &upgrade->timer);
  mg_channel_init(&upgrade->channel, loop);
  int result = spawn(upgrade, loop, executable, argv, inherited);
  if (result == 0) result = mg_channel_start(&upgrade->channel);
  if (result != 0) {
    mg_buf_printf(error, "%s cannot be started: %s", executable, uv_strerror(result));
    mg_upgrade_close(&upgrade);
    return NULL;
  }
  upgrade->pid = upgrade->process.pid;
  uv_timer_start(&upgrade->timer, on_time_over, limit_ms, 0);
  return upgrade;
}

int mg_upgrade_pid(const struct mg_upgrade *upgrade)
{
  return upgrade->pid;
}

void mg_upgrade_send(struct mg_upgrade *upgrade, struct mg_str counters, bool last)
{
  if (upgrade->parted || upgrade->closing) return;
  mg_channel_send(&upgrade->channel, MG_FRAME_COUNTERS, last, counters);
}

void mg_upgrade_close(struct mg_upgrade **upgrade_at)
{
  struct mg_upgrade *upgrade = *upgrade_at;
  *upgrade_at = NULL;
  if (!upgrade) return;
  upgrade->closing = true;
  if (!upgrade->ready && upgrade->pid) uv_process_kill(&upgrade->process, SIGTERM);
  mg_channel_close(&upgrade->channel);
  uv_close((uv_handle_t *)&upgrade->process, on_closed);
  uv_close((uv_handle_t *)&upgrade->timer, on_closed);
}
