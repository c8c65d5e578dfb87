/* control.h - the control socket: one request line per connection, answered by "ok" or "refused", then text until the
 * end.
 *
 * A person's commands (status, reload, stop) are its clients. The socket belongs to its user alone.
 * Thread: the loop thread; the path and the client side need no loop. */
#pragma once

#include <sys/un.h>
#include <uv.h>

#include "cli.h"
#include "mem.h"

struct mg_control;
struct mg_control_client;

enum { MG_CONTROL_PATH_SIZE = sizeof(((struct sockaddr_un *)0)->sun_path) };

/** Where the gateway of that port has its socket: --control, else by port in $XDG_RUNTIME_DIR/moongate, /run/moongate
 * (root) or /tmp/moongate-<uid>. make creates the directory (0700) and refuses one that others can use. 0, or -1 with
 * a sentence in error. */
int mg_control_path(char path[MG_CONTROL_PATH_SIZE], const char *chosen, unsigned port, bool make,
                    struct mg_buf *error);

/** Connects to a gateway's control socket. A descriptor (close-on-exec), or -1 with errno set. */
int mg_control_connect(const char *path);

/** Opens the socket; a stale one of the same path is replaced, a live one is an error. on_request gets a line without
 * its end; the client stays until it is answered or the control is closed. NULL with a sentence in error. */
struct mg_control *mg_control_open(uv_loop_t *loop, const char *path,
                                   void (*on_request)(void *context, struct mg_control_client *client,
                                                      const char *line),
                                   void *context, struct mg_buf *error);

/** As mg_control_open, but takes the path from a gateway that answers there, in one step: a command finds one of the
 * two. */
struct mg_control *mg_control_take_over(uv_loop_t *loop, const char *path,
                                        void (*on_request)(void *context, struct mg_control_client *client,
                                                           const char *line),
                                        void *context, struct mg_buf *error);

/** Answers and ends the connection; the client is gone after this. Copies text. */
void mg_control_answer(struct mg_control_client *client, bool ok, struct mg_str text);
/** As mg_control_answer, but the connection stays until the control is closed: its end tells that this process is
 * done. */
void mg_control_answer_open(struct mg_control_client *client, bool ok, struct mg_str text);

/** Ends every connection, removes the socket if it is still ours; frees itself once the loop has run. */
void mg_control_close(struct mg_control **control);
