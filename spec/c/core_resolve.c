/* core_resolve.c - target keys: what is a literal, what a name, and where the answers go. */
#include "resolve.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/un.h>

#include "t.h"

static struct mg_str text(const char *string)
{
  return mg_str(string, strlen(string));
}

TEST(keys_are_split)
{
  struct mg_str host;
  unsigned port;
  CHECK(mg_resolver_split(text("example.com:80"), &host, &port));
  CHECK_STR(host, "example.com");
  CHECK_INT(port, 80);
  CHECK(mg_resolver_split(text("[fe80::1]:65535"), &host, &port));
  CHECK_STR(host, "fe80::1");
  CHECK_INT(port, 65535);
}

TEST(what_is_no_key_is_refused)
{
  static const char *const bad[] = {"", ":", "a", "a:", ":80", "a:0", "a:65536", "a:8o", "a:123456", "::1:80"};
  struct mg_str host;
  unsigned port;
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) CHECK(!mg_resolver_split(text(bad[i]), &host, &port));
}

TEST(literals_need_no_look_up)
{
  struct sockaddr_storage address;
  CHECK(mg_resolver_literal(text("127.0.0.1:9000"), &address));
  CHECK_INT(address.ss_family, AF_INET);
  CHECK_INT(ntohs(((struct sockaddr_in *)&address)->sin_port), 9000);
  CHECK(mg_resolver_literal(text("[::1]:80"), &address));
  CHECK_INT(address.ss_family, AF_INET6);
  CHECK(mg_resolver_literal(text("unix:/run/x.sock"), &address));
  CHECK_INT(address.ss_family, AF_UNIX);
  CHECK_INT(strcmp(((struct sockaddr_un *)&address)->sun_path, "/run/x.sock"), 0);
  CHECK(!mg_resolver_literal(text("localhost:80"), &address));
  CHECK(!mg_resolver_literal(text("1.2.3:80"), &address));
  CHECK(!mg_resolver_literal(text("unix:"), &address));
  char longer[200] = "unix:/";
  memset(longer + 6, 'x', 120);
  CHECK(!mg_resolver_literal(text(longer), &address));
}

struct wait {
  unsigned done;
};

static void on_done(void *context)
{
  ((struct wait *)context)->done++;
}

TEST(every_target_gets_its_cell_and_the_wait_ends)
{
  uv_loop_t loop;
  struct mg_shm shm;
  struct wait wait = {0};
  struct mg_buf error = {0};
  struct sockaddr_storage addresses[MG_TARGET_ADDRESSES_MAX];
  CHECK_INT(uv_loop_init(&loop), 0);
  CHECK_INT(mg_shm_create(&shm), 0);
  struct mg_resolver *resolver = mg_resolver_open(&loop, &shm, 60000);
  struct mg_str targets = text("127.0.0.1:1\nlocalhost:2\nname.invalid:3\nunix:/tmp/x\n127.0.0.1:1\n");
  CHECK_INT(mg_resolver_want(resolver, targets, 5000, on_done, &wait, &error), 0);
  CHECK_INT(wait.done, 0);
  while (!wait.done) uv_run(&loop, UV_RUN_ONCE);
  CHECK_INT(wait.done, 1);
  CHECK_INT(mg_target_addresses(mg_shm_find_target(&shm, text("127.0.0.1:1")), addresses), 1);
  CHECK_INT(mg_target_addresses(mg_shm_find_target(&shm, text("unix:/tmp/x")), addresses), 1);
  CHECK(mg_target_addresses(mg_shm_find_target(&shm, text("localhost:2")), addresses) >= 1);
  CHECK_INT(mg_target_addresses(mg_shm_find_target(&shm, text("name.invalid:3")), addresses), 0);
  mg_resolver_keep(resolver, targets);
  mg_resolver_close(&resolver);
  uv_run(&loop, UV_RUN_DEFAULT);
  CHECK_INT(uv_loop_close(&loop), 0);
  mg_shm_detach(&shm);
}

TEST(a_wait_for_nothing_ends_at_once_but_not_before_the_call)
{
  uv_loop_t loop;
  struct mg_shm shm;
  struct wait wait = {0};
  struct mg_buf error = {0};
  CHECK_INT(uv_loop_init(&loop), 0);
  CHECK_INT(mg_shm_create(&shm), 0);
  struct mg_resolver *resolver = mg_resolver_open(&loop, &shm, 0);
  CHECK_INT(mg_resolver_want(resolver, text(""), 60000, on_done, &wait, &error), 0);
  CHECK_INT(wait.done, 0);
  while (!wait.done) uv_run(&loop, UV_RUN_ONCE);
  CHECK_INT(mg_resolver_want(resolver, text("not an address"), 60000, on_done, &wait, &error), -1);
  CHECK(error.len > 0);
  mg_resolver_close(&resolver);
  uv_run(&loop, UV_RUN_DEFAULT);
  CHECK_INT(wait.done, 1);
  CHECK_INT(uv_loop_close(&loop), 0);
  mg_shm_detach(&shm);
  mg_buf_free(&error);
}

RUN_TESTS({"keys are split", keys_are_split}, {"what is no key is refused", what_is_no_key_is_refused},
          {"literals need no look-up", literals_need_no_look_up},
          {"every target gets its cell and the wait ends", every_target_gets_its_cell_and_the_wait_ends},
          {"a wait for nothing ends at once but not before the call",
           a_wait_for_nothing_ends_at_once_but_not_before_the_call})
