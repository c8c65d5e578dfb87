/* journal_doorbell.c - the doorbell: a reader that sleeps is woken by what a writer of another process places. */
#include "doorbell.h"

#include "journal_support.h"

#include <time.h>

static struct mg_doorbell_line line_of(const char *folder, unsigned shard)
{
  struct mg_doorbell reader;
  CHECK(mg_doorbell_watch(&reader, &mg_file_system, folder) == 0);
  struct mg_doorbell_line line = mg_doorbell_line(&reader, shard);
  mg_doorbell_close(&reader);
  return line;
}

static void place_one(struct mg_shard *shard)
{
  CHECK(append_one(shard));
  mg_shard_flush(shard);
}

TEST(what_a_shard_places_is_told)
{
  char folder[256];
  struct mg_shard *shard;
  struct mg_recovery recovery;
  struct mg_buf error = {0};
  struct mg_doorbell reader;
  fresh_folder(folder, "/tmp");
  struct mg_shard_options options = support_options(folder);
  options.number = 7;
  CHECK(mg_doorbell_watch(&reader, &mg_file_system, folder) == -ENOENT);
  CHECK(mg_shard_open(&shard, &options, &mg_file_system, &recovery, &error) == 0);
  CHECK(mg_doorbell_watch(&reader, &mg_file_system, folder) == 0);
  uint32_t count = mg_doorbell_count(&reader);
  CHECK(mg_doorbell_line(&reader, 7).epoch == 0);
  place_one(shard);
  place_one(shard);
  CHECK(mg_doorbell_count(&reader) == count + 2);
  struct mg_doorbell_line line = mg_doorbell_line(&reader, 7);
  CHECK(line.epoch == 1 && line.segment == 1 && line.last_lsn == 2);
  CHECK(mg_doorbell_line(&reader, 6).epoch == 0);
  CHECK(mg_shard_close(&shard) == 0);
  CHECK(mg_doorbell_count(&reader) == count + 3);
  CHECK(mg_shard_open(&shard, &options, &mg_file_system, &recovery, &error) == 0); /* the same page again */
  place_one(shard);
  line = line_of(folder, 7);
  CHECK(line.epoch == 2 && line.segment == 2 && line.last_lsn == 3 && mg_doorbell_count(&reader) == count + 4);
  CHECK(mg_shard_close(&shard) == 0);
  mg_doorbell_close(&reader);
  remove_folder(folder);
}

static double since_ms(const struct timespec *start)
{
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)(now.tv_sec - start->tv_sec) * 1e3 + (double)(now.tv_nsec - start->tv_nsec) / 1e6;
}

/* The child maps the page to be read only, so that the wake really crosses processes and mappings. */
TEST(a_reader_that_sleeps_is_woken)
{
  char folder[256];
  int ready[2];
  struct mg_doorbell writer;
  fresh_folder(folder, "/tmp");
  CHECK(mg_doorbell_open(&writer, &mg_file_system, folder) == 0 && pipe(ready) == 0);
  pid_t child = fork();
  if (child == 0) {
    struct mg_doorbell reader;
    struct timespec start;
    if (mg_doorbell_watch(&reader, &mg_file_system, folder) != 0) _exit(2);
    uint32_t seen = mg_doorbell_count(&reader);
    clock_gettime(CLOCK_MONOTONIC, &start);
    if (write(ready[1], "x", 1) != 1) _exit(3);
    while (mg_doorbell_count(&reader) == seen && since_ms(&start) < 20000) mg_doorbell_wait(&reader, seen, 20000);
    _exit(since_ms(&start) < 10000 && mg_doorbell_line(&reader, 3).last_lsn == 9 ? 0 : 1);
  }
  char byte;
  CHECK(read(ready[0], &byte, 1) == 1);
  usleep(50000); /* the child sleeps by now; if not, it sees the count */
  mg_doorbell_tell(&writer, 3, &(struct mg_doorbell_line){.epoch = 1, .segment = 1, .last_lsn = 9});
  int status;
  CHECK(waitpid(child, &status, 0) == child && status == 0);
  close(ready[0]);
  close(ready[1]);
  mg_doorbell_close(&writer);
  remove_folder(folder);
}

TEST(a_wait_ends_at_its_limit_and_not_when_the_count_has_moved)
{
  char folder[256];
  struct mg_doorbell writer, reader, none = {0};
  struct timespec start;
  fresh_folder(folder, "/tmp");
  CHECK(mg_doorbell_open(&writer, &mg_file_system, folder) == 0);
  CHECK(mg_doorbell_watch(&reader, &mg_file_system, folder) == 0);
  clock_gettime(CLOCK_MONOTONIC, &start);
  mg_doorbell_wait(&reader, mg_doorbell_count(&reader) - 1, 20000);
  CHECK(since_ms(&start) < 10000);
  mg_doorbell_wait(&none, 0, 5);
  mg_doorbell_wait(&reader, mg_doorbell_count(&reader), 5);
  CHECK(since_ms(&start) >= 5);
  mg_doorbell_close(&reader);
  mg_doorbell_close(&writer);
  remove_folder(folder);
}

/* Its bytes are hints: what somebody else left under the name costs a reader the page and a writer nothing. */
TEST(a_page_that_is_none_is_made_anew)
{
  char folder[256], path[300];
  struct mg_doorbell writer, reader;
  fresh_folder(folder, "/tmp");
  snprintf(path, sizeof path, "%s/journal.doorbell", folder);
  int fd = open(path, O_CREAT | O_WRONLY, 0600);
  CHECK(fd >= 0 && write(fd, "something else", 14) == 14);
  close(fd);
  CHECK(mg_doorbell_watch(&reader, &mg_file_system, folder) == -EBADMSG);
  CHECK(truncate(path, MG_DOORBELL_BYTES) == 0 && mg_doorbell_watch(&reader, &mg_file_system, folder) == -EBADMSG);
  CHECK(mg_doorbell_open(&writer, &mg_file_system, folder) == 0);
  CHECK(mg_doorbell_watch(&reader, &mg_file_system, folder) == 0);
  mg_doorbell_close(&reader);
  mg_doorbell_close(&writer);
  remove_folder(folder);
}

RUN_TESTS({"doorbell.told", what_a_shard_places_is_told}, {"doorbell.woken", a_reader_that_sleeps_is_woken},
          {"doorbell.wait", a_wait_ends_at_its_limit_and_not_when_the_count_has_moved},
          {"doorbell.foreign", a_page_that_is_none_is_made_anew})
