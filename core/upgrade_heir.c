/* upgrade_heir.c - the new side of an upgrade: the channel to the gateway that is taken over from.
 * Owns: that channel.   May call: mem, channel, libuv.   Never: decide whether this gateway serves.
 * Thread: the loop thread.   Ends: mg_heir_close(). */
#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>

#include "channel.h"
#include "upgrade.h"

struct mg_heir {
  struct mg_channel channel;
  struct mg_heir_events events;
  bool closed;
  bool let_go;
};

static void on_frame(struct mg_channel *channel, const struct mg_frame *frame)
{
  struct mg_heir *heir = channel->owner;
  if (frame->type != MG_FRAME_COUNTERS) return;
  heir->events.counted(heir->events.context, frame->payload);
  if (!frame->generation) return;
  mg_channel_close(channel); /* the last ones; that we have read them lets the predecessor go */
  heir->events.alone(heir->events.context);
}

static void on_end(struct mg_channel *channel)
{
  struct mg_heir *heir = channel->owner;
  mg_channel_close(channel);
  heir->events.alone(heir->events.context);
}

static void on_closed(struct mg_channel *channel)
{
  struct mg_heir *heir = channel->owner;
  heir->closed = true;
  if (heir->let_go) free(heir);
}

struct mg_heir *mg_heir_open(uv_loop_t *loop, int fd, const struct mg_heir_events *events, struct mg_buf *error)
{
  struct mg_heir *heir = mg_calloc(1, sizeof *heir);
  heir->events = *events;
  heir->channel.owner = heir;
  heir->channel.on_frame = on_frame;
  heir->channel.on_end = on_end;
  heir->channel.on_closed = on_closed;
  int result = mg_channel_init(&heir->channel, loop);
  if (result == 0) result = mg_channel_open(&heir->channel, fd);
  if (result != 0) close(fd);
  if (result == 0) result = mg_channel_start(&heir->channel);
  if (result == 0) return heir;
  mg_buf_printf(error, "cannot talk to the gateway that is taken over from: %s", uv_strerror(result));
  mg_heir_close(&heir);
  return NULL;
}

void mg_heir_tell(struct mg_heir *heir, struct mg_str reason)
{
  if (!heir->channel.closing) mg_channel_send(&heir->channel, MG_FRAME_READY, 0, reason);
}

void mg_heir_close(struct mg_heir **heir_at)
{
  struct mg_heir *heir = *heir_at;
  *heir_at = NULL;
  if (!heir) return;
  heir->let_go = true;
  if (heir->closed)
    free(heir);
  else
    mg_channel_close(&heir->channel);
}
