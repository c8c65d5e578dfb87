/* exchange_file.c - an answer whose body is a file.
 * Owns: the exchange's reference to its file.   May call: conn, file, offload.   Never: wait for a disk.
 * Thread: the loop's, but for what fetches from a disk. */
#include "exchange.h"

#include <stdlib.h>
#include <unistd.h>

#include "file.h"

enum {
  PIECE_BYTES = 32768,      /* that are copied: with the head, and where the socket takes no more at the moment */
  WINDOW_BYTES = 262144,    /* that are looked at, fetched and sent in one go */
  TURN_BYTES_MAX = 1 << 20, /* then the others have their turn */
  FETCH_WAIT_MS = 1000
};

struct fetch {
  struct mg_job job;
  struct mg_file *file;
  int fd;
  uint64_t offset;
  size_t count;
};

static void on_fetch(struct mg_job *job)
{
  struct fetch *fetch = (struct fetch *)job;
  mg_file_fetch(fetch->fd, fetch->offset, fetch->count);
}

/* Fetched or not: that the loop waits for a disk once in a while is better than a body that never ends. */
static void on_fetched(struct mg_job *job, int err)
{
  struct fetch *fetch = (struct fetch *)job;
  struct mg_exchange *ex = job->owner;
  (void)err;
  mg_file_release(&fetch->file);
  free(fetch);
  if (!ex) return;
  ex->job = NULL;
  ex->job_started = false;
  mg_exchange_run(ex);
}

static void start_fetch(struct mg_exchange *ex, size_t count)
{
  struct fetch *fetch = mg_calloc(1, sizeof *fetch);
  fetch->job = (struct mg_job){.run = on_fetch, .done = on_fetched, .owner = ex};
  fetch->file = ex->file;
  fetch->file->refs++;
  fetch->fd = ex->file->fd;
  fetch->offset = ex->file_at;
  fetch->count = count;
  ex->job = &fetch->job;
  ex->job_started = true;
  mg_offload_start(ex->gateway->fetching, ex->job, FETCH_WAIT_MS);
}

/* Sends a copied piece, behind the head while that has not gone. With later, what the socket would take is left to the
 * next turn of the loop. How many bytes of the file, or an error. */
static long write_piece(struct mg_exchange *ex, size_t window, bool later)
{
  char piece[PIECE_BYTES];
  uv_buf_t bufs[2];
  unsigned count = 0;
  ssize_t got =
      window ? pread(ex->file->fd, piece, window < sizeof piece ? window : sizeof piece, (off_t)ex->file_at) : 0;
  if (window && got <= 0) return MG_ETRUNCATED;
  if (!ex->head_sent) bufs[count++] = uv_buf_init((char *)ex->client_head.ptr, (unsigned)ex->client_head.len);
  bufs[count++] = uv_buf_init(piece, (unsigned)got);
  struct mg_conn *conn = &ex->client->conn;
  int result = later ? mg_conn_write_later(conn, bufs, count) : mg_conn_write(conn, bufs, count);
  if (result < 0) return result;
  ex->head_sent = true;
  mg_record_body(ex, 1, piece, (size_t)got);
  if (result == 1) mg_conn_timeout(conn, ex->gateway->settings->idle_timeout_ms);
  return got;
}

int mg_exchange_relay_file(struct mg_exchange *ex)
{
  struct mg_conn *conn = &ex->client->conn;
  const bool recorded = mg_record_wants_body(ex, 1);
  size_t turn = 0;
  while (ex->file_left || !ex->head_sent) {
    if (ex->job || conn->queued) return MG_EAGAIN_LATER;
    size_t window = ex->file_left < WINDOW_BYTES ? (size_t)ex->file_left : WINDOW_BYTES;
    if (ex->file_at >= ex->file_near) {
      ex->file_near = ex->file_at + window;
      if (!mg_file_is_near(ex->file, ex->file_at, window)) {
        start_fetch(ex, window);
        return MG_EAGAIN_LATER;
      }
    }
    if (window > ex->file_near - ex->file_at) window = (size_t)(ex->file_near - ex->file_at);
    long sent = MG_EAGAIN_LATER;
    bool later = turn >= TURN_BYTES_MAX;
    if (ex->head_sent && !later && !recorded) {
      sent = mg_conn_send_file(conn, ex->file->fd, ex->file_at, window);
      later = sent == MG_EAGAIN_LATER;
    }
    if (sent == MG_EAGAIN_LATER) sent = write_piece(ex, window, later);
    if (sent == 0 && window) return MG_ETRUNCATED; /* it has become shorter */
    if (sent < 0) return (int)sent;
    ex->file_at += (uint64_t)sent;
    ex->file_left -= (uint64_t)sent;
    ex->response_bytes += (uint64_t)sent;
    turn += (size_t)sent;
  }
  return 0;
}

int mg_exchange_hold_file(struct mg_exchange *ex)
{
  char *bytes = mg_arena_alloc(&ex->arena, ex->file_left + 1);
  if (!bytes) return MG_ENOMEM;
  ssize_t got = pread(ex->file->fd, bytes, ex->file_left, (off_t)ex->file_at);
  ex->answer_body = mg_str(bytes, got < 0 ? 0 : (size_t)got);
  mg_exchange_drop_file(ex);
  return 0;
}

void mg_exchange_drop_file(struct mg_exchange *ex)
{
  ex->sends_file = false;
  mg_file_release(&ex->file);
}
