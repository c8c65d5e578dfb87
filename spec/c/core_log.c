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
  CHECK(strlen(seen) > 4000 && strlen(seen) < 5000);
  CHECK(seen[strlen(seen) - 1] == '\n');
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
          {"assertions end the process and say where", assertions_end_the_process_and_say_where})
