/* api_files.c - files below a directory, for filters that answer with them.
 * Owns: nothing.   May call: exchange, file.   Never: call Lua (an FFI call must not come back).   Thread: the loop's.
 */
#include "api_private.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "file.h"

enum { LIST_BYTES_MAX = 524288 };

_Static_assert((int)MG_FOUND_FILE == (int)MG_FILE_REGULAR && (int)MG_FOUND_BUSY == (int)MG_FILE_BUSY, "what is found");

int mg_directory_exists(const char *path)
{
  struct stat facts;
  return stat(path, &facts) == 0 && S_ISDIR(facts.st_mode);
}

static bool has_nul(const char *text, size_t len)
{
  return memchr(text, '\0', len) != NULL;
}

int mg_request_open_file(struct mg_request *request, const char *base, const char *path, size_t path_len, int follow)
{
  struct mg_exchange *ex = find(request);
  if (!ex) return MG_LUA_GONE;
  if (ex->phase != MG_PHASE_REQUEST || ex->answered) return MG_LUA_PHASE;
  mg_exchange_drop_file(ex);
  if (has_nul(path, path_len)) return MG_FOUND_NONE;
  return (int)mg_file_open(base, path, follow != 0, &ex->file);
}

double mg_request_file_size(struct mg_request *request)
{
  struct mg_exchange *ex = find(request);
  return ex && ex->file ? (double)ex->file->size : MG_LUA_GONE;
}

double mg_request_file_mtime(struct mg_request *request)
{
  struct mg_exchange *ex = find(request);
  return ex && ex->file ? (double)ex->file->mtime_ms : MG_LUA_GONE;
}

int mg_request_send_file(struct mg_request *request, int status, double offset, double length)
{
  struct mg_exchange *ex = find(request);
  if (!ex) return MG_LUA_GONE;
  if (!ex->file) return MG_LUA_PHASE;
  double size = (double)ex->file->size;
  if (!(offset >= 0 && offset <= size && length >= 0 && length <= size - offset)) return MG_LUA_VALUE;
  int err = mg_request_respond(request, status, "", 0);
  if (err) return err;
  ex->file_at = ex->file_near = (uint64_t)offset;
  ex->file_left = (uint64_t)length;
  ex->sends_file = true;
  /* Filters that look at the answer's body get it in memory, where it fits. */
  return ex->plan->reads_answer && mg_exchange_hold_file(ex) ? MG_LUA_NOMEM : MG_LUA_OK;
}

const char *mg_request_list_directory(struct mg_request *request, const char *base, const char *path, size_t path_len,
                                      int follow, int *len)
{
  struct mg_exchange *ex = find(request);
  struct mg_buf names = {0};
  if (!ex) return none(len, MG_LUA_GONE);
  if (has_nul(path, path_len) || mg_file_list(base, path, follow != 0, &names) != MG_FILE_DIRECTORY) {
    mg_buf_free(&names);
    return none(len, 0);
  }
  char *copy = names.len <= LIST_BYTES_MAX ? mg_arena_copy(&ex->arena, names.len ? names.ptr : "", names.len) : NULL;
  size_t size = names.len;
  mg_buf_free(&names);
  return copy ? give(mg_str(copy, size), len) : none(len, MG_LUA_NOMEM);
}
