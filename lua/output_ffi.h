#pragma once
/* output_ffi.h - what the outputs of the journal see of C: one exchange as numbers and borrowed texts, buffers, files.
 * Compiled by core/output*.c and read, byte for byte, by ffi.cdef in lua/ffi.lua; only an output's lua_State has it.
 * No preprocessor lines but the first. Times are microseconds, absolute ones since 1970; as doubles they are exact. */

/* Borrowed until the output returns. */
struct mg_out_text {
  const char *ptr;
  size_t len;
};

enum { MG_OUT_CLIENT_REQUEST, MG_OUT_UPSTREAM_REQUEST, MG_OUT_UPSTREAM_RESPONSE, MG_OUT_CLIENT_RESPONSE, MG_OUT_LEGS };

/* One of the four messages. What is not known is empty or zero. */
struct mg_out_leg {
  bool present;
  bool whole;   /* all of the body came by */
  bool has_crc; /* crc is that of the recorded bytes, as they were recorded */
  bool damaged; /* and observed is what they have now */
  bool has_body; /* level FULL: the body was recorded, though it may be empty */
  uint32_t crc, observed;
  int level, status;
  struct mg_out_text line, method, target, path, query, protocol, reason;
  const struct mg_out_text *headers; /* lines "Name: value" */
  int header_count;
  double header_bytes, body_bytes;
  struct mg_out_text body;
};

struct mg_out_exchange {
  struct mg_out_text id;
  int shard;
  double epoch, number;
  bool started, ended, tunnel;
  int incomplete;  /* enum mg_incomplete of core/output.h */
  int answered_by; /* 0 upstream, 1 filter, 2 gateway */
  int status;      /* that the client got; 0: none */
  double start, end;
  double sent, first_byte; /* absolute; 0: never */
  double tries;
  struct mg_out_text route, filters, generation, client, client_source, error, upstream;
  const struct mg_out_text *attributes; /* name, value, name, value, ... */
  int attribute_count;                  /* of texts */
  struct mg_out_leg legs[4];
};

/* --- text: each appends to a buffer ------------------------------------------------------------------------------- */

struct mg_buf;
struct mg_buf *mg_out_buffer(void);
void mg_out_buffer_free(struct mg_buf *buf);
const char *mg_out_bytes(struct mg_buf *buf);
size_t mg_out_size(struct mg_buf *buf);
/* Back to that many bytes. */
void mg_out_shorten(struct mg_buf *buf, size_t size);
void mg_out_put(struct mg_buf *buf, const char *bytes, size_t len);
/* A JSON string; bytes that are no UTF-8 are ISO-8859-1. lower: in small letters. */
void mg_out_json(struct mg_buf *buf, const char *bytes, size_t len, bool lower);
/* Header lines as {"name":["value",...],...}: equal names together, in order of their first, in small letters. */
void mg_out_json_headers(struct mg_buf *buf, const struct mg_out_text *lines, int count);
/* Pairs as {"name":["value",...],...}, those of the name without left out. */
void mg_out_json_pairs(struct mg_buf *buf, const struct mg_out_text *texts, int count, const char *without);
/* A line as Apache's access log writes what a client said: quotes, backslashes and control characters escaped. */
void mg_out_escaped(struct mg_buf *buf, const char *bytes, size_t len);
void mg_out_base64(struct mg_buf *buf, const char *bytes, size_t len);
void mg_out_base32_sha256(struct mg_buf *buf, const char *bytes, size_t len);
void mg_out_uuid(struct mg_buf *buf);
/* "2026-11-30T21:00:00.123456Z" */
void mg_out_time(struct mg_buf *buf, double us);
/* Microseconds as seconds: "0.001234". */
void mg_out_seconds(struct mg_buf *buf, double us);
void mg_out_integer(struct mg_buf *buf, double number);
void mg_out_hex32(struct mg_buf *buf, uint32_t number);
bool mg_out_is_utf8(const char *bytes, size_t len);
/* The value of the nth (from 0) line of that name; ptr NULL when there is none. */
void mg_out_header(const struct mg_out_leg *leg, const char *name, size_t name_len, int nth, struct mg_out_text *value);
/* Orders the lines of a buffer by their bytes. */
void mg_out_sort_lines(struct mg_buf *buf);
/* Where the value of a line "Name: value" begins, and how long its name is. */
size_t mg_out_split_line(const struct mg_out_text *line, size_t *name_len);

/* --- records that are compressed one by one ----------------------------------------------------------------------- */

enum { MG_OUT_PLAIN, MG_OUT_ZSTD, MG_OUT_GZIP };

struct mg_out_packer;
struct mg_out_packer *mg_out_packer_new(int kind, int level);
void mg_out_packer_free(struct mg_out_packer *packer);
/* Appends bytes to buf as one zstd frame with size and checksum, or one gzip member. False when that failed. */
bool mg_out_pack(struct mg_out_packer *packer, struct mg_buf *buf, const char *bytes, size_t len);
/* The frame or member that packed begins with: its bytes are put into plain (which is emptied first); returns its
 * length, 0 when it is torn or damaged. Not for MG_OUT_PLAIN. */
size_t mg_out_unpack(struct mg_out_packer *packer, const char *packed, size_t len, struct mg_buf *plain);

/* --- files -------------------------------------------------------------------------------------------------------- */

struct mg_out_file;
/* path NULL: the standard output. fresh: it may not be there yet; otherwise what is there stays and is gone on with. A
 * file that another process has open here is left to it. NULL with a negative errno in *error. */
struct mg_out_file *mg_out_file_open(const char *path, bool fresh, int *error);
/* What is appended here goes out with the next push. */
struct mg_buf *mg_out_file_buffer(struct mg_out_file *file);
/* Bytes written and in the buffer. */
double mg_out_file_size(const struct mg_out_file *file);
/* Writes the buffer, as much as goes. 0, or a negative errno: what was not written is still in the buffer. */
int mg_out_file_push(struct mg_out_file *file);
/* Pushes, and waits for the disk. Where that means nothing (a pipe) it is a push. */
int mg_out_file_sync(struct mg_out_file *file);
/* Cuts the file to size bytes, those in the buffer included. */
int mg_out_file_cut(struct mg_out_file *file, double size);
/* Syncs, renames to name (NULL: not) and frees. On an error the file stays open and nothing is freed. */
int mg_out_file_close(struct mg_out_file *file, const char *name);
/* Frees without writing what is in the buffer; removes the file where that is asked for. */
void mg_out_file_drop(struct mg_out_file *file, bool remove);
/* Maps what is in a file; *len is its size. NULL with a negative errno in *error, or 0 when it is empty. */
const char *mg_out_file_map(const struct mg_out_file *file, size_t *len, int *error);
void mg_out_file_unmap(const char *bytes, size_t len);
/* Makes a folder where it is not there, and sees whether files can be made in it. 0 or a negative errno. */
int mg_out_folder_make(const char *path);
/* Names in a folder, each ended by a NUL, into buf. 0 or a negative errno. */
int mg_out_folder_list(const char *path, struct mg_buf *buf);
/* The text of an errno. */
const char *mg_out_error(int error);
double mg_out_now(void);
const char *mg_out_version(void);
