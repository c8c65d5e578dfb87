/* core_address.c - literals, networks and the walk to the client's address. */
#include "address.h"

#include "t.h"

static struct mg_str text(const char *literal)
{
  return mg_str(literal, strlen(literal));
}

TEST(literals)
{
  static const struct {
    const char *text, *canonical; /* NULL: refused */
    bool v4;
  } rows[] = {
      {"127.0.0.1", "127.0.0.1", true},
      {"::1", "::1", false},
      {"2001:DB8:0:0::1", "2001:db8::1", false},
      {"::ffff:10.1.2.3", "10.1.2.3", true},
      {"::ffff:a01:203", "10.1.2.3", true},
      {"", NULL, false},
      {"127.0.0.1:80", NULL, false},
      {"[::1]", NULL, false},
      {"fe80::1%eth0", NULL, false},
      {"127.1", NULL, false},
      {"127.0.0.01", NULL, false},
      {"127.0.0.256", NULL, false},
      {" 127.0.0.1", NULL, false},
      {"localhost", NULL, false},
      {"unknown", NULL, false},
      {"1234:1234:1234:1234:1234:1234:1234:1234:1234:1234", NULL, false},
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    struct mg_address address;
    CHECK_INT(mg_address_parse(text(rows[i].text), &address), rows[i].canonical != NULL);
    if (!rows[i].canonical) continue;
    CHECK_STR(mg_str(address.text, address.text_len), rows[i].canonical);
    CHECK_INT(address.v4, rows[i].v4);
  }
  struct mg_address address;
  CHECK(!mg_address_parse(mg_str("1.2.3.4\0x", 9), &address));
}

TEST(networks)
{
  static const struct {
    const char *network, *address;
    bool has;
  } rows[] = {
      {"10.0.0.0/8", "10.255.1.2", true},
      {"10.0.0.0/8", "11.0.0.1", false},
      {"10.1.2.3", "10.1.2.3", true},
      {"10.1.2.3", "10.1.2.4", false},
      {"10.1.2.3/9", "10.127.0.1", true},
      {"10.1.2.3/9", "10.128.0.1", false},
      {"0.0.0.0/0", "1.2.3.4", true},
      {"0.0.0.0/0", "::1", false},
      {"::/0", "1.2.3.4", true},
      {"2001:db8::/33", "2001:db8:7fff::1", true},
      {"2001:db8::/33", "2001:db8:8000::1", false},
      {"::1/128", "::1", true},
      {"::1/128", "::2", false},
      {"10.1.2.2/31", "10.1.2.3", true},
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    struct mg_network network;
    struct mg_address address;
    CHECK(mg_network_parse(text(rows[i].network), &network));
    CHECK(mg_address_parse(text(rows[i].address), &address));
    CHECK_INT(mg_network_has(&network, &address), rows[i].has);
  }
  static const char *const bad[] = {"",           "10.0.0.0/",    "10.0.0.0/33", "::/129",
                                    "10.0.0.0/a", "10.0.0.0/8/8", "10.0.0.0/-1", "10.0.0.0/0008",
                                    "host",       "10.0.0/8",     "/8"};
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
    struct mg_network network;
    CHECK(!mg_network_parse(text(bad[i]), &network));
  }
}

TEST(clients)
{
  static const struct {
    const char *peer;
    const char *forwarded[3]; /* X-Forwarded-For lines */
    const char *real[2];      /* X-Real-IP lines */
    const char *client;
    enum mg_client_source source;
  } rows[] = {
      {"9.9.9.9", {"1.1.1.1"}, {NULL}, "9.9.9.9", MG_CLIENT_SOCKET}, /* not trusted */
      {"9.9.9.9", {NULL}, {"1.1.1.1"}, "9.9.9.9", MG_CLIENT_SOCKET},
      {"10.0.0.1", {NULL}, {NULL}, "10.0.0.1", MG_CLIENT_SOCKET},
      {"10.0.0.1", {"1.1.1.1"}, {NULL}, "1.1.1.1", MG_CLIENT_X_FORWARDED_FOR},
      {"10.0.0.1", {"6.6.6.6, 1.1.1.1,10.0.0.2"}, {NULL}, "1.1.1.1", MG_CLIENT_X_FORWARDED_FOR},
      {"10.0.0.1", {"6.6.6.6", "1.1.1.1", "10.0.0.2"}, {NULL}, "1.1.1.1", MG_CLIENT_X_FORWARDED_FOR},
      {"10.0.0.1", {"10.0.0.3, 10.0.0.2"}, {NULL}, "10.0.0.3", MG_CLIENT_X_FORWARDED_FOR}, /* all trusted */
      {"10.0.0.1", {"2001:db8::1"}, {NULL}, "2001:db8::1", MG_CLIENT_X_FORWARDED_FOR},
      {"10.0.0.1", {"evil, 1.1.1.1"}, {NULL}, "10.0.0.1", MG_CLIENT_SOCKET}, /* every entry has to be good */
      {"10.0.0.1", {"evil", "1.1.1.1"}, {NULL}, "10.0.0.1", MG_CLIENT_SOCKET},
      {"10.0.0.1", {"1.1.1.1,"}, {NULL}, "10.0.0.1", MG_CLIENT_SOCKET},
      {"10.0.0.1", {""}, {NULL}, "10.0.0.1", MG_CLIENT_SOCKET},
      {"10.0.0.1", {"1.1.1.1:80"}, {NULL}, "10.0.0.1", MG_CLIENT_SOCKET},
      {"10.0.0.1", {"evil"}, {"1.1.1.1"}, "10.0.0.1", MG_CLIENT_SOCKET}, /* X-Real-IP is ignored then */
      {"10.0.0.1", {"2.2.2.2"}, {"1.1.1.1"}, "2.2.2.2", MG_CLIENT_X_FORWARDED_FOR},
      {"10.0.0.1", {NULL}, {"1.1.1.1"}, "1.1.1.1", MG_CLIENT_X_REAL_IP},
      {"10.0.0.1", {NULL}, {"1.1.1.1", "1.1.1.1"}, "10.0.0.1", MG_CLIENT_SOCKET},
      {"10.0.0.1", {NULL}, {"evil"}, "10.0.0.1", MG_CLIENT_SOCKET},
      {"", {"1.1.1.1"}, {NULL}, "", MG_CLIENT_UNKNOWN},
  };
  struct mg_network trusted[2];
  CHECK(mg_network_parse(MG_STR("192.168.0.0/16"), &trusted[0]));
  CHECK(mg_network_parse(MG_STR("10.0.0.0/8"), &trusted[1]));
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    char first[4096];
    struct mg_pool pool;
    struct mg_arena arena;
    struct mg_headers headers;
    struct mg_address peer = {0}, client;
    mg_pool_init(&pool, 4096, 0);
    mg_arena_init(&arena, first, sizeof first, &pool, 0);
    mg_headers_init(&headers, &arena);
    for (int j = 0; j < 3 && rows[i].forwarded[j]; j++)
      CHECK_INT(mg_headers_add(&headers, MG_STR("X-Forwarded-For"), text(rows[i].forwarded[j])), 0);
    for (int j = 0; j < 2 && rows[i].real[j]; j++)
      CHECK_INT(mg_headers_add(&headers, MG_STR("X-Real-IP"), text(rows[i].real[j])), 0);
    if (*rows[i].peer) CHECK(mg_address_parse(text(rows[i].peer), &peer));
    CHECK_INT(mg_client_address(&headers, &peer, trusted, 2, &client), rows[i].source);
    CHECK_STR(mg_str(client.text, client.text_len), rows[i].client);
  }
}

RUN_TESTS({"literals", literals}, {"networks", networks}, {"clients", clients})
