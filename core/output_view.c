/* output_view.c - an exchange of the journal as outputs see it: first lines taken apart, times absolute.
 * Owns: nothing.   May call: assemble's struct.   Never: copy a text.   Thread: any. */
#include "output_private.h"

#include "format.h"

_Static_assert(sizeof(struct mg_out_text) == sizeof(struct mg_str) &&
                   offsetof(struct mg_out_text, len) == offsetof(struct mg_str, len),
               "texts are the same on both sides");
_Static_assert((int)MG_OUT_CLIENT_REQUEST == (int)MG_CLIENT_REQUEST &&
                   (int)MG_OUT_CLIENT_RESPONSE == (int)MG_CLIENT_RESPONSE && (int)MG_OUT_LEGS == (int)MG_MESSAGES,
               "messages are numbered alike");

static struct mg_out_text text(struct mg_str from)
{
  return (struct mg_out_text){from.len ? from.ptr : "", from.len};
}

/* Takes what stands before the first blank off rest; all of it when there is none. */
static struct mg_str next_word(struct mg_str *rest)
{
  const char *blank = rest->len ? memchr(rest->ptr, ' ', rest->len) : NULL;
  struct mg_str word = mg_str(rest->ptr, blank ? (size_t)(blank - rest->ptr) : rest->len);
  size_t taken = word.len + (blank != NULL);
  *rest = mg_str(rest->ptr + taken, rest->len - taken);
  return word;
}

/* The path of a target in absolute form begins behind its authority. */
static struct mg_str without_origin(struct mg_str target)
{
  if (!target.len || target.ptr[0] == '/') return target;
  const char *authority = memmem(target.ptr, target.len, "://", 3);
  if (!authority) return target;
  const char *end = target.ptr + target.len, *from = authority + 3;
  while (from < end && *from != '/' && *from != '?') from++;
  return from < end ? mg_str(from, (size_t)(end - from)) : MG_STR("/");
}

static void read_request_line(struct mg_out_leg *leg, struct mg_str line)
{
  leg->line = text(line);
  leg->method = text(next_word(&line));
  struct mg_str target = next_word(&line);
  leg->target = text(target);
  leg->protocol = text(line);
  target = without_origin(target);
  const char *mark = target.len ? memchr(target.ptr, '?', target.len) : NULL;
  leg->path = text(mg_str(target.ptr, mark ? (size_t)(mark - target.ptr) : target.len));
  if (mark) leg->query = text(mg_str(mark + 1, target.len - leg->path.len - 1));
}

static void read_status_line(struct mg_out_leg *leg, struct mg_str line)
{
  leg->line = text(line);
  leg->protocol = text(next_word(&line));
  struct mg_str status = next_word(&line);
  leg->reason = text(line);
  for (size_t i = 0; i < status.len && i < 3 && status.ptr[i] >= '0' && status.ptr[i] <= '9'; i++)
    leg->status = leg->status * 10 + (status.ptr[i] - '0');
}

static void read_body(struct mg_out_leg *leg, const struct mg_found_exchange *ex, int side)
{
  const struct mg_buf *body = &ex->body[side];
  leg->header_bytes = (double)ex->head_bytes[side];
  leg->body_bytes = (double)ex->body_bytes[side];
  leg->body = text(mg_str(body->ptr, body->len));
  leg->whole = ex->flags & (side ? MG_END_RESPONSE_WHOLE : MG_END_REQUEST_WHOLE);
  leg->has_crc = ex->crcs >> side & 1;
  leg->crc = leg->observed = ex->crc[side];
  leg->damaged = ex->body_damaged[side];
  leg->has_body = ex->ended && leg->level == MG_LEVEL_FULL && body->len == ex->body_recorded[side];
  if (leg->damaged) leg->observed = mg_crc32c(0, body->ptr, body->len);
}

static void read_leg(struct mg_out_exchange *view, const struct mg_found_exchange *ex, enum mg_message which)
{
  struct mg_out_leg *leg = &view->legs[which];
  bool request = which == MG_CLIENT_REQUEST || which == MG_UPSTREAM_REQUEST;
  bool upstream = which == MG_UPSTREAM_REQUEST || which == MG_UPSTREAM_RESPONSE;
  *leg = (struct mg_out_leg){.level = request ? ex->request_level : ex->response_level,
                             .headers = (const struct mg_out_text *)(const void *)ex->headers[which].items,
                             .header_count = (int)ex->headers[which].count,
                             .line = text(MG_STR("")),
                             .method = text(MG_STR("")),
                             .target = text(MG_STR("")),
                             .path = text(MG_STR("")),
                             .query = text(MG_STR("")),
                             .protocol = text(MG_STR("")),
                             .reason = text(MG_STR("")),
                             .body = text(MG_STR(""))};
  if (which == MG_CLIENT_REQUEST) read_request_line(leg, ex->line);
  if (which == MG_UPSTREAM_REQUEST) read_request_line(leg, ex->upstream_line);
  if (which == MG_UPSTREAM_RESPONSE) read_status_line(leg, ex->upstream_status);
  if (which == MG_CLIENT_RESPONSE) read_status_line(leg, ex->client_status);
  if (!upstream) read_body(leg, ex, !request);
  leg->present = !upstream || (ex->target.len && (request || leg->line.len));
}

void mg_output_view(const struct mg_found_exchange *ex, enum mg_incomplete incomplete, struct mg_out_exchange *view)
{
  if (incomplete == MG_COMPLETE && !ex->ended) incomplete = MG_NO_END;
  if (incomplete == MG_COMPLETE && !ex->started) incomplete = MG_NO_START;
  *view = (struct mg_out_exchange){.id = text(mg_str(ex->id, strlen(ex->id))),
                                   .shard = (int)ex->shard,
                                   .epoch = ex->epoch,
                                   .number = (double)ex->number,
                                   .started = ex->started,
                                   .ended = ex->ended,
                                   .tunnel = ex->flags & MG_END_TUNNEL,
                                   .incomplete = (int)incomplete,
                                   .answered_by = (int)(ex->flags & 3),
                                   .status = (int)ex->status,
                                   .start = (double)ex->start_us,
                                   .end = ex->ended ? (double)ex->end_us : 0,
                                   .tries = (double)ex->tries,
                                   .route = text(ex->route),
                                   .filters = text(ex->filters),
                                   .generation = text(ex->generation),
                                   .client = text(ex->client),
                                   .client_source = text(ex->client_source),
                                   .error = text(ex->error),
                                   .upstream = text(ex->target),
                                   .attributes = (const struct mg_out_text *)(const void *)ex->attributes.items,
                                   .attribute_count = (int)ex->attributes.count};
  if (ex->sent_us) view->sent = (double)(ex->start_us + ex->sent_us - 1);
  if (ex->first_byte_us) view->first_byte = (double)(ex->start_us + ex->first_byte_us - 1);
  for (enum mg_message which = 0; which < MG_MESSAGES; which++) read_leg(view, ex, which);
  struct mg_out_leg *answer = &view->legs[MG_OUT_CLIENT_RESPONSE];
  if (!answer->status) answer->status = view->status;
}
