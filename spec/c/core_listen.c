/* core_listen.c - addresses as text, ports shared among siblings and with nobody else. */
#include "listen.h"

#include <unistd.h>

#include "t.h"

static struct sockaddr_storage address_of(const char *host, unsigned port)
{
  struct sockaddr_storage address;
  struct mg_buf error = {0};
  CHECK_INT(mg_listen_address(&address, host, port, &error), 0);
  CHECK_INT(error.len, 0);
  return address;
}

static void check_text(const char *host, unsigned port, const char *wanted)
{
  char text[MG_LISTEN_TEXT_SIZE];
  struct sockaddr_storage address = address_of(host, port);
  mg_listen_text(&address, text);
  CHECK_STR(mg_str(text, strlen(text)), wanted);
  CHECK_INT(mg_listen_port(&address), port);
}

TEST(an_address_reads_as_a_client_would_use_it)
{
  check_text("127.0.0.1", 80, "127.0.0.1:80");
  check_text("0.0.0.0", 8888, "127.0.0.1:8888");
  check_text("::", 8888, "[::1]:8888");
  check_text("[::1]", 1, "[::1]:1");
  check_text("::1", 65535, "[::1]:65535");
}

TEST(who_may_come_is_told_exactly)
{
  static const char *const hosts[][2] = {{"0.0.0.0", "0.0.0.0:80"}, {"::", "[::]:80"}, {"127.0.0.2", "127.0.0.2:80"}};
  for (size_t i = 0; i < sizeof hosts / sizeof hosts[0]; i++) {
    char text[MG_LISTEN_TEXT_SIZE];
    struct sockaddr_storage address = address_of(hosts[i][0], 80);
    mg_listen_exact_text(&address, text);
    CHECK_STR(mg_str(text, strlen(text)), hosts[i][1]);
  }
}

TEST(a_name_without_an_address_is_an_error)
{
  struct sockaddr_storage address;
  struct mg_buf error = {0};
  CHECK_INT(mg_listen_address(&address, "no such host", 80, &error), -1);
  CHECK(error.len > 0);
  mg_buf_free(&error);
}

TEST(siblings_share_a_port_that_nobody_else_gets)
{
  struct mg_buf error = {0};
  struct sockaddr_storage address = address_of("127.0.0.1", 0);
  int first = mg_listen_open(&address, 10, &error);
  CHECK(first >= 0);
  CHECK(mg_listen_port(&address) != 0);
  int second = mg_listen_open(&address, 10, &error);
  CHECK(second >= 0);
  CHECK_INT(mg_listen_probe(&address, &error), -1);
  CHECK(error.len > 0 && memmem(error.ptr, error.len, "is in use", 9));
  close(first);
  CHECK_INT(mg_listen_probe(&address, &error), -1);
  close(second);
  CHECK_INT(mg_listen_probe(&address, &error), 0);
  CHECK_INT(mg_listen_probe(&address, &error), 0); /* and leaves nothing behind */
  mg_buf_free(&error);
}

TEST(a_wildcard_meets_every_address_of_the_port)
{
  struct mg_buf error = {0};
  struct sockaddr_storage one = address_of("127.0.0.1", 0);
  int fd = mg_listen_open(&one, 10, &error);
  struct sockaddr_storage all = address_of("0.0.0.0", mg_listen_port(&one));
  CHECK_INT(mg_listen_probe(&all, &error), -1);
  close(fd);
  mg_buf_free(&error);
}

TEST(a_port_of_its_own_is_shared_with_nobody)
{
  struct mg_buf error = {0};
  struct sockaddr_storage address = address_of("127.0.0.1", 0);
  int fd = mg_listen_alone(&address, &error);
  CHECK(fd >= 0);
  CHECK_INT(mg_listen_probe(&address, &error), -1);
  CHECK_INT(mg_listen_alone(&address, &error), -1);
  close(fd);
  mg_buf_free(&error);
}

RUN_TESTS({"an address reads as a client would use it", an_address_reads_as_a_client_would_use_it},
          {"who may come is told exactly", who_may_come_is_told_exactly},
          {"a name without an address is an error", a_name_without_an_address_is_an_error},
          {"siblings share a port that nobody else gets", siblings_share_a_port_that_nobody_else_gets},
          {"a wildcard meets every address of the port", a_wildcard_meets_every_address_of_the_port},
          {"a port of its own is shared with nobody", a_port_of_its_own_is_shared_with_nobody})
