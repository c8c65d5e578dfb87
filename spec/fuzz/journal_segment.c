/* journal_segment.c - a segment file with any bytes behind its preamble: the scan ends, stays inside, and every
 * batch that it gives is one whose framing was right. */
#include "fuzz.h"

#include <errno.h>

#include "scan.h"

static const uint8_t *file_bytes;
static size_t file_len;
static uint8_t preamble[MG_PREAMBLE_BYTES];

static int memory_open(const char *path, int flags)
{
  (void)path, (void)flags;
  return 1000;
}

static int memory_size(int fd, uint64_t *size)
{
  (void)fd;
  *size = MG_PREAMBLE_BYTES + file_len;
  return 0;
}

static int memory_read(int fd, void *bytes, size_t len, uint64_t offset)
{
  (void)fd;
  size_t got = 0;
  for (; got < len && offset + got < MG_PREAMBLE_BYTES + file_len; got++) {
    uint64_t at = offset + got;
    ((uint8_t *)bytes)[got] = at < MG_PREAMBLE_BYTES ? preamble[at] : file_bytes[at - MG_PREAMBLE_BYTES];
  }
  return (int)got;
}

static void memory_close(int fd)
{
  (void)fd;
}

/* Fragments are found and given right checksums, so that what is behind them is reached. */
static void repair(uint8_t *bytes, size_t len, uint32_t seed)
{
  for (size_t at = MG_DATA_START - MG_PREAMBLE_BYTES; at + MG_FRAGMENT_MIN_BYTES < len; at += 8) {
    uint64_t offset = MG_PREAMBLE_BYTES + at;
    size_t payload = bytes[at + 8] | (size_t)bytes[at + 9] << 8, room = MG_BLOCK_BYTES - offset % MG_BLOCK_BYTES;
    if (memcmp(bytes + at, "MGJF", 4) != 0 || payload + MG_FRAGMENT_HEADER_BYTES > len - at ||
        payload + MG_FRAGMENT_HEADER_BYTES > room)
      continue;
    bytes[at + 10] = 0;
    mg_put32(bytes + at + 12, 0);
    mg_put32(bytes + at + 4, mg_crc32c(mg_crc32c(seed, &offset, 8), bytes + at + 8, payload + 8));
  }
}

static void fuzz_one(const uint8_t *bytes, size_t len)
{
  const struct mg_preamble made = {.segment_bytes = 1 << 20, .number = 1, .base_lsn = 1, .uuid = {9, 9}};
  const struct mg_file_ops ops = {.open = memory_open, .size = memory_size, .read = memory_read, .close = memory_close};
  if (len > 200000) return;
  uint8_t *copy = malloc(len + 1);
  struct mg_scan *scan = malloc(sizeof *scan);
  uint32_t version;
  struct mg_batch batch;
  memcpy(copy, bytes, len);
  mg_preamble_write(&made, preamble);
  repair(copy, len, mg_segment_seed(made.uuid));
  file_bytes = copy;
  file_len = len;
  if (mg_scan_open(scan, &ops, "", &version) == 0) {
    unsigned steps = 0;
    for (enum mg_scan_result result; (result = mg_scan_next(scan, &batch)) != MG_SCAN_END;) {
      MUST(++steps < 100000);
      if (result != MG_SCAN_BATCH) continue;
      MUST(MG_BATCH_HEADER_BYTES + (size_t)batch.coded_len + batch.raw_len == scan->batch_len);
      MUST(scan->data_end < MG_PREAMBLE_BYTES + len + 8); /* the padding behind the last may be missing */
    }
    mg_scan_close(scan);
  }
  free(scan);
  free(copy);
}
