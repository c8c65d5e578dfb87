/* core_states.c - shared states: made once, found by every process, given back when nobody names them. */
#include "states.h"

#include <unistd.h>

#include "t.h"

static struct mg_shm master, worker;
static struct mg_buf error;

static void open_both(void)
{
  CHECK_INT(mg_shm_create(&master), 0);
  CHECK_INT(mg_shm_attach(&worker, dup(master.fd)), 0);
}

static void close_both(void)
{
  mg_shm_detach(&worker);
  mg_shm_detach(&master);
  mg_buf_free(&error);
}

/* A name of 64 times c, and a line of the list with it. */
static struct mg_str name_of(char c, char out[64])
{
  memset(out, c, 64);
  return mg_str(out, 64);
}

static struct mg_str line_of(char c, unsigned size, char out[96])
{
  memset(out, c, 64);
  return mg_str(out, 64 + (size_t)snprintf(out + 64, 32, " %u\n", size));
}

static char *find(char c, size_t size)
{
  char name[64];
  return mg_states_find(&worker, name_of(c, name), size);
}

static int want(struct mg_str current, struct mg_str next, bool alone)
{
  error.len = 0;
  return mg_states_want(&master, current, next, alone, &error);
}

TEST(a_state_outlives_a_reload_that_names_it_again)
{
  char line[96];
  open_both();
  CHECK(find('a', 1) == NULL);
  CHECK_INT(want(MG_STR(""), line_of('a', 5000, line), true), 0);
  char *state = find('a', 5000);
  CHECK(state && state[0] == 0 && (uintptr_t)state % 4096 == 0);
  CHECK(find('a', 8193) == NULL);
  state[4999] = 'x';
  CHECK_INT(want(mg_str(line, 70), mg_str(line, 70), true), 0);
  CHECK_INT(find('a', 5000)[4999], 'x');
  CHECK(mg_states_seed(&worker)[0] | mg_states_seed(&worker)[1]);
  CHECK_INT(mg_states_seed(&master)[0], mg_states_seed(&worker)[0]);
  close_both();
}

TEST(one_that_nobody_names_is_given_back_once_that_is_safe)
{
  char a[96], b[96], c[96];
  struct mg_str first, second, third;
  open_both();
  first = line_of('a', 100, a), second = line_of('b', 100, b), third = line_of('c', 100, c);
  CHECK_INT(want(MG_STR(""), first, true), 0);
  char *room = find('a', 100);
  room[0] = 'x';
  CHECK_INT(want(first, second, false), 0); /* old generations still run */
  CHECK(find('a', 100) == room && room[0] == 'x');
  CHECK(find('b', 100) != room);
  CHECK_INT(want(second, third, true), 0);
  CHECK(find('a', 100) == NULL && find('b', 100) != NULL);
  CHECK(find('c', 100) == room && room[0] == 0); /* the room is used again, empty */
  close_both();
}

TEST(ten_thousand_changes_take_no_more_room_than_two)
{
  char before[96] = "", after[96];
  open_both();
  for (int i = 0; i < 10000; i++) {
    struct mg_str next = line_of((char)('a' + i % 26), 1 << 20, after);
    CHECK_INT(want(mg_str(before, strlen(before)), next, true), 0);
    memcpy(before, after, sizeof before);
  }
  close_both();
}

TEST(what_does_not_fit_is_refused)
{
  char line[96];
  open_both();
  CHECK_INT(want(MG_STR(""), line_of('a', 600u << 20, line), true), MG_EINTERNAL);
  CHECK(strstr(error.ptr, "no room"));
  CHECK_INT(want(MG_STR(""), line_of('a', 0, line), true), MG_EINTERNAL);
  CHECK_INT(want(MG_STR(""), MG_STR("abc 12\n"), true), MG_EINTERNAL);
  CHECK_INT(want(MG_STR(""), mg_str(line, 64), true), MG_EINTERNAL);
  CHECK(find('a', 1) == NULL);
  close_both();
}

RUN_TESTS({"a_state_outlives_a_reload_that_names_it_again", a_state_outlives_a_reload_that_names_it_again},
          {"one_that_nobody_names_is_given_back_once_that_is_safe",
           one_that_nobody_names_is_given_back_once_that_is_safe},
          {"ten_thousand_changes_take_no_more_room_than_two", ten_thousand_changes_take_no_more_room_than_two},
          {"what_does_not_fit_is_refused", what_does_not_fit_is_refused})
