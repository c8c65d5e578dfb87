/* floor.c - `moongate-floor PORT UPSTREAM_PORT`: the least that a TCP relay can do.
 *
 * One upstream connection for each client connection, bytes copied from one to the other as they come, nothing read as
 * HTTP: what it costs is what the kernel charges any proxy for a request. A proxy's own cost is what it takes beyond
 * this.
 * Owns: its sockets.   May call: the system.   Never: look at a byte.   Thread: one. */
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

enum { DESCRIPTORS_MAX = 65536, EVENTS_MAX = 512 };

struct relay {
  int poll, door;
  struct sockaddr_in upstream;
  int peer[DESCRIPTORS_MAX]; /* 0: none */
  char bytes[65536];
};

static struct sockaddr_in loopback(const char *port)
{
  return (struct sockaddr_in){
      .sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(port)), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
}

static void watch(struct relay *relay, int fd)
{
  int on = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  epoll_ctl(relay->poll, EPOLL_CTL_ADD, fd, &(struct epoll_event){.events = EPOLLIN, .data.fd = fd});
}

static void take_client(struct relay *relay)
{
  int client = accept4(relay->door, NULL, NULL, SOCK_NONBLOCK);
  if (client < 0) return;
  int up = socket(AF_INET, SOCK_STREAM, 0);
  if (up < 0 || client >= DESCRIPTORS_MAX || up >= DESCRIPTORS_MAX ||
      connect(up, (const struct sockaddr *)&relay->upstream, sizeof relay->upstream)) {
    close(client);
    if (up >= 0) close(up);
    return;
  }
  relay->peer[client] = up;
  relay->peer[up] = client;
  watch(relay, client);
  watch(relay, up);
}

static void end_pair(struct relay *relay, int fd)
{
  int other = relay->peer[fd];
  relay->peer[fd] = relay->peer[other] = 0;
  close(fd);
  close(other);
}

/* Waits where the other side is slow: loads that are measured are read at once. */
static bool write_all(int fd, const char *bytes, size_t len)
{
  while (len) {
    ssize_t sent = write(fd, bytes, len);
    if (sent < 0 && errno != EAGAIN && errno != EINTR) return false;
    if (sent > 0) {
      bytes += sent;
      len -= (size_t)sent;
    }
  }
  return true;
}

static void pass_on(struct relay *relay, int fd)
{
  if (relay->peer[fd] == 0) return; /* closed with its other side, in this round */
  ssize_t got = recv(fd, relay->bytes, sizeof relay->bytes, MSG_DONTWAIT);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (got <= 0 || !write_all(relay->peer[fd], relay->bytes, (size_t)got)) end_pair(relay, fd);
}

static int fail(const char *what)
{
  fprintf(stderr, "moongate-floor: %s: %s\n", what, strerror(errno));
  return 1;
}

int main(int argc, char **argv)
{
  if (argc != 3) {
    fputs("usage: moongate-floor PORT UPSTREAM_PORT\n", stderr);
    return 2;
  }
  struct rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
  }
  struct relay *relay = calloc(1, sizeof *relay);
  if (!relay) return fail("memory");
  struct sockaddr_in here = loopback(argv[1]);
  int on = 1;
  relay->upstream = loopback(argv[2]);
  relay->poll = epoll_create1(0);
  relay->door = socket(AF_INET, SOCK_STREAM, 0);
  setsockopt(relay->door, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (bind(relay->door, (const struct sockaddr *)&here, sizeof here) || listen(relay->door, 4096)) return fail(argv[1]);
  watch(relay, relay->door);
  struct epoll_event ready[EVENTS_MAX];
  for (;;) {
    int count = epoll_wait(relay->poll, ready, EVENTS_MAX, -1);
    for (int i = 0; i < count; i++) {
      if (ready[i].data.fd == relay->door)
        take_client(relay);
      else
        pass_on(relay, ready[i].data.fd);
    }
  }
}
