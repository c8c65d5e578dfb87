/* fields.c - header lines: llhttp finds names and values, everything between them is checked here.
 * Owns: the parser state that every block starts from.   May call: llhttp, headers.
 * Never: trust llhttp for strictness; 8.1 lets obs-fold and empty names pass, its lax build blanks before the colon.
 * Thread: any. */
#include "fields.h"

#include <llhttp.h>

#include "err.h"

/* A parser that has read a request line and waits for the first header: start lines are parsed by our own code, and
 * llhttp refuses methods it does not know. Written once before main, then only copied. */
static llhttp_t parser_at_first_line;

/* A strict llhttp lets only tokens be names; a lax build of an old one does not. */
#if LLHTTP_VERSION_MAJOR >= 9 || LLHTTP_STRICT_MODE
enum { NAMES_ARE_TOKENS = 1 };
#else
enum { NAMES_ARE_TOKENS = 0 };
#endif

struct fields {
  struct mg_headers *headers;
  const char *start;
  const char *cursor; /* where the next line has to start */
  const char *end;
  const char *name; /* a name whose value has not come yet */
  size_t name_len;
  uint32_t count_before;
  uint32_t count_max;
  int err;
  bool whole;
};

static int fail(struct fields *fields, int err)
{
  fields->err = err;
  return -1;
}

static bool is_blank(char c)
{
  return c == ' ' || c == '\t';
}

/* The line of fields->name ends with a value of len bytes at value; trailing blanks may belong to it. */
static int take_line(struct fields *fields, const char *value, size_t len)
{
  const char *name_end = fields->name + fields->name_len;
  const char *raw_end = value + len;
  if (raw_end == fields->end) return 0; /* its line end is not there yet */
  if (*raw_end != '\r') return fail(fields, *raw_end == '\n' ? MG_ELINEEND : MG_EBADHEADER);
  if (raw_end + 1 == fields->end) return 0;
  if (raw_end[1] != '\n') return fail(fields, MG_ELINEEND);
  const char *value_end = raw_end;
  while (value_end > value && is_blank(value_end[-1])) value_end--;
  struct mg_str text = mg_str(value, (size_t)(value_end - value));
  struct mg_headers *headers = fields->headers;
  if (headers->count >= fields->count_max) return fail(fields, MG_EHEADCOUNT);
  enum mg_header_id id = mg_header_id(fields->name, fields->name_len);
  int err = mg_headers_push(headers, mg_str(fields->name, fields->name_len), text, id);
  if (err) return fail(fields, err);
  if (value == name_end + 2 && name_end[1] == ' ' && value_end == raw_end)
    headers->items[headers->count - 1].flags = MG_HEADER_RAW;
  fields->cursor = raw_end + 2;
  fields->name = NULL;
  return 0;
}

/* llhttp reports an empty value late or not at all: here it is found from the name on. */
static int take_empty_line(struct fields *fields)
{
  const char *at = fields->name + fields->name_len + 1;
  while (at < fields->end && is_blank(*at)) at++;
  return take_line(fields, at, 0);
}

static int on_name(llhttp_t *parser, const char *at, size_t len)
{
  struct fields *fields = parser->data;
  if (at + len >= fields->end) return 0; /* cut off */
  if (fields->name && take_empty_line(fields)) return -1;
  if (at != fields->cursor) return fail(fields, is_blank(*fields->cursor) ? MG_EFOLD : MG_EBADHEADER);
  if (!len || at[len] != ':' || !(NAMES_ARE_TOKENS || mg_token_ok(mg_str(at, len)))) return fail(fields, MG_EBADHEADER);
  if (len > UINT16_MAX) return fail(fields, MG_EHEADLARGE);
  fields->name = at;
  fields->name_len = len;
  /* Every header is an ordinary one to llhttp: it knows no TAB behind a Content-Length, and what framing lines mean is
   * decided elsewhere. An llhttp for which this changes nothing only refuses more. */
  parser->header_state = parser_at_first_line.header_state;
  return 0;
}

static int on_value(llhttp_t *parser, const char *at, size_t len)
{
  struct fields *fields = parser->data;
  if (!fields->name) return fail(fields, MG_EFOLD);
  if (!len) return take_empty_line(fields);
  if (at + len >= fields->end) return 0; /* cut off */
  const char *start = fields->name + fields->name_len + 1;
  while (start < at && is_blank(*start)) start++;
  if (start != at) return fail(fields, *start == '\r' || *start == '\n' ? MG_EFOLD : MG_EBADHEADER);
  return take_line(fields, at, len);
}

static int on_end(llhttp_t *parser)
{
  struct fields *fields = parser->data;
  if (fields->name && take_empty_line(fields)) return -1;
  const char *cursor = fields->cursor;
  if (fields->name || cursor + 2 > fields->end) return fail(fields, MG_ELINEEND);
  if (is_blank(*cursor)) return fail(fields, MG_EFOLD);
  if (cursor[0] != '\r' || cursor[1] != '\n') return fail(fields, MG_ELINEEND);
  fields->cursor += 2;
  /* Every control byte has to be one of the line ends that were looked at: none is left for a name or a value. */
  size_t line_ends = fields->headers->count - fields->count_before + 1;
  size_t len = (size_t)(fields->cursor - fields->start);
  if (mg_count_controls(fields->start, len) != 2 * line_ends) return fail(fields, MG_EBADHEADER);
  fields->whole = true;
  return HPE_PAUSED;
}

static const llhttp_settings_t settings = {
    .on_header_field = on_name,
    .on_header_value = on_value,
    .on_headers_complete = on_end,
};

__attribute__((constructor)) static void prepare_parser(void)
{
  static const char line[] = "POST / HTTP/1.1\r\n";
  llhttp_init(&parser_at_first_line, HTTP_REQUEST, &settings);
  llhttp_execute(&parser_at_first_line, line, sizeof line - 1);
}

static int err_of(const struct fields *fields, llhttp_errno_t parser_err)
{
  if (fields->err) return fields->err;
  if (!fields->name && fields->cursor < fields->end && is_blank(*fields->cursor)) return MG_EFOLD;
  switch (parser_err) {
  case HPE_INVALID_CONTENT_LENGTH:
  case HPE_UNEXPECTED_CONTENT_LENGTH:
    return MG_EBADLENGTH;
  case HPE_LF_EXPECTED:
  case HPE_CR_EXPECTED:
  case HPE_STRICT:
    return MG_ELINEEND;
  default:
    return MG_EBADHEADER;
  }
}

long mg_fields_parse(struct mg_headers *headers, const char *bytes, size_t len, uint32_t count_max)
{
  struct fields fields = {.headers = headers,
                          .start = bytes,
                          .cursor = bytes,
                          .end = bytes + len,
                          .count_before = headers->count,
                          .count_max = count_max};
  llhttp_t parser = parser_at_first_line;
  parser.data = &fields;
  llhttp_errno_t err = llhttp_execute(&parser, bytes, len);
  if (fields.whole) return fields.cursor - bytes;
  return err == HPE_OK ? 0 : err_of(&fields, err);
}

static void read_connection(struct mg_fields_summary *summary, struct mg_str list)
{
  struct mg_str member;
  while (mg_list_next(&list, &member)) {
    if (mg_str_equal_nocase(member, MG_STR("close"))) summary->close = true;
    if (mg_str_equal_nocase(member, MG_STR("keep-alive"))) summary->keep_alive = true;
    if (mg_str_equal_nocase(member, MG_STR("upgrade"))) summary->connection_upgrade = true;
  }
}

void mg_fields_summarise(struct mg_fields_summary *summary, const struct mg_headers *headers)
{
  *summary = (struct mg_fields_summary){0};
  for (unsigned i = 0; i < headers->count; i++) {
    const struct mg_header *line = &headers->items[i];
    struct mg_str value = mg_str(line->value, line->value_len);
    switch (line->id) {
    case MG_H_HOST:
      summary->host = line, summary->hosts++;
      break;
    case MG_H_CONTENT_LENGTH:
      summary->length = line, summary->lengths++;
      break;
    case MG_H_TRANSFER_ENCODING:
      summary->coding = line, summary->codings++;
      break;
    case MG_H_UPGRADE:
      summary->upgrade = line, summary->upgrades++;
      break;
    case MG_H_CONNECTION:
      read_connection(summary, value);
      break;
    case MG_H_EXPECT:
      summary->expects++;
      summary->expects_100 += mg_str_equal_nocase(value, MG_STR("100-continue"));
      break;
    default:
      break;
    }
  }
}

bool mg_length_parse(struct mg_str text, uint64_t *length)
{
  if (!text.len || text.len > 19) return false;
  uint64_t number = 0;
  for (size_t i = 0; i < text.len; i++) {
    unsigned digit = (unsigned char)text.ptr[i] - '0';
    if (digit > 9) return false;
    number = number * 10 + digit; /* 19 digits stay below 2^64 */
  }
  if (number > INT64_MAX) return false;
  *length = number;
  return true;
}
