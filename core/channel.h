/* channel.h - one end of a control pipe: frames in, frames out.
 *
 * Embedded in its owner. on_frame may close the channel. After mg_channel_close only on_closed is called, once; the
 * owner may be freed there. Thread: the loop thread. */
#pragma once

#include <uv.h>

#include "frame.h"

struct mg_channel {
  uv_pipe_t pipe;
  struct mg_buf in;
  void *owner;
  void (*on_frame)(struct mg_channel *channel, const struct mg_frame *frame);
  void (*on_end)(struct mg_channel *channel); /* the peer is gone, or does not speak frames; nothing more is read */
  void (*on_closed)(struct mg_channel *channel);
  bool closing;
};

/** Makes the channel's handle; set the callbacks and owner first. Until mg_channel_open or uv_spawn connects it,
 * nothing flows. */
int mg_channel_init(struct mg_channel *channel, uv_loop_t *loop);
/** Takes fd as the pipe. 0 or a libuv error. */
int mg_channel_open(struct mg_channel *channel, int fd);
/** Starts reading. 0 or a libuv error. */
int mg_channel_start(struct mg_channel *channel);
/** Sends one frame; copies the payload. A peer that is gone is not an error here: on_end says so. */
void mg_channel_send(struct mg_channel *channel, enum mg_frame_type type, uint64_t generation, struct mg_str payload);
/** Closes; more than once is harmless. Frames already sent are still written where the pipe takes them at once. */
void mg_channel_close(struct mg_channel *channel);
