/* scan.c - walking the blocks of a segment.
 * Owns: one descriptor and one block.   May call: format, file.   Never: search for a magic.   Thread: one per scan. */
#include "scan.h"

#include <errno.h>
#include <fcntl.h>

int mg_scan_open(struct mg_scan *scan, const struct mg_file_ops *ops, const char *path, uint32_t *version)
{
  uint8_t head[MG_DATA_START];
  memset(scan, 0, offsetof(struct mg_scan, block));
  scan->ops = ops;
  *version = 0;
  scan->fd = ops->open(path, O_RDONLY);
  if (scan->fd < 0) return scan->fd;
  int result = ops->size(scan->fd, &scan->size);
  int got = result == 0 ? ops->read(scan->fd, head, sizeof head, 0) : result;
  if (got < 0 || got < (int)sizeof head || !mg_preamble_read(&scan->preamble, head, version)) {
    mg_scan_close(scan);
    return got < 0 ? got : -EBADMSG;
  }
  scan->seed = mg_segment_seed(scan->preamble.uuid);
  scan->sealed = mg_seal_read(&scan->seal, scan->seed, head + MG_SEAL_AT);
  scan->damages = scan->sealed && scan->seal.data_end > scan->size; /* cut short after it was sealed */
  scan->at = scan->data_end = MG_DATA_START;
  scan->block_at = UINT64_MAX;
  scan->ahead = UINT32_MAX;
  return 0;
}

void mg_scan_seek(struct mg_scan *scan, uint64_t offset)
{
  if (offset < MG_DATA_START || offset > scan->size || offset % 8 != 0) return;
  scan->at = scan->data_end = offset;
  scan->in_batch = false;
}

bool mg_scan_refresh(struct mg_scan *scan)
{
  uint8_t head[MG_DATA_START];
  struct mg_preamble preamble;
  uint32_t version;
  if (scan->sealed || scan->ops->read(scan->fd, head, sizeof head, 0) != sizeof head) return true;
  if (!mg_preamble_read(&preamble, head, &version) || memcmp(preamble.uuid, scan->preamble.uuid, sizeof preamble.uuid))
    return false;
  scan->sealed = mg_seal_read(&scan->seal, scan->seed, head + MG_SEAL_AT);
  if (scan->sealed) scan->ops->size(scan->fd, &scan->size);
  return true;
}

void mg_scan_close(struct mg_scan *scan)
{
  if (scan->fd >= 0) scan->ops->close(scan->fd);
  scan->fd = -1;
}

/* Has the block that at lies in read into memory. False when the file has nothing there. */
static bool load(struct mg_scan *scan, uint64_t at, bool again)
{
  uint64_t block_at = at - at % MG_BLOCK_BYTES;
  if (scan->block_at != block_at || again) {
    int got = scan->ops->read(scan->fd, scan->block, MG_BLOCK_BYTES, block_at);
    scan->block_len = got < 0 ? 0 : (size_t)got;
    scan->block_at = block_at;
  }
  return at - block_at < scan->block_len;
}

static uint64_t limit_of(const struct mg_scan *scan)
{
  return scan->sealed && scan->seal.data_end < scan->size ? scan->seal.data_end : scan->size;
}

/* Whether a batch begins in one of the blocks behind at: then what is missing here is damage and not the end. */
static bool begins_later(struct mg_scan *scan, uint64_t at)
{
  uint64_t from = at - at % MG_BLOCK_BYTES + MG_BLOCK_BYTES, limit = limit_of(scan);
  if ((limit - at) / MG_BLOCK_BYTES > scan->ahead) limit = from + (uint64_t)scan->ahead * MG_BLOCK_BYTES;
  for (uint64_t next = from; next < limit; next += MG_BLOCK_BYTES) {
    enum mg_fragment_type type;
    const uint8_t *payload;
    size_t len;
    if (!load(scan, next, false)) return false;
    int found = mg_fragment_read(scan->block, scan->block_len, next, scan->seed, &type, &payload, &len);
    if (found == 1 && (type == MG_FRAGMENT_FULL || type == MG_FRAGMENT_FIRST)) return true;
    if (found == 1 && len < MG_BLOCK_BYTES - MG_FRAGMENT_MIN_BYTES - MG_FRAGMENT_HEADER_BYTES) {
      /* the rest of a batch that was never committed; a committed one may stand behind it in the same block */
      size_t behind = MG_FRAGMENT_HEADER_BYTES + ((len + 7) & ~(size_t)7);
      if (behind + MG_FRAGMENT_MIN_BYTES <= scan->block_len &&
          mg_fragment_read(scan->block + behind, scan->block_len - behind, next + behind, scan->seed, &type, &payload,
                           &len) == 1)
        return true;
    }
    if (found == 1) scan->torn = true;
  }
  return false;
}

static enum mg_scan_result skip_block(struct mg_scan *scan)
{
  scan->damages++;
  scan->in_batch = false;
  scan->resync = true;
  scan->at = scan->at - scan->at % MG_BLOCK_BYTES + MG_BLOCK_BYTES;
  return MG_SCAN_DAMAGE;
}

/* Whether there is something at scan->at in the file as it is now. */
static bool is_there_now(struct mg_scan *scan)
{
  enum mg_fragment_type type;
  const uint8_t *payload;
  size_t len, in_block = (size_t)(scan->at % MG_BLOCK_BYTES);
  return load(scan, scan->at, true) && mg_fragment_read(scan->block + in_block, scan->block_len - in_block, scan->at,
                                                        scan->seed, &type, &payload, &len) != 0;
}

/* Nothing is written at scan->at. */
static enum mg_scan_result nothing_here(struct mg_scan *scan)
{
  scan->block_at = UINT64_MAX; /* look afresh when asked again */
  if (scan->in_batch) {        /* the rest of a batch is missing: it is not there, or not yet */
    scan->in_batch = false;
    scan->torn = true;
    scan->at = scan->batch_from;
  }
  return MG_SCAN_END;
}

/* Adds a fragment to the batch in the making. 1: the batch is whole; 2: it is, but the one before it was not; 0:
 * more must come; -1: it does not belong here. */
static int take_fragment(struct mg_scan *scan, enum mg_fragment_type type, const uint8_t *payload, size_t len)
{
  bool begins = type == MG_FRAGMENT_FULL || type == MG_FRAGMENT_FIRST;
  int stray = begins == scan->in_batch; /* a beginning inside a batch, or a continuation of none */
  if (begins) {
    scan->batch_len = 0;
    scan->batch_from = scan->at;
    scan->in_batch = true;
  }
  if (!scan->in_batch || scan->batch_len + len > sizeof scan->batch) {
    scan->in_batch = false;
    return -1;
  }
  memcpy(scan->batch + scan->batch_len, payload, len);
  scan->batch_len += len;
  if (type != MG_FRAGMENT_FULL && type != MG_FRAGMENT_LAST) return stray ? -1 : 0;
  scan->in_batch = false;
  return stray ? 2 : 1;
}

enum mg_scan_result mg_scan_next(struct mg_scan *scan, struct mg_batch *batch)
{
  for (;;) {
    uint64_t limit = limit_of(scan);
    size_t rest = MG_BLOCK_BYTES - (size_t)(scan->at % MG_BLOCK_BYTES);
    if (rest < MG_FRAGMENT_MIN_BYTES) scan->at += rest;
    if (scan->at >= limit) {
      if (!scan->in_batch) return MG_SCAN_END;
      return skip_block(scan);
    }
    enum mg_fragment_type type;
    const uint8_t *payload = NULL;
    size_t len = 0, in_block = (size_t)(scan->at % MG_BLOCK_BYTES);
    if (!load(scan, scan->at, false)) return scan->sealed ? skip_block(scan) : MG_SCAN_END;
    int found = mg_fragment_read(scan->block + in_block, scan->block_len - in_block, scan->at, scan->seed, &type,
                                 &payload, &len);
    if (found <= 0 && !scan->sealed && load(scan, scan->at, true)) /* what is in memory may be older than the file */
      found = mg_fragment_read(scan->block + in_block, scan->block_len - in_block, scan->at, scan->seed, &type,
                               &payload, &len);
    if (found == 0 && scan->sealed) return skip_block(scan);
    if (found == 0 && begins_later(scan, scan->at)) {
      /* Batches are committed in order: what stands later is damage here, unless both came between the two looks. */
      if (!is_there_now(scan)) return skip_block(scan);
      continue;
    }
    if (found == 0) return nothing_here(scan);
    if (found < 0) return skip_block(scan);
    bool rest_of_lost = scan->resync && (type == MG_FRAGMENT_MIDDLE || type == MG_FRAGMENT_LAST);
    int whole = rest_of_lost ? 0 : take_fragment(scan, type, payload, len);
    scan->at += MG_FRAGMENT_HEADER_BYTES + ((len + 7) & ~(size_t)7);
    if (rest_of_lost) continue;
    scan->resync = false;
    scan->damages += whole < 0 || whole == 2;
    if (whole < 0) return MG_SCAN_DAMAGE;
    if (whole == 0) continue;
    if (!mg_batch_read(batch, scan->batch, scan->batch_len)) {
      scan->damages++;
      return MG_SCAN_DAMAGE;
    }
    scan->data_end = scan->at;
    return MG_SCAN_BATCH;
  }
}
