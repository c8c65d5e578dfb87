/* script_memory.c - the counting allocator and the recovery of script_memory.h.
 * Owns: the allocator's slot of a lua_State.   May call: Lua C API, log.   Never: fail a call that C makes.
 * Thread: the state's. */
#include "script_memory.h"

#include <stdint.h>

#include "log.h"

static void *count(void *context, void *block, size_t old_size, size_t new_size)
{
  struct mg_script_memory *memory = context;
  if (memory->limited && new_size > old_size && new_size - old_size + memory->used > memory->max) {
    memory->exceeded = true;
    /* A line may double what there is before the watchdog ends it. */
    if (!memory->watchdog || new_size - old_size + memory->used > memory->max * 2) return NULL;
    mg_watchdog_starve(memory->watchdog);
  }
  void *result = memory->alloc(memory->context, block, old_size, new_size);
  if (result || !new_size) memory->used += new_size - old_size;
  return result;
}

void mg_script_memory_watch(struct mg_script_memory *memory, lua_State *L, size_t max)
{
  *memory = (struct mg_script_memory){.max = max ? max : SIZE_MAX / 4};
  memory->used = (size_t)lua_gc(L, LUA_GCCOUNT, 0) * 1024;
  memory->check_at = memory->max / 4 * 3;
  memory->alloc = lua_getallocf(L, &memory->context);
  lua_setallocf(L, count, memory);
}

void mg_script_memory_leave(struct mg_script_memory *memory, lua_State *L)
{
  if (memory->alloc) lua_setallocf(L, memory->alloc, memory->context);
  *memory = (struct mg_script_memory){0};
}

void mg_script_memory_collect(struct mg_script_memory *memory, lua_State *L)
{
  size_t full = memory->max / 4 * 3, before = memory->used;
  lua_gc(L, LUA_GCCOLLECT, 0);
  if (memory->exceeded)
    mg_log(MG_LOG_WARN, "a script wanted more than scripts.max_memory (%zu bytes); %zu of %zu bytes were garbage",
           memory->max, before - memory->used, before);
  memory->exceeded = false;
  memory->worn = memory->used > full;
  memory->check_at = memory->worn ? memory->used + memory->max / 16 : full; /* not a full collection after every call */
}
