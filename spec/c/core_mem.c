/* core_mem.c - buffers, pools, arenas: contents, reuse, limits. */
#include "mem.h"

#include "t.h"

TEST(text)
{
  CHECK(mg_str_equal(MG_STR("ab"), mg_str("abc", 2)));
  CHECK(!mg_str_equal(MG_STR("ab"), MG_STR("abc")));
  CHECK(mg_str_equal_nocase(MG_STR("X-aZ@["), MG_STR("x-Az@[")));
  CHECK(!mg_str_equal_nocase(MG_STR("@"), MG_STR("`"))); /* letters alone have a case */
  CHECK(!mg_str_equal_nocase(MG_STR("["), MG_STR("{")));
  char *copy = mg_strndup("a\0b", 3);
  CHECK_INT(memcmp(copy, "a\0b\0", 4), 0);
  free(copy);
}

TEST(buffers)
{
  struct mg_buf buf = {0};
  mg_buf_append(&buf, "", 0);
  CHECK(buf.ptr == NULL);
  mg_buf_append(&buf, "hello ", 6);
  mg_buf_printf(&buf, "%s %d", "world", 42);
  CHECK_STR(mg_str(buf.ptr, buf.len), "hello world 42");
  mg_buf_consume(&buf, 6);
  CHECK_STR(mg_str(buf.ptr, buf.len), "world 42");
  mg_buf_consume(&buf, buf.len);
  CHECK_INT(buf.len, 0);
  for (int i = 0; i < 10000; i++) mg_buf_printf(&buf, "%04d", i);
  CHECK_INT(buf.len, 40000);
  CHECK_INT(memcmp(buf.ptr + 39996, "9999", 4), 0);
  char *room = mg_buf_reserve(&buf, 100000);
  memset(room, 'x', 100000);
  CHECK_INT(buf.len, 40000);
  CHECK(buf.capacity >= 140000);
  mg_buf_free(&buf);
  CHECK(buf.ptr == NULL && buf.len == 0 && buf.capacity == 0);
}

TEST(pools_keep_what_they_may)
{
  struct mg_pool pool;
  mg_pool_init(&pool, 64, 2);
  void *blocks[3];
  for (int i = 0; i < 3; i++) memset(blocks[i] = mg_pool_get(&pool), i, 64);
  for (int i = 0; i < 3; i++) mg_pool_put(&pool, blocks[i]);
  CHECK_INT(pool.kept, 2);
  CHECK(mg_pool_get(&pool) == blocks[1]); /* last in, first out: warm */
  CHECK(mg_pool_get(&pool) == blocks[0]);
  CHECK_INT(pool.kept, 0);
  mg_pool_put(&pool, blocks[0]);
  mg_pool_put(&pool, blocks[1]);
  mg_pool_destroy(&pool);
  CHECK_INT(pool.kept, 0);
}

TEST(arenas)
{
  struct mg_pool pool;
  struct mg_arena arena;
  _Alignas(8) char first[64];
  mg_pool_init(&pool, 256, 8);
  mg_arena_init(&arena, first, sizeof first, &pool, 4096);
  char *a = mg_arena_alloc(&arena, 3), *b = mg_arena_alloc(&arena, 8);
  CHECK(a == first && b == first + 8);
  CHECK_INT(memcmp(mg_arena_copy(&arena, "text", 4), "text", 4), 0);
  CHECK(mg_arena_copy(&arena, "", 0) != NULL);
  CHECK_INT(arena.taken, 0);
  char *pooled = mg_arena_alloc(&arena, 100);
  memset(pooled, 1, 100);
  CHECK_INT(arena.taken, 256);
  CHECK(mg_arena_alloc(&arena, 8) == pooled + 104);
  char *large = mg_arena_alloc(&arena, 1000); /* stands alone: the pooled block is still filled up */
  memset(large, 2, 1000);
  CHECK(mg_arena_alloc(&arena, 8) == pooled + 112);
  CHECK(mg_arena_alloc(&arena, 4000) == NULL);
  unsigned blocks = 0;
  while (mg_arena_alloc(&arena, 200)) blocks++;
  CHECK(blocks > 5 && arena.taken <= 4096);
  mg_arena_reset(&arena, first, sizeof first);
  CHECK_INT(arena.taken, 0);
  CHECK_INT(pool.kept, 8);
  CHECK(mg_arena_alloc(&arena, 8) == first);
  mg_arena_reset(&arena, first, sizeof first);
  mg_pool_destroy(&pool);
}

RUN_TESTS({"text", text}, {"buffers", buffers}, {"pools keep what they may", pools_keep_what_they_may},
          {"arenas", arenas})
