/* checkpoint.c - a checkpoint as text, and back.
 * Owns: checkpoint, checkpoint.new and checkpoint.lock in its folder.   May call: file, format (CRC).   Never: replace
 * a checkpoint before its successor is on the disk.   Thread: as in checkpoint.h. */
#include "checkpoint.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum { VERSION = 1, BYTES_MAX = 64 << 20, LINE_MAX_BYTES = 256 };

static const char magic[] = "moongate checkpoint ";

/* --- writing ------------------------------------------------------------------------------------------------------ */

static void write_mark(const struct mg_shard_mark *mark, struct mg_buf *out)
{
  const struct mg_position *needed = &mark->needed;
  mg_buf_printf(out, "shard %u next %" PRIu32 " %" PRIu64 " needed %" PRIu32 " %" PRIu64 " at %" PRIu64 " %" PRIu64,
                needed->shard, mark->next_epoch, mark->next_lsn, needed->epoch, needed->lsn, needed->segment,
                needed->offset);
  mg_buf_printf(out, " segment %" PRIu64 " ", needed->newest);
  for (size_t i = 0; i < sizeof needed->uuid; i++) mg_buf_printf(out, "%02x", needed->uuid[i]);
  mg_buf_append(out, "\n", 1);
}

static void write_text(const struct mg_checkpoint *checkpoint, struct mg_buf *out)
{
  const struct mg_shard_mark *marks;
  size_t count = mg_checkpoint_marks(checkpoint, &marks);
  mg_buf_printf(out, "%s%d\ndelivered %" PRIu64 "\n", magic, VERSION, checkpoint->delivered);
  for (size_t i = 0; i < count; i++) write_mark(&marks[i], out);
  const struct mg_given_up *given = (const struct mg_given_up *)(const void *)checkpoint->given_up.ptr;
  for (size_t i = 0; i < checkpoint->given_up.len / sizeof *given; i++)
    mg_buf_printf(out, "given %u %" PRIu32 " %" PRIu64 " %" PRIu64 " %s\n", given[i].shard, given[i].epoch,
                  given[i].number, given[i].start_us, given[i].id);
  mg_buf_printf(out, "crc32c %08" PRIx32 "\n", mg_crc32c(0, out->ptr, out->len));
}

static int write_file(const struct mg_file_ops *ops, const char *path, const struct mg_buf *text)
{
  int fd = ops->open(path, O_WRONLY | O_CREAT | O_TRUNC);
  if (fd < 0) return fd;
  int result = ops->write(fd, text->ptr, text->len, 0);
  if (result == 0) result = ops->sync(fd);
  ops->close(fd);
  return result;
}

int mg_checkpoint_write(const struct mg_checkpoint *checkpoint, const struct mg_file_ops *ops, const char *folder)
{
  char path[4200], fresh[4200];
  struct mg_buf text = {0};
  snprintf(path, sizeof path, "%s/checkpoint", folder);
  snprintf(fresh, sizeof fresh, "%s/checkpoint.new", folder);
  write_text(checkpoint, &text);
  int result = write_file(ops, fresh, &text);
  if (result == 0) result = ops->rename(fresh, path);
  if (result == 0) result = ops->sync_folder(folder);
  mg_buf_free(&text);
  return result;
}

/* --- reading ------------------------------------------------------------------------------------------------------ */

static bool read_uuid(const char *text, uint8_t uuid[16])
{
  for (int i = 0; i < 16; i++) {
    unsigned byte;
    if (sscanf(text + 2 * i, "%2x", &byte) != 1) return false;
    uuid[i] = (uint8_t)byte;
  }
  return true;
}

static bool read_line(struct mg_checkpoint *checkpoint, const char *line)
{
  struct mg_shard_mark mark = {0};
  struct mg_position *needed = &mark.needed;
  struct mg_given_up given = {0};
  char uuid[33];
  if (sscanf(line,
             "shard %u next %" SCNu32 " %" SCNu64 " needed %" SCNu32 " %" SCNu64 " at %" SCNu64 " %" SCNu64
             " segment %" SCNu64 " %32[0-9a-f]",
             &needed->shard, &mark.next_epoch, &mark.next_lsn, &needed->epoch, &needed->lsn, &needed->segment,
             &needed->offset, &needed->newest, uuid) == 9) {
    if (strlen(uuid) != 32 || !read_uuid(uuid, needed->uuid) || !needed->lsn || !mark.next_lsn) return false;
    mg_buf_append(&checkpoint->marks, &mark, sizeof mark);
    return true;
  }
  if (sscanf(line, "given %u %" SCNu32 " %" SCNu64 " %" SCNu64 " %26s", &given.shard, &given.epoch, &given.number,
             &given.start_us, given.id) == 5) {
    mg_buf_append(&checkpoint->given_up, &given, sizeof given);
    return true;
  }
  return sscanf(line, "delivered %" SCNu64, &checkpoint->delivered) == 1;
}

/* Where the line with the checksum begins, if that is right; else NULL. */
static const char *check_sum(const struct mg_buf *text)
{
  char line[sizeof "crc32c 00000000\n"];
  size_t len = sizeof line - 1;
  if (text->len < len) return NULL;
  snprintf(line, sizeof line, "crc32c %08" PRIx32 "\n", mg_crc32c(0, text->ptr, text->len - len));
  const char *at = text->ptr + text->len - len;
  return memcmp(at, line, len) == 0 ? at : NULL;
}

static int parse(struct mg_checkpoint *checkpoint, const struct mg_buf *text, const char *path, struct mg_buf *why)
{
  unsigned version = 0;
  size_t head = sizeof magic - 1;
  if (text->len < head || memcmp(text->ptr, magic, head) != 0 || sscanf(text->ptr + head, "%u", &version) != 1) {
    mg_buf_printf(why, "%s is no checkpoint of moongate", path);
    return -EBADMSG;
  }
  if (version > VERSION) {
    mg_buf_printf(why, "%s was written by a newer moongate (version %u, here: %d)", path, version, VERSION);
    return -EPROTONOSUPPORT;
  }
  const char *end = check_sum(text), *at = memchr(text->ptr, '\n', text->len);
  for (at = at && end ? at + 1 : NULL; at && at < end;) {
    const char *line_end = memchr(at, '\n', (size_t)(end - at));
    char line[LINE_MAX_BYTES];
    if (!line_end || line_end - at >= LINE_MAX_BYTES) break;
    snprintf(line, sizeof line, "%.*s", (int)(line_end - at), at);
    if (!read_line(checkpoint, line)) break;
    at = line_end + 1;
  }
  if (at && at == end) return 0;
  mg_buf_printf(why, "%s is damaged", path);
  return -EBADMSG;
}

static int read_file(const struct mg_file_ops *ops, const char *path, struct mg_buf *text)
{
  uint64_t size = 0;
  int fd = ops->open(path, O_RDONLY);
  if (fd < 0) return fd;
  int result = ops->size(fd, &size);
  if (result == 0 && size > BYTES_MAX) result = -EFBIG;
  if (result == 0) {
    int got = ops->read(fd, mg_buf_reserve(text, (size_t)size + 1), (size_t)size, 0);
    if (got < 0) result = got;
    if (got >= 0) text->len = (size_t)got;
    if (got >= 0) text->ptr[got] = '\0';
  }
  ops->close(fd);
  return result;
}

int mg_checkpoint_read(struct mg_checkpoint *checkpoint, const struct mg_file_ops *ops, const char *folder,
                       struct mg_buf *why)
{
  char path[4200];
  struct mg_buf text = {0};
  *checkpoint = (struct mg_checkpoint){0};
  snprintf(path, sizeof path, "%s/checkpoint", folder);
  int result = read_file(ops, path, &text);
  if (result == -EFBIG) result = -EBADMSG;
  if (result == -EBADMSG)
    mg_buf_printf(why, "%s is no checkpoint of moongate", path);
  else if (result != 0)
    mg_buf_printf(why, "%s cannot be read: %s", path, strerror(-result));
  else
    result = parse(checkpoint, &text, path, why);
  if (result != 0) mg_checkpoint_free(checkpoint);
  mg_buf_free(&text);
  return result;
}

void mg_checkpoint_free(struct mg_checkpoint *checkpoint)
{
  mg_buf_free(&checkpoint->marks);
  mg_buf_free(&checkpoint->given_up);
  checkpoint->delivered = 0;
}

int mg_checkpoint_lock(const struct mg_file_ops *ops, const char *folder)
{
  char path[4200];
  snprintf(path, sizeof path, "%s/checkpoint.lock", folder);
  int fd = ops->open(path, O_RDWR | O_CREAT);
  if (fd < 0) return fd;
  int result = ops->lock(fd);
  if (result == 0) return fd;
  ops->close(fd);
  return result;
}
