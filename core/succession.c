/* succession.c - hands over and takes over, in the words of upgrade.h.
 * Owns: the two sides of an upgrade, what predecessors have counted.
 * May call: mem, log, inherit, listen, upgrade, notify, shm, inventory.   Never: stop the master.
 * Thread: the loop thread.   Ends: mg_succession_close(). */
#include "succession.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "listen.h"
#include "log.h"
#include "notify.h"

enum { START_MS = 30000 /* beside the time that the configuration may take */ };

__attribute__((format(printf, 2, 3))) static void note(struct mg_succession *succession, const char *format, ...)
{
  struct tm utc;
  time_t now = time(NULL);
  va_list args;
  gmtime_r(&now, &utc);
  size_t len = strftime(succession->text, sizeof succession->text, "%Y-%m-%dT%H:%M:%SZ, ", &utc);
  va_start(args, format);
  vsnprintf(succession->text + len, sizeof succession->text - len, format, args);
  va_end(args);
}

/* --- after a predecessor */

static void on_counted(void *context, struct mg_str counters)
{
  struct mg_succession *succession = context;
  succession->past.len = 0;
  mg_buf_append(&succession->past, counters.ptr, counters.len);
  mg_succession_count(succession);
}

static void on_alone(void *context)
{
  struct mg_succession *succession = context;
  succession->predecessor_lives = false;
  if (succession->shm) mg_shm_share_listeners(succession->shm, succession->inherited.activated);
  succession->events.alone(succession->events.context);
}

int mg_succession_begin(struct mg_succession *succession, uv_loop_t *loop, char *const *argv,
                        const struct mg_succession_events *events, struct mg_buf *error)
{
  const struct mg_heir_events heir_events = {succession, on_counted, on_alone};
  *succession = (struct mg_succession){.loop = loop, .argv = argv, .events = *events};
  if (!mg_upgrade_executable(succession->executable)) succession->executable[0] = '\0';
  if (mg_inherit_take(&succession->inherited, error) != 0) return -1;
  if (succession->inherited.channel < 0) return 0;
  succession->heir = mg_heir_open(loop, succession->inherited.channel, &heir_events, error);
  succession->predecessor_lives = succession->heir != NULL;
  return succession->heir ? 0 : -1;
}

int mg_succession_listeners(struct mg_succession *succession, const struct mg_settings *settings,
                            struct mg_listeners *listeners, struct sockaddr_storage *address, struct mg_buf *error)
{
  struct mg_inherited *inherited = &succession->inherited;
  struct sockaddr_storage given;
  char text[MG_LISTEN_TEXT_SIZE];
  unsigned workers = (unsigned)settings->workers;
  int backlog = settings->backlog < INT32_MAX ? (int)settings->backlog : INT32_MAX;
  if (!inherited->listener_count) {
    if (mg_listen_address(address, settings->host, (unsigned)settings->port, error) != 0) return -1;
    if (settings->port && mg_listen_probe(address, error) != 0) return -1;
    return mg_listeners_open(listeners, workers, address, backlog, error);
  }
  if (mg_inherit_share(inherited, workers, backlog, listeners, &given, error) != 0) return -1;
  if (!inherited->activated && mg_listen_address(address, settings->host, (unsigned)settings->port, error) != 0)
    return -1;
  if (!inherited->activated && !mg_inherit_same(address, &given, settings->port == 0)) {
    mg_listen_text(&given, text);
    mg_buf_printf(error,
                  "server.host or server.port has changed, and an upgrade keeps its sockets (%s): stop the gateway and "
                  "start it again",
                  text);
    return -1;
  }
  *address = given;
  return 0;
}

int mg_succession_management(struct mg_succession *succession, const struct mg_settings *settings,
                             struct sockaddr_storage *address, struct mg_buf *error)
{
  if (mg_listen_address(address, settings->management_host, (unsigned)settings->management_port, error) != 0) return -1;
  int fd = mg_inherit_management(&succession->inherited, address);
  if (fd < 0) fd = mg_listen_alone(address, error);
  if (fd < 0) mg_buf_printf(error, "; the management port is chosen with --management-port or management.port");
  return fd;
}

void mg_succession_bind(struct mg_succession *succession, struct mg_shm *shm, const struct mg_settings *settings,
                        const struct mg_inventory *inventory)
{
  succession->shm = shm;
  succession->settings = settings;
  succession->inventory = inventory;
  mg_shm_share_listeners(shm, succession->predecessor_lives || succession->inherited.activated);
  mg_shm_set_first_slot(shm, succession->inherited.first_slot);
}

bool mg_succession_awaited(const struct mg_succession *succession)
{
  return succession->predecessor_lives;
}

void mg_succession_ready(struct mg_succession *succession)
{
  if (!succession->heir) return;
  mg_heir_tell(succession->heir, mg_str(NULL, 0));
  note(succession, "took over from process %d", succession->inherited.predecessor);
}

void mg_succession_refuse(struct mg_succession *succession, struct mg_str reason)
{
  if (succession->heir) mg_heir_tell(succession->heir, reason);
}

void mg_succession_count(struct mg_succession *succession)
{
  if (succession->shm)
    mg_counters_read(succession->shm, (unsigned)succession->settings->workers,
                     mg_str(succession->past.ptr, succession->past.len));
}

/* --- before a successor */

static void send_counters(struct mg_succession *succession, bool last)
{
  struct mg_buf text = {0};
  mg_counters_write(succession->shm, (unsigned)succession->settings->workers, succession->inventory, &text);
  mg_upgrade_send(succession->upgrade, mg_str(text.ptr, text.len), last);
  mg_buf_free(&text);
}

static void on_ready(void *context, int pid)
{
  struct mg_succession *succession = context;
  succession->handed_over = true;
  note(succession, "process %d has taken over", pid);
  mg_notify("MAINPID=%d\nSTATUS=process %d has taken over", pid, pid); /* before it speaks for itself */
  send_counters(succession, false);
  succession->events.handed_over(succession->events.context);
}

static void on_failed(void *context, struct mg_str reason)
{
  struct mg_succession *succession = context;
  while (reason.len && reason.ptr[reason.len - 1] == '\n') reason.len--;
  mg_log(MG_LOG_ERROR, "the upgrade failed, this process goes on: %.*s", (int)reason.len, reason.ptr);
  note(succession, "failed, process %d goes on: %.*s", (int)getpid(), (int)reason.len, reason.ptr);
  mg_succession_cancel(succession);
}

static void on_parted(void *context)
{
  struct mg_succession *succession = context;
  if (succession->parting) succession->events.parted(succession->events.context);
}

void mg_succession_start(struct mg_succession *succession, const struct mg_listeners *listeners, int management)
{
  const struct mg_upgrade_events events = {succession, on_ready, on_failed, on_parted};
  const char *why = succession->upgrade             ? "one is under way"
                    : succession->predecessor_lives ? "the process before this one has not ended yet"
                    : !*succession->executable      ? "the path of the executable is not known"
                    : getpid() == 1                 ? "a container ends with its process 1, which this is"
                                                    : NULL;
  if (why) {
    mg_log(MG_LOG_ERROR, "no upgrade now: %s", why);
    return;
  }
  struct mg_inherited given = {.management = management,
                               .channel = -1,
                               .predecessor = (int)getpid(),
                               .first_slot = mg_shm_first_slot(succession->shm) ? 0 : MG_WORKERS_MAX,
                               .activated = succession->inherited.activated};
  for (unsigned i = 0; i < listeners->count && i < MG_INHERITED_MAX; i++)
    given.listeners[given.listener_count++] = listeners->all[i].fd;
  struct mg_buf error = {0};
  mg_shm_share_listeners(succession->shm, true);
  succession->upgrade = mg_upgrade_start(succession->loop, succession->executable, succession->argv, &given,
                                         START_MS + succession->settings->script_load_max_ms, &events, &error);
  if (!succession->upgrade) {
    on_failed(succession, mg_str(error.ptr, error.len));
  } else {
    int pid = mg_upgrade_pid(succession->upgrade);
    mg_log(MG_LOG_INFO, "starting %s as process %d, which is to take over", succession->executable, pid);
    note(succession, "process %d is starting to take over", pid);
  }
  mg_buf_free(&error);
}

void mg_succession_part(struct mg_succession *succession)
{
  succession->parting = true;
  send_counters(succession, true);
}

void mg_succession_cancel(struct mg_succession *succession)
{
  if (succession->handed_over) return;
  mg_upgrade_close(&succession->upgrade);
  if (succession->shm)
    mg_shm_share_listeners(succession->shm, succession->predecessor_lives || succession->inherited.activated);
}

void mg_succession_close(struct mg_succession *succession)
{
  mg_heir_close(&succession->heir);
  mg_upgrade_close(&succession->upgrade);
  mg_buf_free(&succession->past);
}
