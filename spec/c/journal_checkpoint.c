/* journal_checkpoint.c - a checkpoint written, read, hurt in every byte, and taken by two. */
#include "checkpoint.h"

#include "journal_support.h"

static struct mg_checkpoint some(unsigned shards, unsigned given_up)
{
  struct mg_checkpoint checkpoint = {.delivered = 12345};
  for (unsigned i = 0; i < shards; i++) {
    struct mg_shard_mark mark = {
        .needed = {.shard = i, .epoch = 3 + i, .lsn = 100 + i, .segment = 4, .offset = 65536, .newest = 5 + i},
        .next_epoch = 3 + i,
        .next_lsn = UINT64_MAX - i};
    for (unsigned k = 0; k < 16; k++) mark.needed.uuid[k] = (uint8_t)(k * 17 + i);
    mg_buf_append(&checkpoint.marks, &mark, sizeof mark);
  }
  for (unsigned i = 0; i < given_up; i++) {
    struct mg_given_up given = {.shard = i, .epoch = 3, .number = 7 + i, .start_us = 1700000000000000u};
    snprintf(given.id, sizeof given.id, "01M8QBWAFP0002QV48TXZ8ANZ%u", i % 10);
    mg_buf_append(&checkpoint.given_up, &given, sizeof given);
  }
  return checkpoint;
}

static int read_again(const char *folder, struct mg_checkpoint *checkpoint)
{
  struct mg_buf why = {0};
  int result = mg_checkpoint_read(checkpoint, &mg_file_system, folder, &why);
  if (result != 0) CHECK(why.len > 10); /* never a silent refusal */
  mg_buf_free(&why);
  return result;
}

static size_t slurp(const char *folder, char *bytes, size_t size)
{
  char path[600];
  snprintf(path, sizeof path, "%s/checkpoint", folder);
  int fd = open(path, O_RDONLY);
  ssize_t len = read(fd, bytes, size);
  close(fd);
  CHECK(len > 0);
  return (size_t)len;
}

static void spill(const char *folder, const char *bytes, size_t len)
{
  char path[600];
  snprintf(path, sizeof path, "%s/checkpoint", folder);
  int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
  CHECK(write(fd, bytes, len) == (ssize_t)len);
  close(fd);
}

TEST(what_is_written_is_read)
{
  char folder[256];
  fresh_folder(folder, "/tmp");
  struct mg_checkpoint written = some(3, 4), read;
  CHECK_INT(read_again(folder, &read), -ENOENT);
  CHECK_INT(mg_checkpoint_write(&written, &mg_file_system, folder), 0);
  CHECK_INT(read_again(folder, &read), 0);
  CHECK_INT(read.delivered, 12345);
  CHECK_INT(read.marks.len, written.marks.len);
  CHECK(memcmp(read.marks.ptr, written.marks.ptr, read.marks.len) == 0);
  CHECK_INT(read.given_up.len, written.given_up.len);
  CHECK(memcmp(read.given_up.ptr, written.given_up.ptr, read.given_up.len) == 0);
  mg_checkpoint_free(&read);
  mg_checkpoint_free(&written);
  remove_folder(folder);
}

TEST(damage_anywhere_is_refused)
{
  char folder[256], bytes[4096];
  fresh_folder(folder, "/tmp");
  struct mg_checkpoint written = some(2, 1), read;
  CHECK_INT(mg_checkpoint_write(&written, &mg_file_system, folder), 0);
  size_t len = slurp(folder, bytes, sizeof bytes);
  for (size_t i = 0; i < len; i++)
    for (int bit = 0; bit < 8; bit++) {
      bytes[i] ^= (char)(1 << bit);
      spill(folder, bytes, len);
      CHECK(read_again(folder, &read) != 0);
      bytes[i] ^= (char)(1 << bit);
    }
  for (size_t cut = 0; cut < len; cut++) {
    spill(folder, bytes, cut);
    CHECK_INT(read_again(folder, &read), -EBADMSG);
  }
  mg_checkpoint_free(&written);
  remove_folder(folder);
}

TEST(a_later_version_is_named)
{
  char folder[256];
  struct mg_checkpoint read;
  fresh_folder(folder, "/tmp");
  spill(folder, "moongate checkpoint 2\nwhatever\n", 31);
  CHECK_INT(read_again(folder, &read), -EPROTONOSUPPORT);
  remove_folder(folder);
}

TEST(one_process_at_a_time)
{
  char folder[256];
  fresh_folder(folder, "/tmp");
  int first = mg_checkpoint_lock(&mg_file_system, folder);
  CHECK(first >= 0);
  CHECK_INT(mg_checkpoint_lock(&mg_file_system, folder), -EWOULDBLOCK);
  close(first);
  int second = mg_checkpoint_lock(&mg_file_system, folder);
  CHECK(second >= 0);
  close(second);
  remove_folder(folder);
}

static int fail_rename(const char *from, const char *to)
{
  (void)from;
  (void)to;
  return -ENOSPC;
}

TEST(the_old_one_stands_when_the_new_one_cannot_be_written)
{
  char folder[256];
  fresh_folder(folder, "/tmp");
  struct mg_checkpoint old = some(1, 0), new = some(2, 0), read;
  struct mg_file_ops broken = mg_file_system;
  broken.rename = fail_rename;
  CHECK_INT(mg_checkpoint_write(&old, &mg_file_system, folder), 0);
  CHECK_INT(mg_checkpoint_write(&new, &broken, folder), -ENOSPC);
  CHECK_INT(read_again(folder, &read), 0);
  CHECK_INT(read.marks.len, old.marks.len);
  mg_checkpoint_free(&read);
  mg_checkpoint_free(&old);
  mg_checkpoint_free(&new);
  remove_folder(folder);
}

RUN_TESTS({"what_is_written_is_read", what_is_written_is_read},
          {"damage_anywhere_is_refused", damage_anywhere_is_refused},
          {"a_later_version_is_named", a_later_version_is_named}, {"one_process_at_a_time", one_process_at_a_time},
          {"the_old_one_stands_when_the_new_one_cannot_be_written",
           the_old_one_stands_when_the_new_one_cannot_be_written})
