/* origin.c - `moongate-bench-origin PORT [vary]`: an origin that is cheaper than any proxy before it.
 *
 * Answers are made once and chosen by path: /api/get 2,000 bytes of JSON, /api/post 201 with 18, /hello.txt 13 bytes,
 * anything else 8 KB of HTML. With `vary` there are 512 different bodies of each size, so that a compressor meets what
 * it would meet in life. It exists so that the proxy, not the origin, is the bottleneck; it reads requests to their
 * end, by Content-Length only.
 * Owns: its sockets.   May call: the system.   Never: serve anything but a benchmark.   Thread: one. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <unistd.h>

enum { DESCRIPTORS_MAX = 65536, EVENTS_MAX = 512, IN_BYTES = 16384, OUT_BYTES = 131072, VARIANTS = 512 };

struct answers {
  const char *prefix;
  char *bytes[VARIANTS];
  size_t size; /* of each, head and body */
};

struct conn {
  size_t used, skip; /* skip: body bytes still to come */
  char in[IN_BYTES];
};

struct server {
  int poll, door;
  unsigned variants, turn;
  struct answers answers[4];
  struct conn *conns[DESCRIPTORS_MAX];
  char out[OUT_BYTES];
};

/* Puts other letters and digits into a body; its size and its markup stay. */
static void differ(char *body, size_t size, unsigned seed)
{
  for (size_t i = 0; i < size; i++) {
    bool letter = body[i] >= 'a' && body[i] <= 'z', digit = body[i] >= '0' && body[i] <= '9';
    if ((!letter && !digit) || (i && body[i - 1] == '<')) continue;
    seed = seed * 1664525u + 1013904223u;
    body[i] = letter ? (char)('a' + (seed >> 16) % 20) : (char)('0' + (seed >> 16) % 10);
  }
}

static void make(struct server *server, struct answers *answers, const char *prefix, const char *status,
                 const char *type, const char *unit, size_t size)
{
  answers->prefix = prefix;
  for (unsigned k = 0; k < server->variants; k++) {
    char *bytes = malloc(size + 256);
    if (!bytes) abort();
    int head = sprintf(bytes,
                       "HTTP/1.1 %s\r\nServer: origin\r\nDate: Mon, 30 Nov 2026 12:00:00 GMT\r\nContent-Type: %s\r\n"
                       "Content-Length: %zu\r\nConnection: keep-alive\r\n\r\n",
                       status, type, size);
    for (size_t i = 0; i < size; i++) bytes[(size_t)head + i] = unit[i % strlen(unit)];
    if (k) differ(bytes + head, size, k);
    answers->bytes[k] = bytes;
    answers->size = (size_t)head + size;
  }
}

static void make_all(struct server *server)
{
  make(server, &server->answers[0], "/api/get", "200 OK", "application/json",
       "{\"id\":1,\"name\":\"item number\",\"price\":7},", 2000);
  make(server, &server->answers[1], "/api/post", "201 Created", "application/json", "{\"id\":1,\"ok\":true}", 18);
  make(server, &server->answers[2], "/hello.txt", "200 OK", "text/plain", "hello, world\n", 13);
  make(server, &server->answers[3], "/", "200 OK", "text/html", "<p>lorem ipsum dolor sit amet consectetur</p>", 8192);
}

static const struct answers *answers_for(const struct server *server, const char *path, size_t len)
{
  const struct answers *answers = server->answers;
  while (answers < server->answers + 3 &&
         (len < strlen(answers->prefix) || memcmp(path, answers->prefix, strlen(answers->prefix)) != 0))
    answers++;
  return answers;
}

/* Answers every complete request in conn->in; what is left stays there. Returns the bytes put into out. */
static size_t serve(struct server *server, struct conn *conn)
{
  size_t at = 0, size = 0;
  while (size + 16384 < OUT_BYTES) {
    size_t left = conn->used - at, eaten = left < conn->skip ? left : conn->skip;
    at += eaten;
    conn->skip -= eaten;
    char *head = conn->in + at;
    char *end = conn->skip ? NULL : memmem(head, conn->used - at, "\r\n\r\n", 4);
    if (!end) break;
    const char *blank = memchr(head, ' ', (size_t)(end - head));
    const char *path = blank ? blank + 1 : head;
    const struct answers *answers = answers_for(server, path, (size_t)(end - path));
    memcpy(server->out + size, answers->bytes[server->turn++ % server->variants], answers->size);
    size += answers->size;
    *end = 0;
    const char *length = strcasestr(head, "\r\ncontent-length:");
    conn->skip = length ? strtoul(length + strlen("\r\ncontent-length:"), NULL, 10) : 0;
    at = (size_t)(end + 4 - conn->in);
  }
  memmove(conn->in, conn->in + at, conn->used -= at);
  return size;
}

static void watch(const struct server *server, int fd)
{
  epoll_ctl(server->poll, EPOLL_CTL_ADD, fd, &(struct epoll_event){.events = EPOLLIN, .data.fd = fd});
}

static void take_client(struct server *server)
{
  int on = 1, fd = accept4(server->door, NULL, NULL, SOCK_NONBLOCK);
  if (fd < 0) return;
  if (fd >= DESCRIPTORS_MAX) {
    close(fd);
    return;
  }
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  if (!server->conns[fd]) server->conns[fd] = malloc(sizeof *server->conns[fd]);
  if (!server->conns[fd]) abort();
  server->conns[fd]->used = server->conns[fd]->skip = 0;
  watch(server, fd);
}

static void on_readable(struct server *server, int fd)
{
  struct conn *conn = server->conns[fd];
  ssize_t got = read(fd, conn->in + conn->used, IN_BYTES - conn->used);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (got <= 0) {
    close(fd);
    return;
  }
  conn->used += (size_t)got;
  size_t size = serve(server, conn);
  for (size_t sent = 0; sent < size;) {
    ssize_t wrote = write(fd, server->out + sent, size - sent);
    if (wrote < 0 && errno != EAGAIN && errno != EINTR) break; /* its end of file follows */
    if (wrote > 0) sent += (size_t)wrote;
  }
}

int main(int argc, char **argv)
{
  if (argc < 2 || argc > 3 || (argc == 3 && strcmp(argv[2], "vary") != 0)) {
    fputs("usage: moongate-bench-origin PORT [vary]\n", stderr);
    return 2;
  }
  struct rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
  }
  struct server *server = calloc(1, sizeof *server);
  if (!server) abort();
  server->variants = argc == 3 ? VARIANTS : 1;
  make_all(server);
  struct sockaddr_in here = {
      .sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(argv[1])), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  int on = 1;
  server->poll = epoll_create1(0);
  server->door = socket(AF_INET, SOCK_STREAM, 0);
  setsockopt(server->door, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (bind(server->door, (const struct sockaddr *)&here, sizeof here) || listen(server->door, 4096)) {
    fprintf(stderr, "moongate-bench-origin: port %s: %s\n", argv[1], strerror(errno));
    return 1;
  }
  watch(server, server->door);
  struct epoll_event ready[EVENTS_MAX];
  for (;;) {
    int count = epoll_wait(server->poll, ready, EVENTS_MAX, -1);
    for (int i = 0; i < count; i++) {
      if (ready[i].data.fd == server->door)
        take_client(server);
      else
        on_readable(server, ready[i].data.fd);
    }
  }
}
