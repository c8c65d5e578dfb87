/* listen.c - probe, bind, listen.
 * Owns: nothing; descriptors go to the caller.   May call: libc.   Never: accept.   Thread: any. */
#include "listen.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static socklen_t address_size(const struct sockaddr_storage *address)
{
  return address->ss_family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);
}

static void set_port(struct sockaddr_storage *address, unsigned port)
{
  if (address->ss_family == AF_INET6)
    ((struct sockaddr_in6 *)address)->sin6_port = htons((uint16_t)port);
  else
    ((struct sockaddr_in *)address)->sin_port = htons((uint16_t)port);
}

unsigned mg_listen_port(const struct sockaddr_storage *address)
{
  if (address->ss_family == AF_INET6) return ntohs(((const struct sockaddr_in6 *)address)->sin6_port);
  return ntohs(((const struct sockaddr_in *)address)->sin_port);
}

bool mg_listen_is_loopback(const struct sockaddr_storage *address)
{
  if (address->ss_family == AF_INET)
    return ntohl(((const struct sockaddr_in *)address)->sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
  const struct in6_addr *ip = &((const struct sockaddr_in6 *)address)->sin6_addr;
  return IN6_IS_ADDR_LOOPBACK(ip) || (IN6_IS_ADDR_V4MAPPED(ip) && ip->s6_addr[12] == IN_LOOPBACKNET);
}

/* usable: a wildcard address is told as its loopback. */
static void write_text(const struct sockaddr_storage *address, bool usable, char out[MG_LISTEN_TEXT_SIZE])
{
  char host[INET6_ADDRSTRLEN];
  if (address->ss_family == AF_INET6) {
    struct in6_addr ip = ((const struct sockaddr_in6 *)address)->sin6_addr;
    if (usable && IN6_IS_ADDR_UNSPECIFIED(&ip)) ip = in6addr_loopback;
    inet_ntop(AF_INET6, &ip, host, sizeof host);
    snprintf(out, MG_LISTEN_TEXT_SIZE, "[%s]:%u", host, mg_listen_port(address));
  } else {
    struct in_addr ip = ((const struct sockaddr_in *)address)->sin_addr;
    if (usable && ip.s_addr == htonl(INADDR_ANY)) ip.s_addr = htonl(INADDR_LOOPBACK);
    inet_ntop(AF_INET, &ip, host, sizeof host);
    snprintf(out, MG_LISTEN_TEXT_SIZE, "%s:%u", host, mg_listen_port(address));
  }
}

void mg_listen_text(const struct sockaddr_storage *address, char out[MG_LISTEN_TEXT_SIZE])
{
  write_text(address, true, out);
}

void mg_listen_exact_text(const struct sockaddr_storage *address, char out[MG_LISTEN_TEXT_SIZE])
{
  write_text(address, false, out);
}

int mg_listen_address(struct sockaddr_storage *address, const char *host, unsigned port, struct mg_buf *error)
{
  char bare[256];
  size_t len = strlen(host);
  bool bracketed = len > 2 && host[0] == '[' && host[len - 1] == ']';
  snprintf(bare, sizeof bare, "%.*s", (int)(bracketed ? len - 2 : len), host + bracketed);
  struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE};
  struct addrinfo *found = NULL;
  int result = getaddrinfo(bare, NULL, &hints, &found);
  if (result != 0 || !found) {
    mg_buf_printf(error, "cannot listen on %s: %s", host, result ? gai_strerror(result) : "it has no address");
    return -1;
  }
  memset(address, 0, sizeof *address);
  memcpy(address, found->ai_addr, found->ai_addrlen);
  freeaddrinfo(found);
  set_port(address, port);
  return 0;
}

static int explain(const struct sockaddr_storage *address, int code, struct mg_buf *error)
{
  char text[MG_LISTEN_TEXT_SIZE];
  mg_listen_text(address, text);
  unsigned port = mg_listen_port(address);
  if (code == EADDRINUSE)
    mg_buf_printf(error, "port %u is in use (%s)", port, text);
  else if (code == EACCES)
    mg_buf_printf(error, "port %u may not be opened by this user (%s)", port, text);
  else if (code == EADDRNOTAVAIL)
    mg_buf_printf(error, "cannot listen on %s: this machine does not have that address", text);
  else
    mg_buf_printf(error, "cannot listen on %s: %s", text, strerror(code));
  return -1;
}

/* A bound socket. address_shared lets it follow a closed predecessor whose last connections linger; port_shared lets
 * siblings have the same port. */
static int bind_socket(struct sockaddr_storage *address, bool address_shared, bool port_shared, struct mg_buf *error)
{
  int yes = 1;
  socklen_t size = sizeof *address;
  int fd = socket(address->ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return explain(address, errno, error);
  if ((address_shared && setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) != 0) ||
      (port_shared && setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &yes, sizeof yes) != 0) ||
      bind(fd, (const struct sockaddr *)address, address_size(address)) != 0 ||
      getsockname(fd, (struct sockaddr *)address, &size) != 0) {
    explain(address, errno, error);
    close(fd);
    return -1;
  }
  return fd;
}

int mg_listen_probe(const struct sockaddr_storage *address, struct mg_buf *error)
{
  struct sockaddr_storage copy = *address;
  int fd = bind_socket(&copy, true, false, error);
  if (fd < 0) return -1;
  /* listen() repeats the kernel's check without the leniency of SO_REUSEADDR: a neighbour between its bind and its
   * listen shows. */
  int code = listen(fd, 1) == 0 ? 0 : errno;
  close(fd);
  return code ? explain(address, code, error) : 0;
}

int mg_listen_open(struct sockaddr_storage *address, int backlog, struct mg_buf *error)
{
  int fd = bind_socket(address, true, true, error);
  if (fd >= 0 && listen(fd, backlog) != 0) {
    explain(address, errno, error);
    close(fd);
    return -1;
  }
  return fd;
}

int mg_listen_alone(struct sockaddr_storage *address, struct mg_buf *error)
{
  int fd = bind_socket(address, true, false, error);
  if (fd >= 0 && listen(fd, SOMAXCONN) != 0) {
    explain(address, errno, error);
    close(fd);
    return -1;
  }
  return fd;
}
