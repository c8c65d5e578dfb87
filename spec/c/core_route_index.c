/* core_route_index.c - which routes the index names for a request: all that could match, and how few others. */
#include "route_index.h"

#include "t.h"

static struct mg_str text(const char *string)
{
  return mg_str(string, strlen(string));
}

/* Files a route under one literal. */
static void file(struct mg_route_index *index, int kind, const char *name, const char *value, uint32_t route)
{
  mg_route_index_file(index, mg_route_index_key(index, kind, text(name), text(value), route), route);
}

/* The routes that gather names for a query, run by run, as "3,5 7 ". */
static const char *gathered(const struct mg_route_index *index, const struct mg_route_query *query)
{
  static char out[256];
  struct mg_route_cursor runs[MG_ROUTE_CURSORS_MAX];
  int count = mg_route_index_gather(index, query, runs);
  size_t len = 0;
  out[0] = '\0';
  for (int i = 0; i < count; i++)
    for (const uint32_t *at = runs[i].at; at < runs[i].end; at++)
      len += (size_t)snprintf(out + len, sizeof out - len, "%u%c", *at, at + 1 == runs[i].end ? ' ' : ',');
  return out;
}

static void check_gathered(const struct mg_route_index *index, const char *path, const char *host, const char *wanted)
{
  struct mg_route_query query = {.path = text(path), .host = text(host), .method = text("GET")};
  CHECK_STR(text(gathered(index, &query)), wanted);
}

TEST(prefixes_on_the_way_down)
{
  static const char *const prefixes[] = {"/api/get/r1/", "/api/get/r10/", "/api/", "/api/get/r1", "/apx", "", "/api/"};
  struct mg_route_index *index = mg_route_index_new();
  for (uint32_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++)
    file(index, MG_PREDICATE_PREFIX, "", prefixes[i], i);
  mg_route_index_seal(index);
  check_gathered(index, "/api/get/r1/x", "h", "5 2,6 3 0 ");
  check_gathered(index, "/api/get/r10/", "h", "5 2,6 3 1 ");
  check_gathered(index, "/api/get/r", "h", "5 2,6 ");
  check_gathered(index, "/api", "h", "5 ");
  check_gathered(index, "/apx", "h", "5 4 ");
  check_gathered(index, "/other", "h", "5 ");
  mg_route_index_free(&index);
  CHECK(index == NULL);
}

TEST(hosts_with_their_suffixes)
{
  struct mg_route_index *index = mg_route_index_new();
  file(index, MG_PREDICATE_HOST, "", "a.example.com", 0);
  file(index, MG_PREDICATE_HOST, "", "*.example.com", 1);
  file(index, MG_PREDICATE_HOST, "", "*.com", 2);
  file(index, MG_PREDICATE_HOST, "", "example.com", 3);
  mg_route_index_seal(index);
  check_gathered(index, "/", "A.Example.COM", "0 1 2 ");
  check_gathered(index, "/", "example.com", "3 2 ");
  check_gathered(index, "/", "b.a.example.com", "1 2 ");
  check_gathered(index, "/", "com", "");
  check_gathered(index, "/", "", "");
  mg_route_index_free(&index);
}

TEST(headers_paths_methods_and_always)
{
  struct mg_header lines[] = {{.name = "X-Tenant", .name_len = 8, .value = "acme", .value_len = 4},
                              {.name = "X-Tenanx", .name_len = 8, .value = "acme", .value_len = 4}};
  struct mg_headers headers = {.items = lines, .count = 2};
  struct mg_route_index *index = mg_route_index_new();
  file(index, MG_PREDICATE_HEADER, "x-tenant", "acme", 0);
  file(index, MG_PREDICATE_HEADER, "x-tenant", "other", 1);
  file(index, MG_PREDICATE_HAS_HEADER, "x-tenant", "", 2);
  file(index, MG_PREDICATE_PATH, "", "/p", 3);
  file(index, MG_PREDICATE_METHOD, "", "GET", 4);
  mg_route_index_file(index, MG_ROUTE_KEY_ALWAYS, 5);
  mg_route_index_seal(index);
  struct mg_route_query query = {.path = text("/p"), .host = text("h"), .method = text("GET"), .headers = &headers};
  CHECK_STR(text(gathered(index, &query)), "5 3 4 2 0 ");
  lines[0].flags = MG_HEADER_GONE;
  CHECK_STR(text(gathered(index, &query)), "5 3 4 ");
  query.method = text("get");
  query.path = text("/p/");
  CHECK_STR(text(gathered(index, &query)), "5 ");
  mg_route_index_free(&index);
}

TEST(sharing_counts_routes_not_literals)
{
  struct mg_route_index *index = mg_route_index_new();
  uint32_t key = mg_route_index_key(index, MG_PREDICATE_PREFIX, text(""), text("/a"), 0);
  CHECK_INT(mg_route_index_key(index, MG_PREDICATE_SEGMENTS, text(""), text("/a"), 0), key);
  CHECK_INT(mg_route_index_sharing(index, key), 1);
  CHECK_INT(mg_route_index_key(index, MG_PREDICATE_PREFIX, text(""), text("/a"), 7), key);
  CHECK_INT(mg_route_index_sharing(index, key), 2);
  CHECK(mg_route_index_key(index, MG_PREDICATE_PATH, text(""), text("/a"), 8) != key);
  static char values[1000][16];
  for (uint32_t i = 0; i < 1000; i++) { /* the table grows under them */
    snprintf(values[i], sizeof values[i], "/n%u", i);
    mg_route_index_key(index, MG_PREDICATE_PATH, text(""), text(values[i]), i);
  }
  CHECK_INT(mg_route_index_key(index, MG_PREDICATE_PREFIX, text(""), text("/a"), 9), key);
  CHECK_INT(mg_route_index_sharing(index, key), 3);
  mg_route_index_free(&index);
}

TEST(more_runs_than_there_is_room_for)
{
  static char path[MG_ROUTE_CURSORS_MAX + 2];
  struct mg_route_index *index = mg_route_index_new();
  struct mg_route_cursor runs[MG_ROUTE_CURSORS_MAX];
  memset(path, '/', sizeof path - 1);
  for (uint32_t i = 1; i < sizeof path; i++) {
    uint32_t key = mg_route_index_key(index, MG_PREDICATE_PREFIX, text(""), mg_str(path, i), i);
    mg_route_index_file(index, key, i);
  }
  mg_route_index_seal(index);
  struct mg_route_query query = {.path = mg_str(path, MG_ROUTE_CURSORS_MAX), .host = text("h"), .method = text("GET")};
  CHECK_INT(mg_route_index_gather(index, &query, runs), MG_ROUTE_CURSORS_MAX);
  query.path.len++;
  CHECK_INT(mg_route_index_gather(index, &query, runs), -1);
  mg_route_index_free(&index);
}

RUN_TESTS({"prefixes on the way down", prefixes_on_the_way_down},
          {"hosts with their suffixes", hosts_with_their_suffixes},
          {"headers, paths, methods and always", headers_paths_methods_and_always},
          {"sharing counts routes, not literals", sharing_counts_routes_not_literals},
          {"more runs than there is room for", more_runs_than_there_is_room_for})
