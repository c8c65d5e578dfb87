/* health.c - probes, and what follows from them for a target.
 * Owns: one check per target and settings, with its timer and, while it asks, a connection.
 * May call: mem, log, http1 (answers' heads), shm, libuv.   Never: wait, choose a target for a request.
 * Thread: the loop thread.   Ends: mg_health_close(). */
#include "health.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/un.h>

#include "http1.h"
#include "log.h"
#include "probe.h"

enum override { OVERRIDE_NONE, OVERRIDE_UP, OVERRIDE_DOWN };
enum { FIELDS = 8, SPREAD_STEPS = 16 };

/* What one target is asked, and what it answered. */
struct check {
  struct check *next;
  struct mg_health *health;
  struct mg_target_cell *cell;
  struct mg_probe probe;
  uv_timer_t timer; /* until the next probe */
  char *line;       /* its settings, the route's index aside: checks with the same line are one */
  char *authority;
  char *path;
  uint64_t interval_ms;
  unsigned rise, fall;
  enum override override;
  unsigned streak; /* answers in a row that speak against its state */
  unsigned open;   /* handles */
  bool down;
  bool wanted;
  bool closing;
  time_t since;
  char why[MG_PROBE_WHY_SIZE];
};

struct use { /* of a check by a route */
  unsigned route;
  struct check *check;
};

struct mg_health {
  uv_loop_t *loop;
  struct mg_shm *shm;
  struct check *checks;
  struct use *uses;
  unsigned use_count;
  bool closing;
};

static void free_when_done(struct mg_health *health)
{
  if (!health->closing || health->checks) return;
  free(health->uses);
  free(health);
}

static void one_closed(struct check *check)
{
  if (--check->open) return;
  struct mg_health *health = check->health;
  struct check **at = &health->checks;
  while (*at != check) at = &(*at)->next;
  *at = check->next;
  free(check->line);
  free(check->authority);
  free(check->path);
  free(check);
  free_when_done(health);
}

static void on_timer_closed(uv_handle_t *handle)
{
  one_closed(handle->data);
}

static void on_probe_closed(void *context)
{
  one_closed(context);
}

static void close_check(struct check *check)
{
  if (check->closing) return;
  check->closing = true;
  uv_close((uv_handle_t *)&check->timer, on_timer_closed);
  mg_probe_close(&check->probe, on_probe_closed);
}

/* --- what the checks of a target mean for it */

static bool is_down(const struct mg_health *health, const struct mg_target_cell *cell)
{
  bool down = false, up = false;
  for (const struct check *check = health->checks; check; check = check->next) {
    if (check->cell != cell || check->closing) continue;
    if (check->override == OVERRIDE_DOWN) return true;
    up = up || check->override == OVERRIDE_UP;
    down = down || check->down;
  }
  return down && !up;
}

static void publish(struct mg_health *health, struct mg_target_cell *cell)
{
  bool down = is_down(health, cell);
  if (down == (atomic_load(&cell->down) != 0)) return;
  if (!down) atomic_store(&cell->up_since_ms, uv_hrtime() / 1000000);
  atomic_store(&cell->down, down);
}

static void turn(struct check *check, bool down)
{
  check->down = down;
  check->streak = 0;
  check->since = time(NULL);
  if (down)
    mg_log(MG_LOG_WARN, "upstream target %s is down: GET %s %s", check->cell->key, check->path, check->why);
  else
    mg_log(MG_LOG_INFO, "upstream target %s is up again", check->cell->key);
  publish(check->health, check->cell);
}

static void on_timer(uv_timer_t *timer);

static void on_probed(void *context, const char *why)
{
  struct check *check = context;
  bool ok = why == NULL;
  if (check->closing) return;
  if (!ok) snprintf(check->why, sizeof check->why, "%s", why);
  check->streak = ok == check->down ? check->streak + 1 : 0;
  if (check->streak >= (check->down ? check->rise : check->fall)) turn(check, !check->down);
  uv_timer_start(&check->timer, on_timer, check->interval_ms, 0);
}

static void on_timer(uv_timer_t *timer)
{
  struct check *check = timer->data;
  struct sockaddr_storage addresses[MG_TARGET_ADDRESSES_MAX];
  unsigned count = mg_target_addresses(check->cell, addresses);
  mg_probe_start(&check->probe, addresses, count, check->authority, check->path);
}

/* --- settings */

static bool read_number(struct mg_str text, uint64_t *number)
{
  *number = 0;
  if (!text.len || text.len > 12) return false;
  for (size_t i = 0; i < text.len; i++) {
    if (text.ptr[i] < '0' || text.ptr[i] > '9') return false;
    *number = *number * 10 + (uint64_t)(text.ptr[i] - '0');
  }
  return true;
}

static bool split_line(struct mg_str line, struct mg_str fields[FIELDS])
{
  for (unsigned i = 0; i < FIELDS; i++) {
    const char *tab = memchr(line.ptr, '\t', line.len);
    if ((tab == NULL) != (i == FIELDS - 1)) return false;
    size_t len = tab ? (size_t)(tab - line.ptr) : line.len;
    fields[i] = mg_str(line.ptr, len);
    if (tab) line = mg_str(tab + 1, line.len - len - 1);
  }
  return true;
}

static struct check *find_check(struct mg_health *health, struct mg_str line)
{
  for (struct check *check = health->checks; check; check = check->next)
    if (!check->closing && strlen(check->line) == line.len && memcmp(check->line, line.ptr, line.len) == 0)
      return check;
  return NULL;
}

/* New checks of one interval begin spread over a part of it, so that not all targets are asked at once. */
static uint64_t first_wait(const struct check *check)
{
  unsigned place = 0;
  for (const struct check *other = check->next; other; other = other->next) place++;
  return check->interval_ms + check->interval_ms / 10 * (place % SPREAD_STEPS) / SPREAD_STEPS;
}

static struct check *new_check(struct mg_health *health, struct mg_str line, const struct mg_str fields[FIELDS])
{
  uint64_t interval, rise, fall;
  struct mg_target_cell *cell = mg_shm_find_target(health->shm, fields[5]);
  if (!cell || !read_number(fields[1], &interval) || !read_number(fields[2], &rise) || !read_number(fields[3], &fall))
    return NULL;
  struct check *check = mg_calloc(1, sizeof *check);
  *check = (struct check){.next = health->checks,
                          .health = health,
                          .cell = cell,
                          .line = mg_strndup(line.ptr, line.len),
                          .authority = mg_strndup(fields[6].ptr, fields[6].len),
                          .path = mg_strndup(fields[7].ptr, fields[7].len),
                          .interval_ms = interval,
                          .rise = (unsigned)rise,
                          .fall = (unsigned)fall,
                          .open = 2};
  if (mg_str_equal(fields[4], MG_STR("FORCE_UP"))) check->override = OVERRIDE_UP;
  if (mg_str_equal(fields[4], MG_STR("FORCE_DOWN"))) check->override = OVERRIDE_DOWN;
  check->down = check->override == OVERRIDE_DOWN;
  health->checks = check;
  uv_timer_init(health->loop, &check->timer);
  check->timer.data = check;
  mg_probe_init(&check->probe, health->loop, on_probed, check);
  if (check->override == OVERRIDE_NONE) uv_timer_start(&check->timer, on_timer, first_wait(check), 0);
  return check;
}

static void add_use(struct mg_health *health, struct mg_str line)
{
  struct mg_str fields[FIELDS];
  uint64_t route;
  if (!split_line(line, fields) || !read_number(fields[0], &route)) {
    mg_log(MG_LOG_ERROR, "the bundle has a health check that cannot be read: %.*s", (int)line.len, line.ptr);
    return;
  }
  struct mg_str settings = mg_str(fields[1].ptr, (size_t)(line.ptr + line.len - fields[1].ptr));
  struct check *check = find_check(health, settings);
  if (!check) check = new_check(health, settings, fields);
  if (!check) return;
  check->wanted = true;
  health->uses[health->use_count++] = (struct use){(unsigned)route, check};
}

void mg_health_follow(struct mg_health *health, struct mg_str section)
{
  unsigned lines = 0;
  for (size_t i = 0; i < section.len; i++) lines += section.ptr[i] == '\n';
  for (struct check *check = health->checks; check; check = check->next) check->wanted = false;
  free(health->uses);
  health->uses = mg_calloc(lines + 1, sizeof *health->uses);
  health->use_count = 0;
  while (lines--) {
    size_t len = (size_t)((const char *)memchr(section.ptr, '\n', section.len) - section.ptr);
    add_use(health, mg_str(section.ptr, len));
    section = mg_str(section.ptr + len + 1, section.len - len - 1);
  }
  for (struct check *check = health->checks; check; check = check->next)
    if (!check->wanted) close_check(check);
  for (struct check *check = health->checks; check; check = check->next) publish(health, check->cell);
}

/* --- from outside */

struct mg_health *mg_health_open(uv_loop_t *loop, struct mg_shm *shm)
{
  struct mg_health *health = mg_calloc(1, sizeof *health);
  *health = (struct mg_health){.loop = loop, .shm = shm};
  return health;
}

unsigned mg_health_count(const struct mg_health *health)
{
  return health->use_count;
}

struct mg_health_view mg_health_view(const struct mg_health *health, unsigned i)
{
  const struct use *use = &health->uses[i];
  const struct check *check = use->check;
  return (struct mg_health_view){.route = use->route,
                                 .key = check->cell->key,
                                 .down = check->down,
                                 .overridden = check->override != OVERRIDE_NONE,
                                 .since = check->since,
                                 .why = check->why};
}

void mg_health_close(struct mg_health **health_at)
{
  struct mg_health *health = *health_at;
  *health_at = NULL;
  if (!health) return;
  health->closing = true;
  health->use_count = 0;
  for (struct check *check = health->checks; check; check = check->next) close_check(check);
  free_when_done(health);
}
