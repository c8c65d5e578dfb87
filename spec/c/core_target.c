/* core_target.c - paths that are refused and paths that are kept, encoding, authorities. */
#include "target.h"

#include "t.h"

static struct mg_pool pool;
static char first[8192];

static struct mg_str text(const char *literal)
{
  return mg_str(literal, strlen(literal));
}

static struct mg_arena *fresh(struct mg_arena *arena)
{
  mg_pool_init(&pool, 4096, 0);
  mg_arena_init(arena, first, sizeof first, &pool, 0);
  return arena;
}

/* Splits a copy that ends where the target ends; it is freed with the next call. */
static int split(struct mg_target_parts *parts, const char *target, bool refuse_encoded_slash)
{
  static char *copy;
  static struct mg_arena arena;
  free(copy);
  copy = malloc(strlen(target) + 1);
  memcpy(copy, target, strlen(target));
  return mg_target_split(parts, mg_str(copy, strlen(target)), fresh(&arena), refuse_encoded_slash);
}

TEST(paths_that_are_kept)
{
  static const struct {
    const char *target, *raw_path, *path;
  } kept[] = {
      {"/", "/", "/"},
      {"*", "*", "*"},
      {"/a/b?c/../d", "/a/b", "/a/b"},
      {"//a///b", "//a///b", "//a///b"},
      {"/a;x=1/b;y", "/a;x=1/b;y", "/a;x=1/b;y"},
      {"/a[1]|^{}", "/a[1]|^{}", "/a[1]|^{}"},
      {"/%41%7e", "/%41%7e", "/A~"},
      {"/a+b%20c", "/a+b%20c", "/a+b c"},
      {"/%E2%82%AC", "/%E2%82%AC", "/\xe2\x82\xac"},
      {"/a%2Fb", "/a%2Fb", "/a%2Fb"},
      {"/a%2fb%41", "/a%2fb%41", "/a%2fbA"},
      {"/a%zz", "/a%zz", "/a%zz"},
      {"/a%2", "/a%2", "/a%2"},
      {"/a%", "/a%", "/a%"},
      {"/100%25", "/100%25", "/100%"},
      {"/%2520", "/%2520", "/%20"},
      {"/...", "/...", "/..."},
      {"/.a/..b/c.", "/.a/..b/c.", "/.a/..b/c."},
      {"/a..;x", "/a..;x", "/a..;x"},
      {"/%3f%23", "/%3f%23", "/?#"},
  };
  for (size_t i = 0; i < sizeof kept / sizeof kept[0]; i++) {
    struct mg_target_parts parts;
    CHECK_INT(split(&parts, kept[i].target, false), 0);
    CHECK_STR(parts.raw_path, kept[i].raw_path);
    CHECK_STR(parts.path, kept[i].path);
  }
}

TEST(paths_that_are_refused)
{
  static const char *const refused[] = {
      "/.",
      "/..",
      "/a/.",
      "/a/..",
      "/a/./b",
      "/../a",
      "/a/../b",
      "/a/..;x/b",
      "/a/.;/b",
      "/..;",
      "/%2e%2e/a",
      "/a/%2E",
      "/a/.%2e/b",
      "/a/%2e;x", /* the same in disguise */
      "/a%2f..",
      "/a/..%2fb",
      "/a%2F.%2Fb",
      "/..%2f", /* for those who decode the slash */
      "/a\\b",
      "/a%5cb",
      "/a%5C..%5Cb",
      "/a%00b",
      "/a%0d%0ab",
      "/a%1f",
      "/a%7f",
      "/a\tb",
      "/a%252e",
      "/a%252Fb",
      "/a%255c",
      "/a%2525",
      "/%25%32%65",
      "/a%%32%66",
      "/a%2%66", /* twice encoded */
      "/%c0%ae%c0%ae/a",
      "/%c1%9c",
      "/%e0%80%af",
      "/%f0%80%80%af",
      "/\xc0\xaf", /* overlong */
      "",
      "?a",
  };
  for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
    struct mg_target_parts parts;
    int got = split(&parts, refused[i], false);
    if (got != MG_EBADPATH) fprintf(stderr, "%s\n", refused[i]);
    CHECK_INT(got, MG_EBADPATH);
  }
}

TEST(encoded_slashes_can_be_refused)
{
  struct mg_target_parts parts;
  CHECK_INT(split(&parts, "/a%2Fb", true), MG_EBADPATH);
  CHECK_INT(split(&parts, "/a%2fb", true), MG_EBADPATH);
  CHECK_INT(split(&parts, "/a%41b?c%2F", true), 0);
}

TEST(queries)
{
  struct mg_target_parts parts;
  CHECK_INT(split(&parts, "/a", false), 0);
  CHECK(!parts.has_query);
  CHECK_INT(parts.query.len, 0);
  CHECK_INT(split(&parts, "/a?", false), 0);
  CHECK(parts.has_query);
  CHECK_INT(parts.query.len, 0);
  CHECK_INT(split(&parts, "/a?b?c", false), 0);
  CHECK_STR(parts.query, "b?c");
}

TEST(a_full_arena_is_said)
{
  struct mg_target_parts parts;
  struct mg_arena arena;
  char small[8];
  fresh(&arena);
  mg_arena_init(&arena, small, sizeof small, &pool, 0);
  CHECK_INT(mg_target_split(&parts, MG_STR("/a%41"), &arena, false), MG_ENOMEM);
  CHECK(!mg_path_encode(MG_STR("/a long path"), &arena).ptr);
}

TEST(encoding)
{
  struct mg_arena arena;
  static const struct {
    const char *path, *encoded;
  } paths[] = {
      {"/a-._~!$&'()*+,;=:@b", "/a-._~!$&'()*+,;=:@b"},
      {"/a b?c#d%", "/a%20b%3Fc%23d%25"},
      {"/\xe2\x82\xac", "/%E2%82%AC"},
      {"/a%2Fb%2f%41", "/a%2Fb%2f%2541"},
      {"/[x]\"", "/%5Bx%5D%22"},
      {"/\r\n", "/%0D%0A"},
      {"", ""},
  };
  for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++)
    CHECK_STR(mg_path_encode(text(paths[i].path), fresh(&arena)), paths[i].encoded);
}

TEST(authorities)
{
  static const struct {
    const char *authority, *host, *port; /* host NULL: refused */
  } rows[] = {
      {"a.test", "a.test", ""},
      {"a.test:", "a.test", ""},
      {"A-b_c.test:65535", "A-b_c.test", "65535"},
      {"127.0.0.1:80", "127.0.0.1", "80"},
      {"[::1]", "[::1]", ""},
      {"[2001:db8::1]:8080", "[2001:db8::1]", "8080"},
      {"[::ffff:1.2.3.4]", "[::ffff:1.2.3.4]", ""},
      {"", NULL, NULL},
      {":80", NULL, NULL},
      {"a.test:65536", NULL, NULL},
      {"a.test:000080", NULL, NULL},
      {"a.test:8a", NULL, NULL},
      {"a.test:-1", NULL, NULL},
      {"a b", NULL, NULL},
      {"a/b", NULL, NULL},
      {"u@a", NULL, NULL},
      {"a%41", NULL, NULL},
      {"a,b", NULL, NULL},
      {"::1", NULL, NULL},
      {"[", NULL, NULL},
      {"[]", NULL, NULL},
      {"[::1", NULL, NULL},
      {"[::1]x", NULL, NULL},
      {"[::1]x:80", NULL, NULL},
      {"[::1]:x", NULL, NULL},
      {"[v1.x]", NULL, NULL},
      {"[fe80::1%eth0]", NULL, NULL},
      {"[1.2.3.4]", NULL, NULL},
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    struct mg_str host, port;
    size_t len = strlen(rows[i].authority);
    char *copy = malloc(len + 1);
    memcpy(copy, rows[i].authority, len);
    CHECK_INT(mg_authority_split(mg_str(copy, len), &host, &port), rows[i].host != NULL);
    if (rows[i].host) {
      CHECK_STR(host, rows[i].host);
      CHECK_STR(port, rows[i].port);
    }
    free(copy);
  }
  struct mg_str host, port;
  CHECK(!mg_authority_split(mg_str("[::1\0]", 6), &host, &port));
  CHECK(!mg_authority_split(mg_str("a\0b", 3), &host, &port));
}

RUN_TESTS({"paths that are kept", paths_that_are_kept}, {"paths that are refused", paths_that_are_refused},
          {"encoded slashes can be refused", encoded_slashes_can_be_refused}, {"queries", queries},
          {"a full arena is said", a_full_arena_is_said}, {"encoding", encoding}, {"authorities", authorities})
