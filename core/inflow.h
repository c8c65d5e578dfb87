/* inflow.h - bytes that have come on a stream and are not used up yet.
 *
 * While a read callback runs they lie in the loop's scratch buffer; what is left at its end is kept in a buffer of
 * its own, which goes as soon as it is empty, so that an idle connection holds none. Thread: the loop's. */
#pragma once

#include <stdbool.h>

#include "mem.h"

struct mg_inflow {
  struct mg_buf kept;
  char *at; /* not used up: in the scratch buffer or in kept */
  size_t len;
  bool borrowed; /* at points into the scratch buffer */
};

/** Takes newly read bytes (borrowed until mg_inflow_keep). */
static inline void mg_inflow_add(struct mg_inflow *in, char *bytes, size_t len)
{
  if (in->kept.len > in->len) mg_buf_consume(&in->kept, in->kept.len - in->len); /* used up between two reads */
  if (in->kept.len == 0) {
    in->at = bytes;
    in->len = len;
    in->borrowed = true;
    return;
  }
  mg_buf_append(&in->kept, bytes, len);
  in->at = in->kept.ptr;
  in->len = in->kept.len;
  in->borrowed = false;
}

/** Uses up the first len bytes. */
static inline void mg_inflow_take(struct mg_inflow *in, size_t len)
{
  in->at += len;
  in->len -= len;
}

/** Ends a callback: copies what was only borrowed, drops what is used up. */
static inline void mg_inflow_keep(struct mg_inflow *in)
{
  if (in->borrowed) {
    in->borrowed = false;
    if (in->len) mg_buf_append(&in->kept, in->at, in->len);
  } else if (in->len < in->kept.len) {
    mg_buf_consume(&in->kept, in->kept.len - in->len);
  }
  if (in->len == 0 && in->kept.ptr) mg_buf_free(&in->kept);
  in->at = in->kept.ptr;
  in->len = in->kept.len;
}

static inline void mg_inflow_free(struct mg_inflow *in)
{
  mg_buf_free(&in->kept);
  in->at = NULL;
  in->len = 0;
}
