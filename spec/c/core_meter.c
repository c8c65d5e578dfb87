/* core_meter.c - finding meters, tables that are full, sums over several workers. */
#include "meter.h"

#include "t.h"

static struct mg_meters *new_table(void)
{
  struct mg_meters *table = aligned_alloc(64, sizeof *table); /* as zero as fresh shared memory */
  memset(table, 0, sizeof *table);
  return table;
}

TEST(finding)
{
  struct mg_meters *table = new_table();
  struct mg_meter *first = mg_meters_get(table, MG_STR("a"), MG_STR("bc"));
  CHECK(mg_meters_get(table, MG_STR("a"), MG_STR("bc")) == first);
  CHECK(mg_meters_get(table, MG_STR("ab"), MG_STR("c")) != first);
  CHECK(mg_meters_get(table, MG_STR("b"), MG_STR("bc")) != first);
  char text[200];
  memset(text, 'x', sizeof text);
  struct mg_meter *cut = mg_meters_get(table, mg_str(text, sizeof text), MG_STR("f"));
  CHECK_INT(strlen(cut->route), MG_METER_NAME_SIZE - 1);
  CHECK(mg_meters_get(table, mg_str(text, 100), MG_STR("f")) == cut);
  free(table);
}

struct total {
  uint64_t calls;
  unsigned meters;
};

static void count(void *context, const struct mg_meter_sum *sum)
{
  struct total *total = context;
  total->calls += sum->calls;
  total->meters++;
}

TEST(a_full_table)
{
  struct mg_meters *table = new_table();
  char name[16];
  for (int i = 0; i < MG_METERS_MAX + 50; i++) {
    int len = snprintf(name, sizeof name, "route%d", i);
    mg_meter_add(&mg_meters_get(table, mg_str(name, (size_t)len), MG_STR("f"))->calls, 1);
  }
  struct mg_meter *rest = mg_meters_get(table, MG_STR("one more"), MG_STR("f"));
  CHECK(strcmp(rest->route, "*") == 0);
  CHECK_INT(rest->calls, 51);
  struct total total = {0};
  mg_meters_sum(&table, 1, count, &total);
  CHECK_INT(total.meters, MG_METERS_MAX);
  CHECK_INT(total.calls, MG_METERS_MAX + 50);
  free(table);
}

struct expected {
  const char *route;
  uint64_t calls, errors;
  double busy_s;
  bool found;
};

static void compare(void *context, const struct mg_meter_sum *sum)
{
  for (struct expected *one = context; one->route; one++) {
    if (strcmp(one->route, sum->route) != 0) continue;
    CHECK(!one->found);
    one->found = true;
    CHECK_INT(sum->calls, one->calls);
    CHECK_INT(sum->errors, one->errors);
    CHECK_INT(sum->busy_s * 1000 + 0.5, one->busy_s * 1000);
    return;
  }
  CHECK(false);
}

TEST(sums)
{
  struct mg_meters *tables[] = {new_table(), new_table(), new_table()};
  for (int i = 0; i < 3; i++) { /* one tick is a millisecond in the first, two in the second; the third has not begun */
    tables[i]->ns_last = i < 2 ? (uint64_t)(i + 1) * 1000000000 : 0;
    tables[i]->ticks_last = i < 2 ? 1000 : 0;
  }
  struct mg_meter *meter = mg_meters_get(tables[0], MG_STR("both"), MG_STR("f"));
  mg_meter_add(&meter->calls, 3);
  mg_meter_add(&meter->busy, 10);
  meter = mg_meters_get(tables[1], MG_STR("both"), MG_STR("f"));
  mg_meter_add(&meter->calls, 4);
  mg_meter_add(&meter->errors, 2);
  mg_meter_add(&meter->busy, 10);
  mg_meter_add(&mg_meters_get(tables[1], MG_STR("second"), MG_STR("f"))->calls, 5);
  struct expected expected[] = {{"both", 7, 2, 0.03, false}, {"second", 5, 0, 0, false}, {0}};
  mg_meters_sum(tables, 3, compare, expected);
  CHECK(expected[0].found && expected[1].found);
  for (int i = 0; i < 3; i++) free(tables[i]);
}

TEST(clock)
{
  struct mg_meters *table = new_table();
  mg_meters_tick(table);
  uint64_t ticks = table->ticks_last, ns = table->ns_last;
  CHECK(ns && table->ns_first == ns && table->ticks_first == ticks);
  mg_meters_tick(table);
  CHECK(table->ticks_last > ticks && table->ns_last >= ns && table->ns_first == ns);
  free(table);
}

RUN_TESTS({"finding", finding}, {"a_full_table", a_full_table}, {"sums", sums}, {"clock", clock})
