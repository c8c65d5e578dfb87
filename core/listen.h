/* listen.h - listening sockets as the master makes them: checked for a neighbour first, one per worker on the same
 * port.
 *
 * Functions that fail return -1 and put one sentence into error (the caller frees it). Thread: any. */
#pragma once

#include <sys/socket.h>

#include "mem.h"

enum { MG_LISTEN_TEXT_SIZE = 64 };

/** The address that host (an IP literal, with or without brackets, or a name) and port stand for. 0 or -1. */
int mg_listen_address(struct sockaddr_storage *address, const char *host, unsigned port, struct mg_buf *error);

/** Checks that nobody listens there: a bind that shares with nobody, undone at once. 0 or -1. */
int mg_listen_probe(const struct sockaddr_storage *address, struct mg_buf *error);

/** A listening socket that shares its port (SO_REUSEPORT) with others of this user. Where address has port 0 the port
 * that was picked is put into it. Returns the descriptor (close-on-exec, non-blocking) or -1. */
int mg_listen_open(struct sockaddr_storage *address, int backlog, struct mg_buf *error);

/** A listening socket that shares its port with nobody. As mg_listen_open. */
int mg_listen_alone(struct sockaddr_storage *address, struct mg_buf *error);

unsigned mg_listen_port(const struct sockaddr_storage *address);

/** Whether an address is of this machine alone; a wildcard address is not. */
bool mg_listen_is_loopback(const struct sockaddr_storage *address);

/** "127.0.0.1:8888", "[::1]:8888"; a wildcard address is shown as its loopback, so that the text can be used as it
 * is. */
void mg_listen_text(const struct sockaddr_storage *address, char out[MG_LISTEN_TEXT_SIZE]);

/** The same with a wildcard address as it is, "0.0.0.0:18888": it shows who may come. */
void mg_listen_exact_text(const struct sockaddr_storage *address, char out[MG_LISTEN_TEXT_SIZE]);
