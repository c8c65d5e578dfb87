/* core_log.c - what lands on stderr, read back through a pipe. */
#include "log.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "t.h"

static char seen[65536];

/* Runs act in a child with stderr caught in seen; returns the child's wait status. */
static int caught(void (*act)(void))
{
  int ends[2], status;
  CHECK_INT(pipe(ends), 0);
  pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    dup2(ends[1], STDERR_FILENO);
    act();
    _exit(0);
  }
  close(ends[1]);
  size_t len = 0;
  for (ssize_t got; (got = read(ends[0], seen + len, sizeof seen - 1 - len)) > 0;) len += (size_t)got;
  seen[len] = '\0';
  close(ends[0]);
  CHECK_INT(waitpid(child, &status, 0), child);
  return status;
}

static void write_levels(void)
{
  mg_log_setup(MG_LOG_WARN, "worker 3");
  mg_log(MG_LOG_INFO, "hidden");
  mg_log(MG_LOG_WARN, "port %d is busy", 80);
  mg_log(MG_LOG_ERROR, "gone");
}

TEST(levels_and_form)
{
  CHECK_INT(caught(write_levels), 0);
  CHECK(strstr(seen, "hidden") == NULL);
  char *warn = strstr(seen, "Z warn worker 3: port 80 is busy\n");
  CHECK(warn == seen + strlen("2024-01-01T00:00:00.000"));
  CHECK(strstr(warn, "Z error worker 3: gone\n") != NULL);
}

static void write_forged_line(void)
{
  mg_log(MG_LOG_WARN, "%s", "a\r\nb\tc\x1b[31m\x7f");
}

TEST(no_input_can_forge_a_line)
{
  CHECK_INT(caught(write_forged_line), 0);
  CHECK(strstr(seen, ": a\\x0d\\x0ab\tc\\x1b[31m\\x7f\n") != NULL);
  CHECK(strchr(seen, '\n') == seen + strlen(seen) - 1);
}

static void write_long_line(void)
{
  static char text[20000];
  memset(text, 1, sizeof text - 1); /* every byte is written as four */
  mg_log(MG_LOG_WARN, "%s", text);
}

TEST(long_lines_are_cut)
{
  CHECK_INT(caught(write_long_line), 0);
  CHECK(strlen(seen) > 4000 && strlen(seen) < 8200);
  CHECK(seen[strlen(seen) - 1] == '\n');
}

static void write_json(void)
{
  struct mg_log_about about = {.exchange = "01ABC", .exchange_len = 5, .trace = "", .trace_len = 0};
  mg_log_setup(MG_LOG_INFO, "worker 0");
  mg_log_style("debug", "json");
  mg_log(MG_LOG_DEBUG, "tab\t \"quoted\" back\\slash caf\xc3\xa9 broken\xc3 \x01");
  mg_log_about(MG_LOG_WARN, &about, "about");
  mg_log_lines(MG_LOG_ERROR, "two lines:", "one\ntwo", 7);
  mg_log_style("nonsense", "nonsense");
  mg_log(MG_LOG_DEBUG, "still");
}

TEST(json_is_valid_whatever_the_bytes)
{
  CHECK_INT(caught(write_json), 0);
  CHECK(strstr(seen, "{\"time\":\"20") == seen);
  CHECK(strstr(seen, "\"level\":\"debug\",\"process\":\"worker 0\",\"pid\":") != NULL);
  CHECK(strstr(seen, "\"message\":\"tab\\u0009 \\\"quoted\\\" back\\\\slash caf\xc3\xa9 broken\\ufffd \\u0001\"}\n") !=
        NULL);
  CHECK(strstr(seen, "\"message\":\"about\",\"exchange\":\"01ABC\"}\n") != NULL);
  CHECK(strstr(seen, "\"message\":\"two lines:\\u000aone\\u000atwo\"}\n") != NULL);
  CHECK(strstr(seen, "\"message\":\"still\"}\n") != NULL);
}

static unsigned lines_with(const char *words)
{
  unsigned count = 0;
  for (const char *at = seen; (at = strstr(at, words)); at += strlen(words)) count++;
  return count;
}

static void write_repeats(void)
{
  char id[8];
  mg_log_setup(MG_LOG_INFO, "worker 0");
  for (int i = 0; i < 1000; i++) {
    snprintf(id, sizeof id, "ID%d", i);
    struct mg_log_about about = {.exchange = id, .exchange_len = strlen(id)};
    mg_log_about(MG_LOG_WARN, &about, "the same words");
    mg_log(MG_LOG_INFO, "other words %d", i);
  }
  mg_log_tick(); /* too early to say more */
}

TEST(repeats_are_counted)
{
  CHECK_INT(caught(write_repeats), 0);
  CHECK_INT(lines_with("the same words exchange=ID"), 5);
  CHECK(strstr(seen, "exchange=ID4\n") != NULL);
  CHECK_INT(lines_with("other words"), 200);
  CHECK_INT(lines_with("repeated"), 0);
}

static void write_repeats_slowly(void)
{
  for (int i = 0; i < 8; i++) mg_log(MG_LOG_WARN, "again");
  usleep(5100000);
  mg_log_tick();
  mg_log_tick();
  mg_log(MG_LOG_WARN, "again");
}

TEST(what_was_counted_is_said)
{
  CHECK_INT(caught(write_repeats_slowly), 0);
  CHECK_INT(lines_with("again\n"), 6);
  CHECK_INT(lines_with("again (repeated 3 times)\n"), 1);
}

static void break_an_assertion(void)
{
  MG_ASSERT(1 + 1 == 2);
  MG_ASSERT(1 + 1 == 3);
}

TEST(assertions_end_the_process_and_say_where)
{
  int status = caught(break_an_assertion);
  CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
  CHECK(strstr(seen, "assertion failed at ") != NULL);
  CHECK(strstr(seen, "core_log.c:") != NULL && strstr(seen, ": 1 + 1 == 3\n") != NULL);
}

RUN_TESTS({"levels and form", levels_and_form}, {"no input can forge a line", no_input_can_forge_a_line},
          {"long lines are cut", long_lines_are_cut},
          {"JSON is valid whatever the bytes", json_is_valid_whatever_the_bytes},
          {"repeats are counted", repeats_are_counted}, {"what was counted is said", what_was_counted_is_said},
          {"assertions end the process and say where", assertions_end_the_process_and_say_where})
