/* core_processors.c - cgroup quotas of both versions, from a tree made for the test. */
#include "processors.h"

#include <sys/stat.h>
#include <unistd.h>

#include "t.h"

struct tree {
  char root[64];
  char membership[96];
};

static void write_file(const struct tree *tree, const char *name, const char *text)
{
  char path[256];
  snprintf(path, sizeof path, "%s/%s", tree->root, name);
  FILE *file = fopen(path, "w");
  CHECK(file != NULL);
  fputs(text, file);
  fclose(file);
}

static void make_folder(const struct tree *tree, const char *name)
{
  char path[256];
  snprintf(path, sizeof path, "%s/%s", tree->root, name);
  CHECK_INT(mkdir(path, 0700), 0);
}

static struct tree make_tree(const char *membership)
{
  struct tree tree;
  snprintf(tree.root, sizeof tree.root, "/tmp/moongate-quota.XXXXXX");
  CHECK(mkdtemp(tree.root) != NULL);
  snprintf(tree.membership, sizeof tree.membership, "%s/membership", tree.root);
  write_file(&tree, "membership", membership);
  return tree;
}

static void remove_tree(const struct tree *tree, int count, const char *const *names)
{
  char path[256];
  for (int i = 0; i < count; i++) {
    snprintf(path, sizeof path, "%s/%s", tree->root, names[i]);
    CHECK_INT(remove(path), 0);
  }
  CHECK_INT(unlink(tree->membership), 0);
  CHECK_INT(rmdir(tree->root), 0);
}

#define REMOVE_TREE(tree, ...)                                                          \
  remove_tree(tree, (int)(sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *)), \
              (const char *const[]){__VA_ARGS__})

TEST(version_2_takes_the_smallest_on_the_way_up)
{
  struct tree tree = make_tree("0::/a/b\n");
  make_folder(&tree, "a");
  make_folder(&tree, "a/b");
  write_file(&tree, "a/b/cpu.max", "max 100000\n");
  CHECK_INT(mg_processors_quota(tree.membership, tree.root), 0);
  write_file(&tree, "a/cpu.max", "350000 100000\n");
  CHECK_INT(mg_processors_quota(tree.membership, tree.root), 3); /* rounded down */
  write_file(&tree, "a/b/cpu.max", "200000 100000\n");
  CHECK_INT(mg_processors_quota(tree.membership, tree.root), 2);
  write_file(&tree, "cpu.max", "50000 100000\n");
  CHECK_INT(mg_processors_quota(tree.membership, tree.root), 1); /* half a processor is one worker */
  REMOVE_TREE(&tree, "cpu.max", "a/b/cpu.max", "a/b", "a/cpu.max", "a");
}

TEST(version_1_reads_the_cpu_controller)
{
  struct tree tree = make_tree("12:cpuset:/x\n4:cpu,cpuacct:/box\n0::/\n");
  make_folder(&tree, "cpu,cpuacct");
  make_folder(&tree, "cpu,cpuacct/box");
  write_file(&tree, "cpu,cpuacct/box/cpu.cfs_quota_us", "-1\n");
  write_file(&tree, "cpu,cpuacct/box/cpu.cfs_period_us", "100000\n");
  CHECK_INT(mg_processors_quota(tree.membership, tree.root), 0);
  write_file(&tree, "cpu,cpuacct/box/cpu.cfs_quota_us", "400000\n");
  CHECK_INT(mg_processors_quota(tree.membership, tree.root), 4);
  REMOVE_TREE(&tree, "cpu,cpuacct/box/cpu.cfs_quota_us", "cpu,cpuacct/box/cpu.cfs_period_us", "cpu,cpuacct/box",
              "cpu,cpuacct");
}

TEST(what_cannot_be_read_does_not_limit)
{
  struct tree tree = make_tree("nonsense\n0::/gone/elsewhere\n");
  CHECK_INT(mg_processors_quota(tree.membership, tree.root), 0);
  CHECK_INT(mg_processors_quota("/nowhere/cgroup", tree.root), 0);
  write_file(&tree, "cpu.max", "garbage\n");
  CHECK_INT(mg_processors_quota(tree.membership, tree.root), 0);
  REMOVE_TREE(&tree, "cpu.max");
}

TEST(there_is_always_one)
{
  CHECK(mg_processors() >= 1);
}

RUN_TESTS({"version 2 takes the smallest on the way up", version_2_takes_the_smallest_on_the_way_up},
          {"version 1 reads the cpu controller", version_1_reads_the_cpu_controller},
          {"what cannot be read does not limit", what_cannot_be_read_does_not_limit},
          {"there is always one", there_is_always_one})
