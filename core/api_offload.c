/* api_offload.c - what filters have done on another thread while their coroutine waits: passwords against hashes.
 * Owns: a job from the call to its end.   May call: exchange, offload, digest, libcrypt.   Never: call Lua.
 * Thread: the loop's, but for what a job runs. */
#include "api_private.h"

#include <crypt.h>
#include <openssl/crypto.h>
#include <stdlib.h>

#include "digest.h"

enum { HASH_BYTES_MAX = 128 };

/* --- credentials -------------------------------------------------------------------------------------------------- */

/* What follows the scheme Basic (RFC 7617, 2) in an Authorization value, or an empty text. */
static struct mg_str basic_token(struct mg_str value)
{
  const size_t scheme = sizeof "basic " - 1;
  if (value.len <= scheme || !mg_equal_nocase(value.ptr, "basic ", scheme)) return MG_STR("");
  value = mg_str(value.ptr + scheme, value.len - scheme);
  while (value.len && value.ptr[0] == ' ') value = mg_str(value.ptr + 1, value.len - 1);
  return value;
}

const char *mg_request_basic_credentials(struct mg_request *request, int *len)
{
  struct mg_exchange *ex = find(request);
  if (!ex) return none(len, MG_LUA_GONE);
  const struct mg_header *line = mg_api_line(&ex->request.headers, MG_STR("authorization"), 0);
  if (!line || mg_api_line(&ex->request.headers, MG_STR("authorization"), 1)) return none(len, 0);
  struct mg_str token = basic_token(mg_str(line->value, line->value_len));
  char *text = mg_arena_alloc(&ex->arena, token.len + 1);
  size_t size;
  if (!text) return none(len, MG_LUA_NOMEM);
  if (!token.len || !mg_base64_decode(token, text, token.len, &size)) return none(len, 0);
  return give(mg_str(text, size), len);
}

/* --- passwords ---------------------------------------------------------------------------------------------------- */

struct password_job {
  struct mg_job job;
  bool matches;
  char password[CRYPT_MAX_PASSPHRASE_SIZE];
  char hash[HASH_BYTES_MAX];
  struct crypt_data data;
};

/* The hash names its own method, cost and salt. */
static void hash_password(struct mg_job *job)
{
  struct password_job *password = (struct password_job *)job;
  size_t len = strlen(password->hash);
  const char *got = crypt_r(password->password, password->hash, &password->data);
  password->matches = got && strlen(got) == len && CRYPTO_memcmp(got, password->hash, len) == 0;
}

static void free_password(struct password_job *password)
{
  OPENSSL_cleanse(password, sizeof *password);
  free(password);
}

static void on_hashed(struct mg_job *job, int err)
{
  struct password_job *password = (struct password_job *)job;
  struct mg_exchange *ex = job->owner;
  int result = err ? MG_LUA_BUSY : password->matches;
  free_password(password);
  if (!ex) return;
  ex->job = NULL;
  ex->job_started = false;
  ex->job_result = result;
  mg_exchange_run(ex);
}

int mg_request_check_password(struct mg_request *request, const char *password, size_t password_len, const char *hash,
                              size_t hash_len)
{
  struct mg_exchange *ex = find(request);
  if (!ex) return MG_LUA_GONE;
  if ((ex->phase != MG_PHASE_REQUEST && ex->phase != MG_PHASE_RESPONSE) || ex->job) return MG_LUA_PHASE;
  if (password_len >= CRYPT_MAX_PASSPHRASE_SIZE || hash_len >= HASH_BYTES_MAX) return MG_LUA_VALUE;
  if (memchr(password, '\0', password_len) || memchr(hash, '\0', hash_len)) return MG_LUA_VALUE;
  struct password_job *job = mg_calloc(1, sizeof *job);
  job->job = (struct mg_job){.run = hash_password, .done = on_hashed, .owner = ex};
  memcpy(job->password, password, password_len);
  memcpy(job->hash, hash, hash_len);
  ex->job = &job->job;
  return MG_LUA_OK;
}

int mg_request_job_result(struct mg_request *request)
{
  struct mg_exchange *ex = find(request);
  return ex ? ex->job_result : MG_LUA_GONE;
}
