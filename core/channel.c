/* channel.c - frames over a libuv pipe.
 * Owns: the pipe, what was read and not yet understood, frames being written.
 * May call: mem, frame, libuv.   Never: know what a frame means.   Thread: the loop thread. */
#include "channel.h"

#include <stdlib.h>

enum { READ_SIZE = 65536 };

struct channel_write {
  uv_write_t request;
  struct mg_buf bytes;
};

int mg_channel_init(struct mg_channel *channel, uv_loop_t *loop)
{
  channel->pipe.data = channel;
  return uv_pipe_init(loop, &channel->pipe, 0);
}

int mg_channel_open(struct mg_channel *channel, int fd)
{
  return uv_pipe_open(&channel->pipe, fd);
}

static void on_room(uv_handle_t *handle, size_t suggested, uv_buf_t *room)
{
  (void)suggested;
  struct mg_channel *channel = handle->data;
  *room = uv_buf_init(mg_buf_reserve(&channel->in, READ_SIZE), READ_SIZE);
}

static void on_read(uv_stream_t *stream, ssize_t count, const uv_buf_t *room)
{
  (void)room;
  struct mg_channel *channel = stream->data;
  if (channel->closing || count == 0) return;
  if (count < 0) {
    uv_read_stop(stream);
    channel->on_end(channel);
    return;
  }
  channel->in.len += (size_t)count;
  size_t used = 0;
  long size = 0;
  struct mg_frame frame;
  while (!channel->closing &&
         (size = mg_frame_read(mg_str(channel->in.ptr + used, channel->in.len - used), &frame)) > 0) {
    used += (size_t)size;
    channel->on_frame(channel, &frame);
  }
  if (channel->closing) return;
  mg_buf_consume(&channel->in, used);
  if (channel->in.len == 0) mg_buf_free(&channel->in); /* a bundle passes rarely; its room is not kept */
  if (size < 0) {
    uv_read_stop(stream);
    channel->on_end(channel);
  }
}

int mg_channel_start(struct mg_channel *channel)
{
  return uv_read_start((uv_stream_t *)&channel->pipe, on_room, on_read);
}

static void on_written(uv_write_t *request, int status)
{
  (void)status;
  struct channel_write *write = request->data;
  mg_buf_free(&write->bytes);
  free(write);
}

void mg_channel_send(struct mg_channel *channel, enum mg_frame_type type, uint64_t generation, struct mg_str payload)
{
  if (channel->closing) return;
  struct channel_write *write = mg_calloc(1, sizeof *write);
  write->request.data = write;
  mg_frame_append(&write->bytes, type, generation, payload);
  uv_buf_t out = uv_buf_init(write->bytes.ptr, (unsigned)write->bytes.len);
  int result = uv_write(&write->request, (uv_stream_t *)&channel->pipe, &out, 1, on_written);
  if (result < 0) on_written(&write->request, result);
}

static void on_pipe_closed(uv_handle_t *handle)
{
  struct mg_channel *channel = handle->data;
  mg_buf_free(&channel->in);
  channel->on_closed(channel);
}

void mg_channel_close(struct mg_channel *channel)
{
  if (channel->closing) return;
  channel->closing = true;
  uv_close((uv_handle_t *)&channel->pipe, on_pipe_closed);
}
