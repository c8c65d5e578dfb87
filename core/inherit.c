/* inherit.c - descriptors out of the environment, checked, and dealt out to workers.
 * Owns: nothing; descriptors go to the caller.   May call: mem, listen, libc.   Never: accept.
 * Thread: the main thread. */
#include "inherit.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "listen.h"

static const struct mg_inherited nothing = {.management = -1, .channel = -1};

void mg_inherit_describe(const struct mg_inherited *inherited, char *out, size_t size)
{
  snprintf(out, size, "pid=%d listeners=%u management=%d first_slot=%u activated=%d", inherited->predecessor,
           inherited->listener_count, inherited->management >= 0, inherited->first_slot, inherited->activated);
}

/* Ours from here on: not for children, never blocking. */
static bool own(int fd)
{
  int flags = fcntl(fd, F_GETFL);
  return flags >= 0 && fcntl(fd, F_SETFL, flags | O_NONBLOCK) == 0 && fcntl(fd, F_SETFD, FD_CLOEXEC) == 0;
}

static int own_listener(int fd, struct mg_buf *error)
{
  int listening = 0, type = 0;
  socklen_t size = sizeof listening;
  struct sockaddr_storage address;
  socklen_t address_size = sizeof address;
  if (own(fd) && getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listening, &size) == 0 && listening &&
      getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) == 0 && type == SOCK_STREAM &&
      getsockname(fd, (struct sockaddr *)&address, &address_size) == 0 &&
      (address.ss_family == AF_INET || address.ss_family == AF_INET6))
    return 0;
  mg_buf_printf(error, "descriptor %d, which was passed to this process, is no listening TCP socket", fd);
  return -1;
}

static int add(struct mg_inherited *inherited, int fd, bool management, struct mg_buf *error)
{
  if (own_listener(fd, error) != 0) return -1;
  if (management && inherited->management < 0) {
    inherited->management = fd;
    return 0;
  }
  if (inherited->listener_count == MG_INHERITED_MAX) {
    mg_buf_printf(error, "more than %d sockets were passed to this process", MG_INHERITED_MAX);
    return -1;
  }
  inherited->listeners[inherited->listener_count++] = fd;
  return 0;
}

/* What a predecessor said: its channel is descriptor 3, then come the management port's socket, if any, and the
 * others. */
static int take_from_predecessor(struct mg_inherited *inherited, const char *text, struct mg_buf *error)
{
  unsigned count;
  int management, activated, fd = MG_INHERITED_FIRST_FD;
  if (sscanf(text, "pid=%d listeners=%u management=%d first_slot=%u activated=%d", &inherited->predecessor, &count,
             &management, &inherited->first_slot, &activated) != 5 ||
      !own(fd)) {
    mg_buf_printf(error, "%s is set by a gateway for the one that takes over from it, by nobody else",
                  MG_INHERIT_VARIABLE);
    return -1;
  }
  inherited->channel = fd++;
  inherited->activated = activated != 0;
  if (management && add(inherited, fd++, true, error) != 0) return -1;
  for (unsigned i = 0; i < count; i++)
    if (add(inherited, fd++, false, error) != 0) return -1;
  return 0;
}

/* sd_listen_fds(3): LISTEN_FDS descriptors from 3 on, for the process LISTEN_PID, with names in LISTEN_FDNAMES. */
static int take_activated(struct mg_inherited *inherited, const char *count_text, const char *names,
                          struct mg_buf *error)
{
  long count = strtol(count_text, NULL, 10);
  for (long i = 0; i < count; i++) {
    size_t len = names ? strcspn(names, ":") : 0;
    bool management = len == sizeof "management" - 1 && strncmp(names, "management", len) == 0;
    if (add(inherited, MG_INHERITED_FIRST_FD + (int)i, management, error) != 0) return -1;
    if (names) names += len + (names[len] == ':');
  }
  inherited->activated = inherited->listener_count > 0;
  return 0;
}

int mg_inherit_take(struct mg_inherited *inherited, struct mg_buf *error)
{
  const char *predecessor = getenv(MG_INHERIT_VARIABLE), *pid = getenv("LISTEN_PID"), *count = getenv("LISTEN_FDS");
  int result = 0;
  *inherited = nothing;
  if (predecessor)
    result = take_from_predecessor(inherited, predecessor, error);
  else if (pid && count && strtol(pid, NULL, 10) == (long)getpid())
    result = take_activated(inherited, count, getenv("LISTEN_FDNAMES"), error);
  unsetenv(MG_INHERIT_VARIABLE);
  unsetenv("LISTEN_PID");
  unsetenv("LISTEN_FDS");
  unsetenv("LISTEN_FDNAMES");
  return result;
}

bool mg_inherit_same(const struct sockaddr_storage *a, const struct sockaddr_storage *b, bool any_port)
{
  if (a->ss_family != b->ss_family || (!any_port && mg_listen_port(a) != mg_listen_port(b))) return false;
  if (a->ss_family == AF_INET6)
    return memcmp(&((const struct sockaddr_in6 *)a)->sin6_addr, &((const struct sockaddr_in6 *)b)->sin6_addr,
                  sizeof(struct in6_addr)) == 0;
  return ((const struct sockaddr_in *)a)->sin_addr.s_addr == ((const struct sockaddr_in *)b)->sin_addr.s_addr;
}

static void address_of(int fd, struct sockaddr_storage *address)
{
  socklen_t size = sizeof *address;
  memset(address, 0, sizeof *address);
  getsockname(fd, (struct sockaddr *)address, &size);
}

/* One more socket for the address of fd. A service manager's port has one queue, which outlives every gateway, so it is
 * the same socket again. */
static int another(int fd, bool activated, struct sockaddr_storage *address, int backlog, struct mg_buf *error)
{
  int shared = 0;
  socklen_t size = sizeof shared;
  getsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &shared, &size);
  if (shared && !activated) return mg_listen_open(address, backlog, error);
  int copy = fcntl(fd, F_DUPFD_CLOEXEC, 0);
  if (copy < 0) mg_buf_printf(error, "cannot share a listening socket: %s", strerror(errno));
  return copy;
}

static int put(struct mg_listeners *out, int fd, unsigned worker)
{
  if (out->count == MG_LISTENERS_MAX) {
    close(fd);
    return -1;
  }
  out->all[out->count].fd = fd;
  out->all[out->count++].worker = worker;
  return 0;
}

int mg_inherit_share(struct mg_inherited *inherited, unsigned workers, int backlog, struct mg_listeners *out,
                     struct sockaddr_storage *address, struct mg_buf *error)
{
  struct sockaddr_storage here, there;
  int siblings[MG_INHERITED_MAX];
  out->count = 0;
  for (unsigned i = 0; i < inherited->listener_count; i++) {
    unsigned count = 0;
    if (inherited->listeners[i] < 0) continue;
    address_of(inherited->listeners[i], &here);
    if (i == 0) *address = here;
    for (unsigned j = i; j < inherited->listener_count; j++) {
      if (inherited->listeners[j] < 0) continue;
      address_of(inherited->listeners[j], &there);
      if (!mg_inherit_same(&here, &there, false)) continue;
      siblings[count++] = inherited->listeners[j];
      inherited->listeners[j] = -1;
    }
    for (unsigned k = 0; k < workers || k < count; k++) {
      int fd = k < count ? siblings[k] : another(siblings[k % count], inherited->activated, &here, backlog, error);
      if (fd >= 0 && put(out, fd, k % workers) != 0) mg_buf_printf(error, "too many listening sockets");
      if (error->len) return -1;
    }
  }
  inherited->listener_count = 0;
  return 0;
}

int mg_inherit_management(struct mg_inherited *inherited, struct sockaddr_storage *address)
{
  struct sockaddr_storage given;
  int fd = inherited->management;
  inherited->management = -1;
  if (fd < 0) return -1;
  address_of(fd, &given);
  if (inherited->activated || mg_inherit_same(address, &given, mg_listen_port(address) == 0)) {
    *address = given;
    return fd;
  }
  close(fd);
  return -1;
}

int mg_listeners_open(struct mg_listeners *listeners, unsigned workers, struct sockaddr_storage *address, int backlog,
                      struct mg_buf *error)
{
  listeners->count = 0;
  for (unsigned i = 0; i < workers; i++) {
    int fd = mg_listen_open(address, backlog, error);
    if (fd < 0 || put(listeners, fd, i) != 0) {
      mg_listeners_close(listeners);
      return -1;
    }
  }
  return 0;
}

void mg_listeners_close(struct mg_listeners *listeners)
{
  for (unsigned i = 0; i < listeners->count; i++) close(listeners->all[i].fd);
  listeners->count = 0;
}
