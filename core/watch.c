/* watch.c - directory events and a slow look, both leading to one signature.
 * Owns: an fs event per directory, two timers.
 * May call: mem, log, libuv, libc.   Never: read a file's contents.
 * Thread: the loop thread.   Ends: mg_watch_close(). */
#include "watch.h"

#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "log.h"
#include "mem.h"

enum { LOOK_INTERVAL_MS = 1000, DEBOUNCE_MS = 50, DEPTH_MAX = 4, FILES_MAX = 10000 };

struct folder {
  uv_fs_event_t event;
  struct mg_watch *watch;
  char path[PATH_MAX];
  bool active;  /* event is started */
  dev_t device; /* of the directory that event looks at: a new one of the same name needs a new event */
  ino_t inode;
};

enum { BESIDE, FILTERS, FOLDERS };

struct mg_watch {
  uv_timer_t look;
  uv_timer_t settle;
  struct folder folders[FOLDERS];
  char routes[PATH_MAX];
  bool lua_beside; /* the routes are Lua and may require what lies beside them */
  uint64_t signature;
  void (*changed)(void *context);
  void *context;
  unsigned open;
  bool closing;
};

static uint64_t mix(uint64_t hash, const void *bytes, size_t len)
{
  const unsigned char *at = bytes;
  for (size_t i = 0; i < len; i++) hash = (hash ^ at[i]) * 1099511628211u; /* FNV-1a */
  return hash;
}

static uint64_t file_signature(const char *path)
{
  struct stat st;
  uint64_t hash = mix(14695981039346656037u, path, strlen(path));
  if (stat(path, &st) != 0) return hash;
  hash = mix(hash, &st.st_dev, sizeof st.st_dev);
  hash = mix(hash, &st.st_ino, sizeof st.st_ino);
  hash = mix(hash, &st.st_size, sizeof st.st_size);
  hash = mix(hash, &st.st_mtim, sizeof st.st_mtim);
  return mix(hash, &st.st_ctim, sizeof st.st_ctim);
}

static bool ends_with_lua(const char *name)
{
  size_t len = strlen(name);
  return len > 4 && strcmp(name + len - 4, ".lua") == 0;
}

/* The sum of the signatures of all Lua files below path; a sum, because a directory has no order. */
static uint64_t folder_signature(const char *path, int depth, unsigned *files)
{
  DIR *folder = opendir(path);
  if (!folder) return 0;
  uint64_t sum = 1;
  char below[PATH_MAX];
  for (struct dirent *entry; (entry = readdir(folder)) && *files < FILES_MAX;) {
    if (entry->d_name[0] == '.') continue;
    if (snprintf(below, sizeof below, "%s/%s", path, entry->d_name) >= (int)sizeof below) continue;
    if (ends_with_lua(entry->d_name)) {
      sum += file_signature(below);
      ++*files;
    } else if (depth > 1 && (entry->d_type == DT_DIR || entry->d_type == DT_LNK)) {
      sum += folder_signature(below, depth - 1, files);
    }
  }
  closedir(folder);
  return sum;
}

static uint64_t signature(const struct mg_watch *watch)
{
  unsigned files = 0;
  uint64_t sum = file_signature(watch->routes) + folder_signature(watch->folders[FILTERS].path, DEPTH_MAX, &files);
  return watch->lua_beside ? sum + folder_signature(watch->folders[BESIDE].path, 1, &files) : sum;
}

static void on_settled(uv_timer_t *timer)
{
  struct mg_watch *watch = timer->data;
  watch->changed(watch->context);
}

static void look(struct mg_watch *watch)
{
  uint64_t now = signature(watch);
  if (now == watch->signature) return;
  watch->signature = now;
  uv_timer_start(&watch->settle, on_settled, DEBOUNCE_MS, 0);
}

static void on_event(uv_fs_event_t *event, const char *name, int events, int status)
{
  (void)name;
  (void)events;
  (void)status;
  struct folder *folder = event->data;
  if (!folder->watch->closing) look(folder->watch);
}

/* Starts the event of a directory that is new under its path; ends it where there is none any more. */
static void follow(struct folder *folder)
{
  struct stat st;
  bool there = stat(folder->path, &st) == 0 && S_ISDIR(st.st_mode);
  if (folder->active && there && st.st_dev == folder->device && st.st_ino == folder->inode) return;
  if (folder->active) uv_fs_event_stop(&folder->event);
  folder->active = there && uv_fs_event_start(&folder->event, on_event, folder->path, 0) == 0;
  folder->device = there ? st.st_dev : 0;
  folder->inode = there ? st.st_ino : 0;
}

static void on_look(uv_timer_t *timer)
{
  struct mg_watch *watch = timer->data;
  for (int i = 0; i < FOLDERS; i++) follow(&watch->folders[i]);
  look(watch);
}

static void set_paths(struct mg_watch *watch, const char *routes)
{
  const char *slash = strrchr(routes, '/');
  int len = slash == routes ? 1 : slash ? (int)(slash - routes) : 1;
  const char *folder = slash ? routes : ".";
  snprintf(watch->routes, sizeof watch->routes, "%s", routes);
  snprintf(watch->folders[BESIDE].path, PATH_MAX, "%.*s", len, folder);
  if (snprintf(watch->folders[FILTERS].path, PATH_MAX, "%.*s/filters", len, folder) >= PATH_MAX)
    mg_log(MG_LOG_WARN, "the path of %s is too long to watch its filters", routes);
  watch->lua_beside = ends_with_lua(routes);
}

struct mg_watch *mg_watch_open(uv_loop_t *loop, const char *routes, void (*changed)(void *context), void *context)
{
  struct mg_watch *watch = mg_calloc(1, sizeof *watch);
  watch->changed = changed;
  watch->context = context;
  watch->open = FOLDERS + 2;
  set_paths(watch, routes);
  for (int i = 0; i < FOLDERS; i++) {
    struct folder *folder = &watch->folders[i];
    folder->watch = watch;
    uv_fs_event_init(loop, &folder->event);
    folder->event.data = folder;
    follow(folder);
  }
  uv_timer_init(loop, &watch->look);
  uv_timer_init(loop, &watch->settle);
  watch->look.data = watch->settle.data = watch;
  watch->signature = signature(watch);
  uv_timer_start(&watch->look, on_look, LOOK_INTERVAL_MS, LOOK_INTERVAL_MS);
  return watch;
}

static void one_closed(struct mg_watch *watch)
{
  if (--watch->open == 0) free(watch);
}

static void on_timer_closed(uv_handle_t *handle)
{
  one_closed(handle->data);
}

static void on_event_closed(uv_handle_t *handle)
{
  one_closed(((struct folder *)handle->data)->watch);
}

void mg_watch_close(struct mg_watch **watch_at)
{
  struct mg_watch *watch = *watch_at;
  *watch_at = NULL;
  if (!watch) return;
  watch->closing = true;
  for (int i = 0; i < FOLDERS; i++) uv_close((uv_handle_t *)&watch->folders[i].event, on_event_closed);
  uv_close((uv_handle_t *)&watch->look, on_timer_closed);
  uv_close((uv_handle_t *)&watch->settle, on_timer_closed);
}
