/* body.c - message bodies as they come: counted, chunked or until the peer closes (RFC 9112, 6 and 7).
 * Owns: nothing; the chunked state lives in the exchange's arena.   May call: headers, fields, mem.
 * Never: look at a byte twice, accept a chunk line that another reader could take differently.
 * Thread: any, one per decoder. */
#include "fields.h"
#include "http1.h"

enum {
  SIZE_DIGITS_MAX = 16,
  TRAILER_BYTES_MAX = 8192,
  TRAILER_COUNT_MAX = 64,
  EXTENSION_BYTES_FREE = 16384, /* and then one byte for every eight of data: enough for signed chunks */
  EXTENSION_BYTES_SHARE = 8
};

/* The grammar of chunk-size [ chunk-ext ] CR LF, the data and the trailer section, a byte at a time. */
enum chunk_state {
  CHUNK_SIZE_FIRST,  /* at least one digit */
  CHUNK_SIZE,        /* further digits, blanks, ';' or CR */
  CHUNK_BEFORE_SEMI, /* blanks, then ';' has to come */
  CHUNK_NAME_FIRST,  /* behind ';' and blanks */
  CHUNK_NAME,
  CHUNK_AFTER_NAME,  /* blanks behind a name: '=' or ';' */
  CHUNK_VALUE_FIRST, /* behind '=' and blanks */
  CHUNK_VALUE,       /* a token */
  CHUNK_QUOTED,
  CHUNK_ESCAPED, /* behind a backslash */
  CHUNK_AFTER_VALUE,
  CHUNK_SIZE_LF,
  CHUNK_DATA,
  CHUNK_DATA_CR,
  CHUNK_DATA_LF,
  CHUNK_TRAILER
};

struct mg_chunked {
  uint64_t left; /* of the size being read, or of the data still to come */
  uint64_t extension_bytes;
  struct mg_arena *arena;
  struct mg_headers *trailers; /* NULL: checked, then dropped */
  char *section;               /* the trailer section as far as it is there, with its empty line */
  uint32_t section_len;
  uint32_t line_len; /* of the trailer line being read */
  uint8_t digits;    /* of the size being read */
  uint8_t state;     /* enum chunk_state */
};

int mg_body_start(struct mg_body_decoder *decoder, enum mg_framing framing, uint64_t content_length,
                  struct mg_arena *arena, struct mg_headers *trailers)
{
  *decoder = (struct mg_body_decoder){.framing = (uint8_t)framing};
  switch (framing) {
  case MG_FRAMING_NONE:
    decoder->done = true;
    return 0;
  case MG_FRAMING_LENGTH:
    decoder->left = content_length;
    decoder->done = content_length == 0;
    return 0;
  case MG_FRAMING_CLOSE:
    return 0;
  case MG_FRAMING_CHUNKED:
    break;
  }
  decoder->chunked = mg_arena_alloc(arena, sizeof *decoder->chunked);
  if (!decoder->chunked) return MG_ENOMEM;
  *decoder->chunked = (struct mg_chunked){.arena = arena, .trailers = trailers};
  return 0;
}

static int digit_of(unsigned char c)
{
  if (c >= '0' && c <= '9') return c - '0';
  c |= 0x20;
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static int take_digit(struct mg_chunked *chunked, int digit)
{
  if (++chunked->digits > SIZE_DIGITS_MAX || chunked->left > INT64_MAX >> 4) return MG_EBADCHUNK;
  chunked->left = chunked->left * 16 + (unsigned)digit;
  return CHUNK_SIZE;
}

/* The state behind a byte of an extension, or an error (RFC 9112, 7.1.1). */
static int step_extension(int state, unsigned char c)
{
  bool blank = c == ' ' || c == '\t', token = mg_token_bytes[c];
  bool text = blank || (c > 0x20 && c != 0x7f); /* of a quoted string */
  switch (state) {
  case CHUNK_BEFORE_SEMI:
    return blank ? CHUNK_BEFORE_SEMI : c == ';' ? CHUNK_NAME_FIRST : MG_EBADCHUNK;
  case CHUNK_NAME_FIRST:
    return blank ? CHUNK_NAME_FIRST : token ? CHUNK_NAME : MG_EBADCHUNK;
  case CHUNK_NAME:
    if (token) return CHUNK_NAME;
    if (c == '\r') return CHUNK_SIZE_LF;
    /* fall through */
  case CHUNK_AFTER_NAME:
    return blank ? CHUNK_AFTER_NAME : c == '=' ? CHUNK_VALUE_FIRST : c == ';' ? CHUNK_NAME_FIRST : MG_EBADCHUNK;
  case CHUNK_VALUE_FIRST:
    return blank ? CHUNK_VALUE_FIRST : c == '"' ? CHUNK_QUOTED : token ? CHUNK_VALUE : MG_EBADCHUNK;
  case CHUNK_QUOTED:
    return c == '"' ? CHUNK_AFTER_VALUE : c == '\\' ? CHUNK_ESCAPED : text ? state : MG_EBADCHUNK;
  case CHUNK_ESCAPED:
    return text ? CHUNK_QUOTED : MG_EBADCHUNK;
  case CHUNK_VALUE:
    if (token) return CHUNK_VALUE;
    /* fall through */
  default: /* CHUNK_AFTER_VALUE */
    return c == '\r' ? CHUNK_SIZE_LF : c == ';' ? CHUNK_NAME_FIRST : blank ? CHUNK_BEFORE_SEMI : MG_EBADCHUNK;
  }
}

static int end_size_line(struct mg_body_decoder *decoder, unsigned char c)
{
  struct mg_chunked *chunked = decoder->chunked;
  if (c != '\n') return MG_EBADCHUNK;
  chunked->digits = 0;
  if (chunked->left == 0) return CHUNK_TRAILER;
  if (decoder->body_size + chunked->left > INT64_MAX) return MG_EBADCHUNK;
  return CHUNK_DATA;
}

/* The state behind any byte that is neither data nor trailer. */
static int step(struct mg_body_decoder *decoder, unsigned char c)
{
  struct mg_chunked *chunked = decoder->chunked;
  int digit;
  switch (chunked->state) {
  case CHUNK_SIZE_FIRST:
    digit = digit_of(c);
    return digit < 0 ? MG_EBADCHUNK : take_digit(chunked, digit);
  case CHUNK_SIZE:
    if (c == '\r') return CHUNK_SIZE_LF;
    digit = digit_of(c);
    if (digit >= 0) return take_digit(chunked, digit);
    return step_extension(CHUNK_BEFORE_SEMI, c);
  case CHUNK_SIZE_LF:
    return end_size_line(decoder, c);
  case CHUNK_DATA_CR:
    return c == '\r' ? CHUNK_DATA_LF : MG_EBADCHUNK;
  case CHUNK_DATA_LF:
    return c == '\n' ? CHUNK_SIZE_FIRST : MG_EBADCHUNK;
  default:
    if (++chunked->extension_bytes > EXTENSION_BYTES_FREE + decoder->body_size / EXTENSION_BYTES_SHARE)
      return MG_EBADCHUNK;
    return step_extension(chunked->state, c);
  }
}

/* Names that frame, route, authorise or describe a message: read behind its body they would come too late, or change
 * what was decided on the head (RFC 9110, 6.5.1). */
static bool may_trail(const struct mg_header *line)
{
  static const struct mg_str never[] = {
      MG_STR("authorization"), MG_STR("cookie"),           MG_STR("set-cookie"),         MG_STR("content-encoding"),
      MG_STR("content-range"), MG_STR("cache-control"),    MG_STR("max-forwards"),       MG_STR("location"),
      MG_STR("age"),           MG_STR("expires"),          MG_STR("retry-after"),        MG_STR("vary"),
      MG_STR("range"),         MG_STR("www-authenticate"), MG_STR("proxy-authenticate"),
  };
  if (line->id != MG_H_OTHER) return false;
  struct mg_str name = mg_str(line->name, line->name_len);
  for (size_t i = 0; i < sizeof never / sizeof never[0]; i++)
    if (mg_str_equal_nocase(name, never[i])) return false;
  return true;
}

static int end_trailers(struct mg_chunked *chunked)
{
  struct mg_headers lines;
  mg_headers_init(&lines, chunked->arena);
  long taken = mg_fields_parse(&lines, chunked->section, chunked->section_len, TRAILER_COUNT_MAX);
  if (taken == MG_ENOMEM) return MG_ENOMEM;
  if (taken != (long)chunked->section_len) return MG_EBADTRAILER;
  for (unsigned i = 0; i < lines.count && chunked->trailers; i++) {
    const struct mg_header *line = &lines.items[i];
    if (!may_trail(line)) continue;
    int err = mg_headers_push(chunked->trailers, mg_str(line->name, line->name_len),
                              mg_str(line->value, line->value_len), line->id);
    if (err) return err;
  }
  return 0;
}

/* One byte of the trailer section: 1 when the body ends with it, 0, or an error. Line ends are checked at once, the
 * lines themselves when all are there. */
static int step_trailer(struct mg_chunked *chunked, char c)
{
  if (!chunked->section) {
    chunked->section = mg_arena_alloc(chunked->arena, c == '\r' ? 2 : TRAILER_BYTES_MAX);
    if (!chunked->section) return MG_ENOMEM;
  }
  if (chunked->section_len == TRAILER_BYTES_MAX) return MG_EBADTRAILER;
  bool after_cr = chunked->line_len > 0 && chunked->section[chunked->section_len - 1] == '\r';
  if (after_cr != (c == '\n')) return MG_EBADTRAILER;
  chunked->section[chunked->section_len++] = c;
  chunked->line_len++;
  if (c != '\n') return 0;
  bool empty = chunked->line_len == 2;
  chunked->line_len = 0;
  if (!empty) return 0;
  int err = chunked->section_len == 2 ? 0 : end_trailers(chunked);
  return err ? err : 1;
}

/* Moves what is there of the chunk's data to the decoded bytes. */
static void take_data(struct mg_body_decoder *decoder, char *from, size_t len, struct mg_body_piece *piece)
{
  struct mg_chunked *chunked = decoder->chunked;
  size_t taken = len < chunked->left ? len : (size_t)chunked->left;
  char *to = piece->data + piece->len;
  if (to != from) memmove(to, from, taken);
  piece->len += taken;
  piece->consumed += taken;
  decoder->body_size += taken;
  chunked->left -= taken;
  if (chunked->left == 0) chunked->state = CHUNK_DATA_CR;
}

static int decode_chunked(struct mg_body_decoder *decoder, char *bytes, size_t len, struct mg_body_piece *piece)
{
  struct mg_chunked *chunked = decoder->chunked;
  while (piece->consumed < len) {
    char *at = bytes + piece->consumed;
    if (chunked->state == CHUNK_DATA) {
      take_data(decoder, at, len - piece->consumed, piece);
      continue;
    }
    piece->consumed++;
    if (chunked->state == CHUNK_TRAILER) {
      int ended = step_trailer(chunked, *at);
      if (ended < 0) return ended;
      if (!ended) continue;
      decoder->done = piece->last = true;
      return 0;
    }
    int next = step(decoder, (unsigned char)*at);
    if (next < 0) return next;
    chunked->state = (uint8_t)next;
  }
  return 0;
}

int mg_body_decode(struct mg_body_decoder *decoder, char *bytes, size_t len, struct mg_body_piece *piece)
{
  *piece = (struct mg_body_piece){.data = bytes, .last = decoder->done};
  if (decoder->done) return 0;
  if (decoder->framing == MG_FRAMING_CHUNKED) return decode_chunked(decoder, bytes, len, piece);
  if (decoder->framing == MG_FRAMING_LENGTH) {
    if (len > decoder->left) len = (size_t)decoder->left;
    decoder->left -= len;
    decoder->done = piece->last = decoder->left == 0;
  }
  piece->len = piece->consumed = len;
  decoder->body_size += len;
  return 0;
}

int mg_body_end(struct mg_body_decoder *decoder)
{
  if (decoder->framing == MG_FRAMING_CLOSE) decoder->done = true;
  return decoder->done ? 0 : MG_ETRUNCATED;
}
