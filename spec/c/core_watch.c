/* core_watch.c - which changes in a folder are noticed, and how often. */
#include "watch.h"

#include <sys/stat.h>
#include <unistd.h>

#include "t.h"

struct scene {
  uv_loop_t loop;
  struct mg_watch *watch;
  char folder[64];
  unsigned changes;
};

static void on_changed(void *context)
{
  ((struct scene *)context)->changes++;
}

static const char *in_folder(const struct scene *scene, const char *name)
{
  static char paths[4][160];
  static unsigned next;
  char *path = paths[next++ % 4];
  snprintf(path, sizeof paths[0], "%s/%s", scene->folder, name);
  return path;
}

static void write_file(const struct scene *scene, const char *name, const char *text)
{
  FILE *file = fopen(in_folder(scene, name), "w");
  CHECK(file != NULL);
  fputs(text, file);
  fclose(file);
}

static void open_scene(struct scene *scene)
{
  memset(scene, 0, sizeof *scene);
  snprintf(scene->folder, sizeof scene->folder, "/tmp/moongate-watch.XXXXXX");
  CHECK(mkdtemp(scene->folder) != NULL);
  CHECK_INT(uv_loop_init(&scene->loop), 0);
  write_file(scene, "routes.yaml", "one");
  scene->watch = mg_watch_open(&scene->loop, in_folder(scene, "routes.yaml"), on_changed, scene);
}

static void close_scene(struct scene *scene)
{
  mg_watch_close(&scene->watch);
  uv_run(&scene->loop, UV_RUN_DEFAULT);
  CHECK_INT(uv_loop_close(&scene->loop), 0);
  char command[128];
  snprintf(command, sizeof command, "rm -r '%s'", scene->folder);
  CHECK_INT(system(command), 0);
}

/* Runs the loop for ms; returns the changes that were told meanwhile. */
static unsigned wait_for(struct scene *scene, unsigned ms)
{
  unsigned before = scene->changes;
  uint64_t until = uv_hrtime() / 1000000 + ms;
  while (uv_hrtime() / 1000000 < until) {
    uv_run(&scene->loop, UV_RUN_NOWAIT);
    usleep(2000);
  }
  return scene->changes - before;
}

TEST(a_burst_of_writes_is_one_change)
{
  struct scene scene;
  open_scene(&scene);
  CHECK_INT(wait_for(&scene, 100), 0);
  for (int i = 0; i < 5; i++) {
    write_file(&scene, "routes.yaml", i % 2 ? "two" : "three");
    wait_for(&scene, 5);
  }
  CHECK_INT(scene.changes + wait_for(&scene, 300), 1);
  close_scene(&scene);
}

TEST(a_rename_into_place_and_a_link_swap_are_seen)
{
  struct scene scene;
  open_scene(&scene);
  write_file(&scene, "routes.yaml.new", "two");
  CHECK_INT(wait_for(&scene, 200), 0);
  CHECK_INT(rename(in_folder(&scene, "routes.yaml.new"), in_folder(&scene, "routes.yaml")), 0);
  CHECK_INT(wait_for(&scene, 200), 1);

  /* as Kubernetes does it: routes.yaml -> ..data/routes.yaml, ..data -> a folder per version */
  CHECK_INT(mkdir(in_folder(&scene, "..1"), 0700), 0);
  CHECK_INT(mkdir(in_folder(&scene, "..2"), 0700), 0);
  write_file(&scene, "..1/routes.yaml", "one");
  write_file(&scene, "..2/routes.yaml", "two");
  CHECK_INT(symlink("..1", in_folder(&scene, "..data")), 0);
  CHECK_INT(unlink(in_folder(&scene, "routes.yaml")), 0);
  CHECK_INT(symlink("..data/routes.yaml", in_folder(&scene, "routes.yaml")), 0);
  CHECK_INT(wait_for(&scene, 200), 1);
  CHECK_INT(symlink("..2", in_folder(&scene, "..data.new")), 0);
  CHECK_INT(rename(in_folder(&scene, "..data.new"), in_folder(&scene, "..data")), 0);
  CHECK_INT(wait_for(&scene, 200), 1);
  close_scene(&scene);
}

TEST(filters_count_from_the_day_their_folder_is_made)
{
  struct scene scene;
  open_scene(&scene);
  CHECK_INT(mkdir(in_folder(&scene, "filters"), 0700), 0);
  wait_for(&scene, 1200); /* the slow look finds the new folder */
  scene.changes = 0;
  write_file(&scene, "filters/a.lua", "return {}");
  CHECK_INT(wait_for(&scene, 300), 1);
  write_file(&scene, "filters/a.lua~", "backup");
  write_file(&scene, "filters/.a.lua.swp", "editor");
  write_file(&scene, "notes.txt", "nothing of ours");
  CHECK_INT(wait_for(&scene, 300), 0);
  CHECK_INT(unlink(in_folder(&scene, "filters/a.lua")), 0);
  CHECK_INT(wait_for(&scene, 300), 1);
  close_scene(&scene);
}

RUN_TESTS({"a burst of writes is one change", a_burst_of_writes_is_one_change},
          {"a rename into place and a link swap are seen", a_rename_into_place_and_a_link_swap_are_seen},
          {"filters count from the day their folder is made", filters_count_from_the_day_their_folder_is_made})
