/* control.c - the master's side of the control socket.
 * Owns: the socket, its file, its connections.
 * May call: mem, log, libuv, libc.   Never: know a command.   Thread: the loop thread.   Ends: mg_control_close(). */
#include "control.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "log.h"

enum { LINE_SIZE = 256, CLIENTS_MAX = 64, BACKLOG = 16 };

struct mg_control_client {
  uv_pipe_t pipe;
  struct mg_control *control;
  struct mg_control_client *next;
  char line[LINE_SIZE];
  size_t line_len;
  bool asked; /* its request was handed out and is to be answered */
  bool closing;
};

struct mg_control {
  uv_pipe_t listener;
  struct mg_control_client *clients;
  unsigned client_count;
  char path[MG_CONTROL_PATH_SIZE];
  struct stat file; /* the socket's file as we made it */
  void (*on_request)(void *context, struct mg_control_client *client, const char *line);
  void *context;
  bool listener_open;
  bool closing;
};

struct answer {
  uv_write_t request;
  struct mg_buf bytes;
  bool last;
};

static void free_when_done(struct mg_control *control)
{
  if (control->closing && !control->clients && !control->listener_open) free(control);
}

static void on_client_closed(uv_handle_t *handle)
{
  struct mg_control_client *client = handle->data;
  struct mg_control *control = client->control;
  struct mg_control_client **at = &control->clients;
  while (*at != client) at = &(*at)->next;
  *at = client->next;
  control->client_count--;
  free(client);
  free_when_done(control);
}

static void close_client(struct mg_control_client *client)
{
  if (client->closing) return;
  client->closing = true;
  uv_close((uv_handle_t *)&client->pipe, on_client_closed);
}

static void on_room(uv_handle_t *handle, size_t suggested, uv_buf_t *room)
{
  (void)suggested;
  struct mg_control_client *client = handle->data;
  *room = uv_buf_init(client->line + client->line_len, (unsigned)(LINE_SIZE - 1 - client->line_len));
}

static void on_read(uv_stream_t *stream, ssize_t count, const uv_buf_t *room)
{
  (void)room;
  struct mg_control_client *client = stream->data;
  if (client->closing || count == 0) return;
  if (count > 0) {
    client->line_len += (size_t)count;
    client->line[client->line_len] = '\0';
    char *end = strchr(client->line, '\n');
    if (end) {
      *end = '\0';
      client->asked = true;
      uv_read_stop(stream); /* a client that leaves early is noticed when its answer cannot be written */
      client->control->on_request(client->control->context, client, client->line);
      return;
    }
    if (client->line_len < LINE_SIZE - 1) return;
  }
  close_client(client);
}

static void on_connection(uv_stream_t *listener, int status)
{
  struct mg_control *control = listener->data;
  if (status < 0 || control->closing) return;
  struct mg_control_client *client = mg_calloc(1, sizeof *client);
  client->control = control;
  client->pipe.data = client;
  uv_pipe_init(listener->loop, &client->pipe, 0);
  client->next = control->clients;
  control->clients = client;
  control->client_count++;
  bool accepted = uv_accept(listener, (uv_stream_t *)&client->pipe) == 0;
  if (!accepted || control->client_count > CLIENTS_MAX ||
      uv_read_start((uv_stream_t *)&client->pipe, on_room, on_read) != 0)
    close_client(client);
}

static void on_answered(uv_write_t *request, int status)
{
  struct answer *answer = request->data;
  struct mg_control_client *client = request->handle->data;
  if (answer->last || status < 0) close_client(client);
  mg_buf_free(&answer->bytes);
  free(answer);
}

static void write_answer(struct mg_control_client *client, bool ok, struct mg_str text, bool last)
{
  MG_ASSERT(client->asked);
  client->asked = false;
  if (client->closing) return;
  struct answer *answer = mg_calloc(1, sizeof *answer);
  answer->last = last;
  answer->request.data = answer;
  mg_buf_printf(&answer->bytes, "%s\n", ok ? "ok" : "refused");
  mg_buf_append(&answer->bytes, text.ptr, text.len);
  uv_buf_t out = uv_buf_init(answer->bytes.ptr, (unsigned)answer->bytes.len);
  answer->request.handle = (uv_stream_t *)&client->pipe;
  int result = uv_write(&answer->request, (uv_stream_t *)&client->pipe, &out, 1, on_answered);
  if (result < 0) on_answered(&answer->request, result);
}

void mg_control_answer(struct mg_control_client *client, bool ok, struct mg_str text)
{
  write_answer(client, ok, text, true);
}

void mg_control_answer_open(struct mg_control_client *client, bool ok, struct mg_str text)
{
  write_answer(client, ok, text, false);
}

/* Takes away the file of a gateway that is gone; refuses where one answers or the file is no socket. */
static int clear_path(const char *path, struct mg_buf *error)
{
  struct stat st;
  if (lstat(path, &st) != 0) return 0;
  if (!S_ISSOCK(st.st_mode)) {
    mg_buf_printf(error, "%s exists and is no socket", path);
    return -1;
  }
  int fd = mg_control_connect(path);
  if (fd >= 0) {
    close(fd);
    mg_buf_printf(error, "another gateway answers at %s; stop it, or choose another port or --control", path);
    return -1;
  }
  if (errno == ECONNREFUSED && unlink(path) == 0) return 0;
  mg_buf_printf(error, "cannot use %s: %s", path, strerror(errno));
  return -1;
}

static int bind_socket(const char *path, struct stat *file, struct mg_buf *error)
{
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
  int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  mode_t mask = umask(0177);
  bool bound = fd >= 0 && bind(fd, (const struct sockaddr *)&address, sizeof address) == 0;
  int code = errno;
  umask(mask);
  if (bound && lstat(path, file) == 0 && listen(fd, BACKLOG) == 0) return fd;
  mg_buf_printf(error, "cannot open the control socket %s: %s", path, strerror(bound ? errno : code));
  if (fd >= 0) close(fd);
  return -1;
}

static struct mg_control *serve(uv_loop_t *loop, const char *path, int fd, struct stat file,
                                void (*on_request)(void *context, struct mg_control_client *client, const char *line),
                                void *context, struct mg_buf *error)
{
  struct mg_control *control = mg_calloc(1, sizeof *control);
  control->on_request = on_request;
  control->context = context;
  control->file = file;
  control->listener_open = true;
  snprintf(control->path, sizeof control->path, "%s", path);
  control->listener.data = control;
  uv_pipe_init(loop, &control->listener, 0);
  int result = uv_pipe_open(&control->listener, fd);
  if (result == 0) result = uv_listen((uv_stream_t *)&control->listener, BACKLOG, on_connection);
  if (result == 0) return control;
  mg_buf_printf(error, "cannot open the control socket %s: %s", path, uv_strerror(result));
  mg_control_close(&control);
  return NULL;
}

struct mg_control *mg_control_open(uv_loop_t *loop, const char *path,
                                   void (*on_request)(void *context, struct mg_control_client *client,
                                                      const char *line),
                                   void *context, struct mg_buf *error)
{
  struct stat file;
  if (clear_path(path, error) != 0) return NULL;
  int fd = bind_socket(path, &file, error);
  return fd < 0 ? NULL : serve(loop, path, fd, file, on_request, context, error);
}

struct mg_control *mg_control_take_over(uv_loop_t *loop, const char *path,
                                        void (*on_request)(void *context, struct mg_control_client *client,
                                                           const char *line),
                                        void *context, struct mg_buf *error)
{
  char beside[MG_CONTROL_PATH_SIZE];
  struct stat file;
  if (snprintf(beside, sizeof beside, "%s~", path) >= (int)sizeof beside) {
    mg_buf_printf(error, "the path of the control socket is too long to be taken over: %s", path);
    return NULL;
  }
  if (clear_path(beside, error) != 0) return NULL;
  int fd = bind_socket(beside, &file, error);
  if (fd < 0) return NULL;
  if (rename(beside, path) == 0) return serve(loop, path, fd, file, on_request, context, error);
  mg_buf_printf(error, "cannot take over the control socket %s: %s", path, strerror(errno));
  unlink(beside);
  close(fd);
  return NULL;
}

static void on_listener_closed(uv_handle_t *handle)
{
  struct mg_control *control = handle->data;
  control->listener_open = false;
  free_when_done(control);
}

void mg_control_close(struct mg_control **control_at)
{
  struct mg_control *control = *control_at;
  struct stat now;
  *control_at = NULL;
  if (!control) return;
  control->closing = true;
  if (lstat(control->path, &now) == 0 && now.st_ino == control->file.st_ino && now.st_dev == control->file.st_dev)
    unlink(control->path);
  for (struct mg_control_client *client = control->clients; client; client = client->next) close_client(client);
  uv_close((uv_handle_t *)&control->listener, on_listener_closed);
}
