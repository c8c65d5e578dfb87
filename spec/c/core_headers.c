/* core_headers.c - ids, look-up, edits and the classes of bytes. */
#include "headers.h"

#include "err.h"
#include "t.h"

struct fixture {
  struct mg_pool pool;
  struct mg_arena arena;
  char first[4096];
  struct mg_headers list;
};

static void set_up(struct fixture *f)
{
  mg_pool_init(&f->pool, 65536, 4);
  mg_arena_init(&f->arena, f->first, sizeof f->first, &f->pool, 8 << 20);
  mg_headers_init(&f->list, &f->arena);
}

static void tear_down(struct fixture *f)
{
  mg_arena_reset(&f->arena, f->first, sizeof f->first);
  mg_pool_destroy(&f->pool);
}

static struct mg_str text(const char *literal)
{
  return mg_str(literal, strlen(literal));
}

/* The id of a copy that ends where the name ends. */
static int id_of(const char *name)
{
  size_t len = strlen(name);
  char *copy = malloc(len ? len : 1);
  memcpy(copy, name, len);
  int id = mg_header_id(copy, len);
  free(copy);
  return id;
}

TEST(every_name_has_its_id)
{
  static const struct {
    const char *name;
    int id;
  } names[] = {
#define X(id, name) {name, MG_H_##id},
      MG_HEADER_MAP(X)
#undef X
  };
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
    char upper[64];
    if (strchr(names[i].name, ' ')) continue; /* families are described in words */
    for (size_t j = 0; j <= strlen(names[i].name); j++)
      upper[j] = names[i].name[j] >= 'a' && names[i].name[j] <= 'z' ? (char)(names[i].name[j] - 32) : names[i].name[j];
    CHECK_INT(id_of(names[i].name), names[i].id);
    CHECK_INT(id_of(upper), names[i].id);
  }
}

TEST(a_changed_byte_changes_the_id)
{
  static const char *names[] = {
#define X(id, name) name,
      MG_HEADER_MAP(X)
#undef X
  };
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
    if (strpbrk(names[i], " *")) continue;
    int id = id_of(names[i]);
    char copy[64];
    for (size_t j = 0; j < strlen(names[i]); j++) {
      strcpy(copy, names[i]);
      copy[j] = copy[j] == 'q' ? 'z' : 'q';
      CHECK(id_of(copy) != id);
    }
    strcpy(copy, names[i]);
    strcat(copy, "q");
    CHECK(id_of(copy) != id);
    copy[strlen(names[i]) - 1] = '\0';
    CHECK(id_of(copy) != id);
  }
}

TEST(families)
{
  static const struct {
    const char *name;
    int id;
  } names[] = {
      {"X-Forwarded-Prefix", MG_H_X_FORWARDED},
      {"x_forwarded_for", MG_H_X_FORWARDED},
      {"X-Forwarded_Proto", MG_H_X_FORWARDED},
      {"X_Forwarded-Host", MG_H_X_FORWARDED},
      {"X-Forwarded-", MG_H_X_FORWARDED},
      {"X-Forwarded", MG_H_OTHER},
      {"X-Forwardedxfor", MG_H_OTHER},
      {"X-Client-IP", MG_H_CLAIM},
      {"x_client_ip", MG_H_CLAIM},
      {"True-Client-Ip", MG_H_CLAIM},
      {"true_client_ip", MG_H_CLAIM},
      {"X-Cluster-Client-IP", MG_H_CLAIM},
      {"X-Original-URL", MG_H_CLAIM},
      {"X_Rewrite-Url", MG_H_CLAIM},
      {"X_Real_IP", MG_H_CLAIM},
      {"Content_Length", MG_H_LOOKALIKE},
      {"TRANSFER_ENCODING", MG_H_LOOKALIKE},
      {"X-Requested-With", MG_H_OTHER},
      {"Content-Lengti", MG_H_OTHER},
      {"", MG_H_OTHER},
      {"x", MG_H_OTHER},
      {"Accept-Encoding", MG_H_OTHER},
  };
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) CHECK_INT(id_of(names[i].name), names[i].id);
}

/* All lines that are left, as "name=value;". */
static const char *dump(const struct mg_headers *list)
{
  static char out[1024];
  char *at = out;
  *at = '\0';
  for (unsigned i = 0; i < list->count; i++) {
    const struct mg_header *line = &list->items[i];
    if (line->flags & MG_HEADER_GONE) continue;
    at += sprintf(at, "%.*s=%.*s;", line->name_len, line->name, (int)line->value_len, line->value);
  }
  return out;
}

static void push(struct mg_headers *list, const char *name, const char *value)
{
  CHECK_INT(mg_headers_push(list, text(name), text(value), mg_header_id(name, strlen(name))), 0);
}

TEST(edits)
{
  struct fixture f;
  unsigned from = 0;
  set_up(&f);
  push(&f.list, "Host", "a");
  push(&f.list, "X-A", "1");
  push(&f.list, "Cookie", "c");
  push(&f.list, "x-a", "2");
  CHECK_STR(text(dump(&f.list)), "Host=a;X-A=1;Cookie=c;x-a=2;");

  const struct mg_header *line = mg_headers_next(&f.list, MG_STR("X-a"), &from);
  CHECK_STR(mg_str(line->value, line->value_len), "1");
  line = mg_headers_next(&f.list, MG_STR("X-a"), &from);
  CHECK_STR(mg_str(line->value, line->value_len), "2");
  CHECK(!mg_headers_next(&f.list, MG_STR("X-a"), &from));
  CHECK_INT(from, 4);

  CHECK_INT(mg_headers_set(&f.list, MG_STR("X-A"), MG_STR("new")), 0);
  CHECK_STR(text(dump(&f.list)), "Host=a;X-A=new;Cookie=c;");
  CHECK_INT(mg_headers_set(&f.list, MG_STR("X-B"), MG_STR("")), 0);
  CHECK_INT(mg_headers_add(&f.list, MG_STR("cookie"), MG_STR("d")), 0);
  CHECK_STR(text(dump(&f.list)), "Host=a;X-A=new;Cookie=c;X-B=;cookie=d;");
  CHECK_INT(mg_headers_remove(&f.list, MG_STR("COOKIE")), 2);
  CHECK_INT(mg_headers_remove(&f.list, MG_STR("COOKIE")), 0);
  CHECK_INT(mg_headers_remove(&f.list, MG_STR("hosts")), 0);
  CHECK_STR(text(dump(&f.list)), "Host=a;X-A=new;X-B=;");
  CHECK(mg_headers_get(&f.list, MG_H_HOST) == &f.list.items[0]);
  CHECK_INT(mg_headers_remove(&f.list, MG_STR("host")), 1);
  CHECK(!mg_headers_get(&f.list, MG_H_HOST));
  tear_down(&f);
}

TEST(families_are_told_apart_by_name)
{
  struct fixture f;
  set_up(&f);
  push(&f.list, "X-Client-IP", "1");
  push(&f.list, "True-Client-IP", "2");
  push(&f.list, "X-Forwarded-Prefix", "3");
  CHECK_INT(mg_headers_remove(&f.list, MG_STR("true-client-ip")), 1);
  CHECK_INT(mg_headers_remove(&f.list, MG_STR("x-forwarded-proto")), 0);
  CHECK_STR(text(dump(&f.list)), "X-Client-IP=1;X-Forwarded-Prefix=3;");
  tear_down(&f);
}

TEST(copies_are_laid_out_as_they_go_out)
{
  struct fixture f;
  char name[] = "X-Name", value[] = "value";
  set_up(&f);
  CHECK_INT(mg_headers_add(&f.list, mg_str(name, 6), mg_str(value, 5)), 0);
  memset(name, '-', 6);
  memset(value, '-', 5);
  const struct mg_header *line = &f.list.items[0];
  CHECK_INT(line->flags, MG_HEADER_RAW | MG_HEADER_OURS);
  CHECK_STR(mg_str(line->name, 15), "X-Name: value\r\n");
  CHECK(line->value == line->name + 8);
  tear_down(&f);
}

TEST(made_lines_serve_many_lists)
{
  struct fixture f;
  struct mg_header line;
  set_up(&f);
  push(&f.list, "X-A", "1");
  push(&f.list, "Host", "a");
  push(&f.list, "x-a", "2");
  struct mg_headers other = f.list;
  struct mg_header items[4];
  memcpy(items, f.list.items, f.list.count * sizeof *items);
  other.items = items;
  other.capacity = 4;

  CHECK_INT(mg_header_make(&line, &f.arena, MG_STR("X-a"), MG_STR("new"), MG_H_OTHER), 0);
  CHECK_INT(mg_headers_set_made(&f.list, &line), 0);
  CHECK_STR(text(dump(&f.list)), "X-a=new;Host=a;");
  CHECK_INT(mg_headers_add_made(&other, &line), 0);
  CHECK_STR(text(dump(&other)), "X-A=1;Host=a;x-a=2;X-a=new;");
  CHECK_INT(mg_headers_set_made(&other, &line), 0);
  CHECK_STR(text(dump(&other)), "X-a=new;Host=a;");

  CHECK_INT(mg_header_make(&line, &f.arena, MG_STR("Cookie"), MG_STR("c"), MG_H_OTHER), 0);
  CHECK_INT(mg_headers_set_made(&f.list, &line), 0); /* the first of its name */
  CHECK_STR(text(dump(&f.list)), "X-a=new;Host=a;Cookie=c;");
  tear_down(&f);
}

TEST(lists_grow_and_arenas_end)
{
  struct fixture f;
  set_up(&f);
  for (int i = 0; i < 1000; i++) push(&f.list, i % 2 ? "X-Odd" : "X-Even", "v");
  CHECK_INT(f.list.count, 1000);
  CHECK_INT(mg_headers_remove(&f.list, MG_STR("x-odd")), 500);
  tear_down(&f);

  char first[1024]; /* room for the first 32 lines, not for twice as many */
  mg_arena_init(&f.arena, first, sizeof first, &f.pool, 0);
  mg_headers_init(&f.list, &f.arena);
  for (int i = 0; i < 32; i++) push(&f.list, "X", "v");
  CHECK_INT(mg_headers_push(&f.list, MG_STR("X"), MG_STR("v"), MG_H_OTHER), MG_ENOMEM);
  CHECK_INT(mg_headers_set(&f.list, MG_STR("X"), mg_str(f.first, sizeof f.first)), MG_ENOMEM);
  CHECK_INT(f.list.count, 32);
  CHECK_INT(mg_headers_remove(&f.list, MG_STR("x")), 32);
}

/* Every byte at every place of texts around the widths that are looked at in one go. */
TEST(byte_classes)
{
  for (size_t len = 1; len <= 40; len++) {
    char *copy = malloc(len);
    memset(copy, 'a', len);
    CHECK(mg_header_name_ok(mg_str(copy, len)));
    for (size_t at = 0; at < len; at++)
      for (int byte = 0; byte < 256; byte++) {
        copy[at] = (char)byte;
        bool token = byte && (strchr("!#$%&'*+-.^_`|~", byte) || (byte >= '0' && byte <= '9') ||
                              ((byte | 32) >= 'a' && (byte | 32) <= 'z' && byte < 128));
        CHECK_INT(mg_header_name_ok(mg_str(copy, len)), token);
        CHECK_INT(mg_header_value_ok(mg_str(copy, len)), byte == '\t' || (byte >= 32 && byte != 127));
        copy[at] = 'a';
      }
    free(copy);
  }
  CHECK(!mg_header_name_ok(MG_STR("")));
  CHECK(mg_header_value_ok(MG_STR("")));
  char name[257];
  memset(name, 'n', sizeof name);
  CHECK(mg_header_name_ok(mg_str(name, 256)));
  CHECK(!mg_header_name_ok(mg_str(name, 257)));
}

TEST(control_bytes_are_counted)
{
  enum { LEN = 10000 };
  char *bytes = malloc(LEN);
  memset(bytes, '\n', LEN);
  for (size_t len = 0; len <= 100; len++) CHECK_INT(mg_count_controls(bytes, len), len);
  CHECK_INT(mg_count_controls(bytes, LEN), LEN); /* more than a byte can count */
  memset(bytes, '\t', LEN);
  CHECK_INT(mg_count_controls(bytes, LEN), 0);
  bytes[0] = '\0', bytes[5000] = 0x7f, bytes[9999] = 0x1f, bytes[1] = ' ', bytes[2] = (char)0x80;
  CHECK_INT(mg_count_controls(bytes, LEN), 3);
  free(bytes);
}

TEST(comma_lists)
{
  CHECK(mg_header_list_has(MG_STR("close"), MG_STR("Close")));
  CHECK(mg_header_list_has(MG_STR("a, \tclose ,b"), MG_STR("close")));
  CHECK(mg_header_list_has(MG_STR(",,close"), MG_STR("close")));
  CHECK(!mg_header_list_has(MG_STR("closed, enclose"), MG_STR("close")));
  CHECK(!mg_header_list_has(MG_STR("clo se"), MG_STR("close")));
  CHECK(!mg_header_list_has(MG_STR(""), MG_STR("close")));
  struct mg_str rest = MG_STR(" a,,b "), member;
  CHECK(mg_list_next(&rest, &member));
  CHECK_STR(member, "a");
  CHECK(mg_list_next(&rest, &member));
  CHECK_STR(member, "");
  CHECK(mg_list_next(&rest, &member));
  CHECK_STR(member, "b");
  CHECK(!mg_list_next(&rest, &member));
}

enum { PLAIN_MAX = 4000 };

struct plain_line {
  unsigned name, value;
  bool gone;
};

/* Name number n: lengths that differ by 64, cases that differ, known names among them. */
static struct mg_str name_of(unsigned n, char out[256])
{
  static const char *const known[] = {"host", "Server", "content-type", "CONTENT-TYPE", "x-forwarded-for"};
  if (n < 5) return text(strcpy(out, known[n]));
  size_t len = 1 + n % 3 * 64 + n % 7;
  memset(out, n % 2 ? 'n' : 'N', len);
  return mg_str(out, len);
}

static bool are_alike(unsigned a, unsigned b)
{
  char first[256], second[256];
  return mg_str_equal_nocase(name_of(a, first), name_of(b, second));
}

/* Whatever is added, set and removed, the list has what one without any hints has. */
TEST(edits_as_a_plain_list_has_them)
{
  static struct plain_line plain[PLAIN_MAX];
  struct fixture f;
  unsigned count = 0, state = 1;
  char name_text[256], value_text[16];
  set_up(&f);
  for (unsigned step = 0; step < 3000; step++) {
    state = state * 1664525u + 1013904223u;
    unsigned name = (state >> 16) % 26, op = (state >> 8) % 3, at = 0, value = step;
    struct mg_str given = name_of(name, name_text), text = mg_str(value_text, (size_t)sprintf(value_text, "%u", value));
    while (at < count && (plain[at].gone || !are_alike(plain[at].name, name))) at++;
    if (op == 0) {
      CHECK_INT(mg_headers_add(&f.list, given, text), 0);
      plain[count++] = (struct plain_line){name, value, false};
    } else {
      bool there = at < count;
      for (unsigned i = at; i < count; i++) plain[i].gone |= are_alike(plain[i].name, name);
      if (op == 1) CHECK_INT(mg_headers_set(&f.list, given, text), 0);
      if (op == 1 && !there) at = count++;
      if (op == 1) plain[at] = (struct plain_line){name, value, false};
      if (op == 2) CHECK((mg_headers_remove(&f.list, given) > 0) == there);
    }
    CHECK_INT(f.list.count, count);
  }
  for (unsigned i = 0; i < count; i++) {
    CHECK_INT(!!(f.list.items[i].flags & MG_HEADER_GONE), plain[i].gone);
    sprintf(value_text, "%u", plain[i].value);
    if (!plain[i].gone) CHECK_STR(mg_str(f.list.items[i].value, f.list.items[i].value_len), value_text);
  }
  tear_down(&f);
}

RUN_TESTS({"every name has its id", every_name_has_its_id},
          {"a changed byte changes the id", a_changed_byte_changes_the_id}, {"families", families}, {"edits", edits},
          {"edits as a plain list has them", edits_as_a_plain_list_has_them},
          {"families are told apart by name", families_are_told_apart_by_name},
          {"copies are laid out as they go out", copies_are_laid_out_as_they_go_out},
          {"made lines serve many lists", made_lines_serve_many_lists},
          {"lists grow and arenas end", lists_grow_and_arenas_end}, {"byte classes", byte_classes},
          {"control bytes are counted", control_bytes_are_counted}, {"comma lists", comma_lists})
