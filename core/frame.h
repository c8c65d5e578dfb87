/* frame.h - what the master and a worker say to each other over the control pipe.
 *
 *   4 bytes payload length | 1 byte type | 8 bytes generation | payload
 *
 * Host byte order: both ends run on one machine. A master and its successor (upgrade.h), which may be of different
 * versions, use READY and COUNTERS alone. Pure. Thread: any. */
#pragma once

#include <stdint.h>

#include "mem.h"

/* X(name, number): who sends it, what it means. */
#define MG_FRAME_MAP(X)                                                              \
  X(SETTINGS, 1)  /* master: key=value lines; comes first, once */                   \
  X(BUILD, 2)     /* master: build this bundle beside what runs */                   \
  X(READY, 3)     /* worker: built (no payload), or the reason why not */            \
  X(SWITCH, 4)    /* master: new exchanges get this generation */                    \
  X(STATE, 5)     /* worker: the generation in force; payload "live=N" and ids */    \
  X(DISCARD, 6)   /* master: drop a generation that was built but not switched to */ \
  X(DRAIN, 7)     /* master: stop accepting, finish, exit */                         \
  X(ABORT, 8)     /* master: cut every connection */                                 \
  X(REOPEN, 9)    /* master: open log files again */                                 \
  X(COUNTERS, 10) /* a master to its successor: what was counted; generation 1: for the last time */

enum mg_frame_type {
#define X(name, number) MG_FRAME_##name = number,
  MG_FRAME_MAP(X)
#undef X
};

enum { MG_FRAME_HEADER_SIZE = 13, MG_FRAME_PAYLOAD_MAX = 64 * 1024 * 1024 };

struct mg_frame {
  enum mg_frame_type type;
  uint64_t generation;
  struct mg_str payload; /* borrowed from the bytes it was read from */
};

/** Appends one frame. The payload is at most MG_FRAME_PAYLOAD_MAX bytes. */
void mg_frame_append(struct mg_buf *out, enum mg_frame_type type, uint64_t generation, struct mg_str payload);

/** Reads the frame at the start of bytes. Returns its whole size, 0 when it is not all there yet, -1 when it is no
 * frame. */
long mg_frame_read(struct mg_str bytes, struct mg_frame *frame);
