/* core_trace.c - traceparent values, after the tables of W3C Trace Context. */
#include "trace.h"

#include "t.h"

#define ID "0af7651916cd43dd8448eb211c80319c"
#define PARENT "b7ad6b7169203331"

static const struct {
  const char *value;
  bool valid;
} values[] = {
    {"00-" ID "-" PARENT "-01", true},
    {"00-" ID "-" PARENT "-00", true},
    {"00-" ID "-" PARENT "-ff", true},
    {"01-" ID "-" PARENT "-01", true}, /* versions to come: what is known is read */
    {"cc-" ID "-" PARENT "-01-what-else", true},
    {"fe-" ID "-" PARENT "-01-", true},
    {"cc-" ID "-" PARENT "-01.what-else", false}, /* more only behind a dash */
    {"cc-" ID "-" PARENT "-011", false},
    {"ff-" ID "-" PARENT "-01", false},
    {"00-" ID "-" PARENT "-01-more", false},
    {"00-" ID "-" PARENT "-01-", false},
    {"00-" ID "-" PARENT "-0", false},
    {"00-" ID "-" PARENT "-", false},
    {"00-" ID "-" PARENT, false},
    {"00-" ID, false},
    {"00", false},
    {"", false},
    {"0-" ID "-" PARENT "-01", false},
    {"000-" ID "-" PARENT "-01", false},
    {".0-" ID "-" PARENT "-01", false},
    {"0G-" ID "-" PARENT "-01", false},
    {"00-00000000000000000000000000000000-" PARENT "-01", false},
    {"00-" ID "-0000000000000000-01", false},
    {"00-0AF7651916CD43DD8448EB211C80319C-" PARENT "-01", false},
    {"00-" ID "-B7AD6B7169203331-01", false},
    {"00-" ID "-" PARENT "-0A", false},
    {"00-0af7651916cd43dd8448eb211c80319-" PARENT "-01", false},
    {"00-" ID "0-" PARENT "-01", false},
    {"00-" ID "-b7ad6b716920333-01", false},
    {"00-" ID "-b7ad6b71692033311-01", false},
    {"00-" ID "_" PARENT "-01", false},
    {"00_" ID "-" PARENT "-01", false},
    {" 00-" ID "-" PARENT "-01", false},
    {"00-" ID "-" PARENT "-01,00-" ID "-" PARENT "-01", false},
};

TEST(values_of_the_recommendation)
{
  for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
    struct mg_trace trace;
    bool valid = mg_trace_parse(mg_str(values[i].value, strlen(values[i].value)), &trace);
    if (valid != values[i].valid) fprintf(stderr, "%s\n", values[i].value);
    CHECK_INT(valid, values[i].valid);
    if (!valid) continue;
    CHECK_STR(trace.id, ID);
    CHECK_STR(trace.parent, PARENT);
    CHECK_INT(trace.flags.len, 2);
  }
}

TEST(a_made_one_is_valid_and_another_each_time)
{
  struct mg_trace_source source = {{0, 1}};
  char before[MG_TRACEPARENT_LEN] = "", made[MG_TRACEPARENT_LEN];
  for (int i = 0; i < 1000; i++) {
    struct mg_trace trace;
    mg_trace_make(&source, i % 2, made);
    CHECK(mg_trace_parse(mg_str(made, sizeof made), &trace));
    CHECK_STR(trace.flags, i % 2 ? "01" : "00");
    CHECK(memcmp(made + 3, before + 3, MG_TRACE_ID_LEN) != 0);
    memcpy(before, made, sizeof made);
  }
}

RUN_TESTS({"values of the recommendation", values_of_the_recommendation},
          {"a made one is valid and another each time", a_made_one_is_valid_and_another_each_time})
