/* conn.h - one byte stream, client or upstream side. The only file that knows that a stream is plain TCP (or a unix
 * socket).
 *
 * libuv's loop says when a descriptor can be read or written; the bytes are moved here, with recv and sendmsg. Its
 * own streams do the same with more calls and bookkeeping for each request.
 *
 * The owner embeds a struct mg_conn as its first member and gets events through mg_conn_events; each callback may
 * close the connection. All reads of a loop go through one scratch buffer: what the owner wants to keep, it copies.
 * Writes go out at once; what the kernel does not take is copied and sent later, and the owner hears when it is
 * gone.
 * Thread: the loop's. */
#pragma once

#include <stdbool.h>
#include <sys/socket.h>
#include <uv.h>

#include "err.h"
#include "mem.h"
#include "timer.h"

enum { MG_SCRATCH_BYTES = 65536 };

/** What all connections of a loop share. */
struct mg_net {
  uv_loop_t *loop;
  struct mg_wheel wheel;
  uint64_t round;        /* turns of the loop; says whether two events came out of one poll */
  unsigned round_reads;  /* read callbacks in this turn */
  uv_prepare_t prepare;  /* counts turns */
  unsigned open_handles; /* of the net itself */
  void (*closed)(struct mg_net *net);
  char *scratch;
};

struct mg_conn;

struct mg_conn_events {
  /** Bytes have come; they are the owner's to change until it returns. */
  void (*data)(struct mg_conn *conn, char *bytes, size_t len);
  /** The peer will send no more: MG_ECLOSED (orderly), MG_ERESET (anything else). Once; reading has stopped. */
  void (*end)(struct mg_conn *conn, int err);
  /** All that was queued is with the kernel, or (err) will never be. */
  void (*drained)(struct mg_conn *conn, int err);
  /** mg_conn_timeout ran out. */
  void (*timeout)(struct mg_conn *conn);
  /** mg_conn_connect's result: 0, MG_ECONNREFUSED. */
  void (*connected)(struct mg_conn *conn, int err);
  /** The handle is closed; the owner's memory may go. */
  void (*closed)(struct mg_conn *conn);
};

struct mg_conn {
  uv_poll_t poll;     /* tells when fd can be read or written */
  struct mg_net *net; /* borrowed */
  const struct mg_conn_events *events;
  struct mg_timer timer;
  struct mg_queued *first, *last; /* bytes that the kernel did not take */
  uint64_t written;               /* bytes accepted for sending, for counters and rates */
  uint32_t queued;                /* bytes waiting for the kernel */
  int fd;
  uint8_t watched; /* UV_READABLE, UV_WRITABLE: what poll looks for now */
  bool reading;
  bool connecting;
  bool shutting;     /* an end of file follows what is queued */
  bool ended;        /* the peer's end of file or a reset has been seen */
  bool write_failed; /* nothing can be sent any more */
  bool closing;
};

/** Opens the shared parts on loop (borrowed). */
void mg_net_open(struct mg_net *net, uv_loop_t *loop);
/** Closes them; closed is called when the last handle has. */
void mg_net_close(struct mg_net *net, void (*closed)(struct mg_net *net));

/** Makes conn a new, unconnected stream of that address family (AF_INET, AF_INET6, AF_UNIX); events and net are
 * borrowed. 0 or MG_EINTERNAL, and then nothing needs closing. */
int mg_conn_open(struct mg_conn *conn, struct mg_net *net, int family, const struct mg_conn_events *events);
/** Makes conn a stream of a connected, non-blocking descriptor (taken, whatever comes of it). As mg_conn_open. */
int mg_conn_adopt(struct mg_conn *conn, struct mg_net *net, int fd, const struct mg_conn_events *events);
/** Starts connecting; events->connected follows unless this fails at once (MG_ECONNREFUSED). */
int mg_conn_connect(struct mg_conn *conn, const struct sockaddr *address);

/** Starts or stops delivering data; both are cheap when nothing changes. */
void mg_conn_read(struct mg_conn *conn);
void mg_conn_pause(struct mg_conn *conn);

/** Sends bufs in one call. 0 when the kernel took everything, 1 when some is queued (events->drained follows),
 * MG_ERESET when the connection is broken for sending. Copies what is queued. */
int mg_conn_write(struct mg_conn *conn, const uv_buf_t *bufs, unsigned count);

/** As mg_conn_write, but sends nothing before the loop's next turn: 1 or MG_ERESET. */
int mg_conn_write_later(struct mg_conn *conn, const uv_buf_t *bufs, unsigned count);

/** Sends up to count bytes of a file without copying them, while nothing is queued. How many went; 0 at the end of the
 * file; MG_EAGAIN_LATER when the kernel takes none now (nobody tells when it will: queue the next ones); MG_ERESET. */
long mg_conn_send_file(struct mg_conn *conn, int file, uint64_t offset, size_t count);

/** Sends an end of file behind what is queued. */
void mg_conn_shutdown(struct mg_conn *conn);

/** events->timeout after milliseconds without another call; 0 turns it off. */
void mg_conn_timeout(struct mg_conn *conn, uint64_t milliseconds);

/** True when the socket holds unread bytes or an end of file (one system call). */
bool mg_conn_stale(const struct mg_conn *conn);

/** Closes; what is still queued is dropped. Idempotent, allowed in every callback; events->closed follows later. */
void mg_conn_close(struct mg_conn *conn);
/** As mg_conn_close, but the peer sees a reset: an orderly end would look like the end of the message. */
void mg_conn_reset(struct mg_conn *conn);
