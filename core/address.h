/* address.h - IP addresses, networks, and which address the client has.
 * Pure. Thread: any. */
#pragma once

#include "headers.h"

struct mg_address {
  uint8_t bytes[16]; /* IPv4 as ::ffff:a.b.c.d */
  char text[46];     /* canonical text, IPv4 in dotted form; empty when unknown (unix socket) */
  uint8_t text_len;
  bool v4;
};

struct mg_network { /* one entry of limits.trusted_proxies */
  uint8_t bytes[16];
  uint8_t prefix; /* of the 128-bit form */
};

enum mg_client_source { MG_CLIENT_SOCKET, MG_CLIENT_X_FORWARDED_FOR, MG_CLIENT_X_REAL_IP, MG_CLIENT_UNKNOWN };

/** Parses an IP literal (brackets and zone refused). */
bool mg_address_parse(struct mg_str text, struct mg_address *address);
/** Parses an address or CIDR. */
bool mg_network_parse(struct mg_str text, struct mg_network *network);
bool mg_network_has(const struct mg_network *network, const struct mg_address *address);

/** The client's address: for a trusted peer the X-Forwarded-For lines, joined, from right to left to the first entry
 * that is not trusted, if every entry is an IP literal; where there is no line, one X-Real-IP line; else the peer's. */
enum mg_client_source mg_client_address(const struct mg_headers *headers, const struct mg_address *peer,
                                        const struct mg_network *trusted, unsigned trusted_count,
                                        struct mg_address *client);
