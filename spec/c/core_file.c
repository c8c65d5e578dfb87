/* core_file.c - files below a directory: found, refused, never outside, shared until the last lets go. */
#include "file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "t.h"

static char root[64], base[96];

static void write_file(const char *name, const char *text)
{
  char path[200];
  snprintf(path, sizeof path, "%s/%s", root, name);
  int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
  CHECK(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
  close(fd);
}

static void make_tree(void)
{
  snprintf(root, sizeof root, "/tmp/mg-core-file-XXXXXX");
  CHECK(mkdtemp(root) != NULL);
  snprintf(base, sizeof base, "%s/base", root);
  CHECK_INT(mkdir(base, 0755), 0);
  write_file("outside", "outside");
  write_file("base/inside", "0123456789");
  CHECK_INT(chdir(base), 0);
  CHECK_INT(mkdir("sub", 0755), 0);
  write_file("base/sub/deep", "deep");
  CHECK_INT(symlink("../outside", "out") | symlink("inside", "in") | symlink("sub", "link"), 0);
  CHECK_INT(mkfifo("fifo", 0644), 0);
}

static void remove_tree(void)
{
  char command[128];
  CHECK_INT(chdir("/"), 0);
  snprintf(command, sizeof command, "rm -r '%s'", root);
  CHECK_INT(system(command), 0);
}

static enum mg_file_found look(const char *path, bool follow)
{
  struct mg_file *file = NULL;
  enum mg_file_found found = mg_file_open(base, path, follow, &file);
  CHECK((found == MG_FILE_REGULAR) == (file != NULL));
  mg_file_release(&file);
  return found;
}

TEST(only_what_lies_below_is_found)
{
  make_tree();
  CHECK_INT(look("inside", false), MG_FILE_REGULAR);
  CHECK_INT(look("sub/deep", false), MG_FILE_REGULAR);
  CHECK_INT(look("", false), MG_FILE_DIRECTORY);
  CHECK_INT(look("sub", false), MG_FILE_DIRECTORY);
  CHECK_INT(look("sub/", false), MG_FILE_DIRECTORY);
  static const char *const nowhere[] = {"nothing",  "inside/",   "inside/x", "/inside", "../outside", "sub/../inside",
                                        "./inside", "sub//deep", "sub/.",    "fifo",    "in/"};
  for (size_t i = 0; i < sizeof nowhere / sizeof nowhere[0]; i++) {
    CHECK_INT(look(nowhere[i], false), MG_FILE_NONE);
    CHECK_INT(look(nowhere[i], true), MG_FILE_NONE);
  }
  remove_tree();
}

TEST(links_are_followed_only_where_that_is_wished)
{
  make_tree();
  static const char *const links[] = {"in", "out", "link/deep"};
  for (size_t i = 0; i < sizeof links / sizeof links[0]; i++) {
    CHECK_INT(look(links[i], false), MG_FILE_NONE);
    CHECK_INT(look(links[i], true), MG_FILE_REGULAR);
  }
  CHECK_INT(symlink(base, "../current"), 0); /* the base itself may be one */
  snprintf(base, sizeof base, "%s/current", root);
  CHECK_INT(look("inside", false), MG_FILE_REGULAR);
  remove_tree();
}

TEST(a_base_that_is_gone_has_nothing)
{
  make_tree();
  char kept[96];
  memcpy(kept, base, sizeof kept);
  snprintf(base, sizeof base, "%s/gone", root);
  CHECK_INT(look("inside", false), MG_FILE_NONE);
  snprintf(base, sizeof base, "%s/outside", root);
  CHECK_INT(look("inside", false), MG_FILE_NONE);
  CHECK_INT(mkdir("dead", 0755), 0);
  int held = open("dead", O_PATH | O_DIRECTORY);
  CHECK_INT(rmdir("dead"), 0);
  snprintf(base, sizeof base, "/proc/self/fd/%d", held); /* as a mount whose source was removed */
  CHECK_INT(look("inside", false), MG_FILE_GONE);
  close(held);
  memcpy(base, kept, sizeof base);
  remove_tree();
}

TEST(a_directory_is_listed_without_what_is_not_served)
{
  make_tree();
  struct mg_buf names = {0};
  CHECK_INT(mg_file_list(base, "", false, &names), MG_FILE_DIRECTORY);
  CHECK(memmem(names.ptr, names.len, "inside\n", 7) && memmem(names.ptr, names.len, "sub/\n", 5));
  CHECK_INT(names.len, 12);
  names.len = 0;
  CHECK_INT(mg_file_list(base, "", true, &names), MG_FILE_DIRECTORY);
  CHECK(memmem(names.ptr, names.len, "link/\n", 6) && memmem(names.ptr, names.len, "out\n", 4));
  CHECK(!memmem(names.ptr, names.len, "fifo", 4));
  CHECK_INT(mg_file_list(base, "inside", false, &names), MG_FILE_REGULAR);
  CHECK_INT(mg_file_list(base, "nothing", false, &names), MG_FILE_NONE);
  mg_buf_free(&names);
  remove_tree();
}

TEST(a_file_stays_open_for_its_last_reader)
{
  make_tree();
  struct mg_file *file = NULL, *other;
  CHECK_INT(mg_file_open(base, "inside", false, &file), MG_FILE_REGULAR);
  CHECK_INT(file->size, 10);
  CHECK(file->mtime_ms > 1500000000000);
  int fd = file->fd;
  other = file;
  other->refs++;
  mg_file_release(&file);
  CHECK(file == NULL && fcntl(fd, F_GETFD) >= 0);
  mg_file_fetch(fd, 0, 10);
  CHECK(mg_file_is_near(other, 0, 10) && mg_file_is_near(other, 10, 0));
  mg_file_release(&other);
  CHECK(fcntl(fd, F_GETFD) < 0);
  mg_file_release(&other);
  remove_tree();
}

RUN_TESTS({"only_what_lies_below_is_found", only_what_lies_below_is_found},
          {"links_are_followed_only_where_that_is_wished", links_are_followed_only_where_that_is_wished},
          {"a_base_that_is_gone_has_nothing", a_base_that_is_gone_has_nothing},
          {"a_directory_is_listed_without_what_is_not_served", a_directory_is_listed_without_what_is_not_served},
          {"a_file_stays_open_for_its_last_reader", a_file_stays_open_for_its_last_reader})
