/* resolve.c - target keys to addresses in shared memory.
 * Owns: one entry per name ever wanted, its running look-up, two timers.
 * May call: mem, log, shm, libuv.   Never: connect.   Thread: the loop thread.   Ends: mg_resolver_close(). */
#include "resolve.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/un.h>

#include "log.h"

enum { HANDLES = 2 };

struct name {
  struct name *next;
  struct mg_resolver *resolver;
  struct mg_target_cell *cell;
  uv_getaddrinfo_t request;
  char host[256];
  unsigned port;
  bool kept;    /* refreshed every interval */
  bool running; /* request is out */
  bool awaited; /* the wanting call waits for it */
  bool failing; /* said so; not again until it answers */
};

struct mg_resolver {
  uv_loop_t *loop;
  struct mg_shm *shm;
  struct name *names;
  uv_timer_t refresh;
  uv_timer_t patience;
  uint64_t interval_ms;
  unsigned awaited;
  void (*done)(void *context);
  void *context;
  unsigned running;
  unsigned handles;
  bool closing;
};

static bool next_line(struct mg_str *text, struct mg_str *line)
{
  while (text->len && text->ptr[0] == '\n') *text = mg_str(text->ptr + 1, text->len - 1);
  if (!text->len) return false;
  const char *end = memchr(text->ptr, '\n', text->len);
  size_t len = end ? (size_t)(end - text->ptr) : text->len;
  *line = mg_str(text->ptr, len);
  *text = mg_str(text->ptr + len, text->len - len);
  return true;
}

bool mg_resolver_split(struct mg_str key, struct mg_str *host, unsigned *port)
{
  size_t colon = key.len;
  while (colon > 0 && key.ptr[colon - 1] != ':') colon--;
  if (colon < 2 || colon == key.len || key.len - colon > 5) return false;
  unsigned number = 0;
  for (size_t i = colon; i < key.len; i++) {
    if (key.ptr[i] < '0' || key.ptr[i] > '9') return false;
    number = number * 10 + (unsigned)(key.ptr[i] - '0');
  }
  *host = mg_str(key.ptr, colon - 1);
  bool bracketed = host->len > 2 && host->ptr[0] == '[' && host->ptr[host->len - 1] == ']';
  if (bracketed) *host = mg_str(host->ptr + 1, host->len - 2);
  if (!bracketed && memchr(host->ptr, ':', host->len)) return false; /* an IPv6 literal needs its brackets */
  *port = number;
  return number >= 1 && number <= 65535 && host->len < sizeof((struct name *)0)->host;
}

static bool unix_literal(struct mg_str key, struct sockaddr_storage *address)
{
  struct sockaddr_un *local = (struct sockaddr_un *)address;
  struct mg_str path = mg_str(key.ptr + 5, key.len - 5);
  if (path.len == 0 || path.len >= sizeof local->sun_path) return false;
  local->sun_family = AF_UNIX;
  memcpy(local->sun_path, path.ptr, path.len);
  return true;
}

bool mg_resolver_literal(struct mg_str key, struct sockaddr_storage *address)
{
  char text[256];
  struct mg_str host;
  unsigned port;
  memset(address, 0, sizeof *address);
  if (key.len > 5 && memcmp(key.ptr, "unix:", 5) == 0) return unix_literal(key, address);
  if (!mg_resolver_split(key, &host, &port)) return false;
  snprintf(text, sizeof text, "%.*s", (int)host.len, host.ptr);
  struct sockaddr_in *v4 = (struct sockaddr_in *)address;
  struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)address;
  if (inet_pton(AF_INET, text, &v4->sin_addr) == 1) {
    v4->sin_family = AF_INET;
    v4->sin_port = htons((uint16_t)port);
    return true;
  }
  if (inet_pton(AF_INET6, text, &v6->sin6_addr) == 1) {
    v6->sin6_family = AF_INET6;
    v6->sin6_port = htons((uint16_t)port);
    return true;
  }
  return false;
}

/* Copies what getaddrinfo found, each address once, with the target's port; returns how many. */
static unsigned collect(const struct addrinfo *found, unsigned port,
                        struct sockaddr_storage out[MG_TARGET_ADDRESSES_MAX])
{
  unsigned count = 0;
  for (; found && count < MG_TARGET_ADDRESSES_MAX; found = found->ai_next) {
    struct sockaddr_storage one;
    memset(&one, 0, sizeof one);
    if (found->ai_family != AF_INET && found->ai_family != AF_INET6) continue;
    memcpy(&one, found->ai_addr, found->ai_addrlen);
    if (found->ai_family == AF_INET)
      ((struct sockaddr_in *)&one)->sin_port = htons((uint16_t)port);
    else
      ((struct sockaddr_in6 *)&one)->sin6_port = htons((uint16_t)port);
    bool known = false;
    for (unsigned i = 0; i < count; i++) known = known || memcmp(&out[i], &one, sizeof one) == 0;
    if (!known) out[count++] = one;
  }
  return count;
}

static void publish(struct name *name, const struct sockaddr_storage *addresses, unsigned count)
{
  struct sockaddr_storage before[MG_TARGET_ADDRESSES_MAX];
  unsigned before_count = mg_target_addresses(name->cell, before);
  if (before_count == count && memcmp(before, addresses, count * sizeof *addresses) == 0) return;
  mg_target_publish(name->cell, addresses, count);
  if (before_count) mg_log(MG_LOG_INFO, "%s has %u new address%s", name->cell->key, count, count == 1 ? "" : "es");
}

static void finish_want(struct mg_resolver *resolver)
{
  uv_timer_stop(&resolver->patience);
  for (struct name *name = resolver->names; name; name = name->next) name->awaited = false;
  resolver->awaited = 0;
  void (*done)(void *) = resolver->done;
  resolver->done = NULL;
  if (done) done(resolver->context);
}

static void free_when_idle(struct mg_resolver *resolver)
{
  if (!resolver->closing || resolver->running || resolver->handles) return;
  while (resolver->names) {
    struct name *name = resolver->names;
    resolver->names = name->next;
    free(name);
  }
  free(resolver);
}

static void on_answer(uv_getaddrinfo_t *request, int status, struct addrinfo *found)
{
  struct name *name = request->data;
  struct mg_resolver *resolver = name->resolver;
  name->running = false;
  resolver->running--;
  if (resolver->closing) {
    uv_freeaddrinfo(found);
    free_when_idle(resolver);
    return;
  }
  struct sockaddr_storage addresses[MG_TARGET_ADDRESSES_MAX];
  unsigned count = status == 0 ? collect(found, name->port, addresses) : 0;
  uv_freeaddrinfo(found);
  if (count) {
    publish(name, addresses, count);
    name->failing = false;
  } else if (!name->failing) {
    mg_log(MG_LOG_WARN, "%s does not resolve (%s); %s", name->cell->key, status ? uv_strerror(status) : "no address",
           name->cell->address_count ? "its last addresses stay" : "requests for it are refused until it does");
    name->failing = true;
  }
  if (!name->awaited) return;
  name->awaited = false;
  if (--resolver->awaited == 0) finish_want(resolver);
}

static bool look_up(struct name *name)
{
  struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
  if (name->running) return true;
  name->request.data = name;
  if (uv_getaddrinfo(name->resolver->loop, &name->request, on_answer, name->host, NULL, &hints) != 0) return false;
  name->running = true;
  name->resolver->running++;
  return true;
}

static void on_refresh(uv_timer_t *timer)
{
  struct mg_resolver *resolver = timer->data;
  for (struct name *name = resolver->names; name; name = name->next)
    if (name->kept) look_up(name);
}

static void on_patience_over(uv_timer_t *timer)
{
  finish_want(timer->data);
}

struct mg_resolver *mg_resolver_open(uv_loop_t *loop, struct mg_shm *shm, uint64_t interval_ms)
{
  struct mg_resolver *resolver = mg_calloc(1, sizeof *resolver);
  *resolver = (struct mg_resolver){.loop = loop, .shm = shm, .interval_ms = interval_ms, .handles = HANDLES};
  uv_timer_init(loop, &resolver->refresh);
  uv_timer_init(loop, &resolver->patience);
  resolver->refresh.data = resolver->patience.data = resolver;
  if (interval_ms) uv_timer_start(&resolver->refresh, on_refresh, interval_ms, interval_ms);
  return resolver;
}

static struct name *find_name(const struct mg_resolver *resolver, const struct mg_target_cell *cell)
{
  struct name *name = resolver->names;
  while (name && name->cell != cell) name = name->next;
  return name;
}

static struct name *add_name(struct mg_resolver *resolver, struct mg_target_cell *cell, struct mg_str host,
                             unsigned port)
{
  struct name *name = mg_calloc(1, sizeof *name);
  name->resolver = resolver;
  name->cell = cell;
  name->port = port;
  snprintf(name->host, sizeof name->host, "%.*s", (int)host.len, host.ptr);
  name->next = resolver->names;
  resolver->names = name;
  return name;
}

static int want_one(struct mg_resolver *resolver, struct mg_str key, struct mg_buf *error)
{
  struct sockaddr_storage address;
  struct mg_str host;
  unsigned port;
  struct mg_target_cell *cell = mg_shm_target(resolver->shm, key);
  if (!cell) {
    mg_buf_printf(error, "too many upstream targets since the start: no room for %.*s", (int)key.len, key.ptr);
    return -1;
  }
  if (mg_resolver_literal(key, &address)) {
    if (cell->address_count == 0) mg_target_publish(cell, &address, 1);
    return 0;
  }
  if (!mg_resolver_split(key, &host, &port)) {
    mg_buf_printf(error, "\"%.*s\" is not an upstream address", (int)key.len, key.ptr);
    return -1;
  }
  struct name *name = find_name(resolver, cell);
  if (!name) name = add_name(resolver, cell, host, port);
  if (cell->address_count || name->awaited || !look_up(name)) return 0;
  name->awaited = true;
  resolver->awaited++;
  return 0;
}

int mg_resolver_want(struct mg_resolver *resolver, struct mg_str targets, uint64_t wait_ms, void (*done)(void *context),
                     void *context, struct mg_buf *error)
{
  MG_ASSERT(!resolver->done);
  struct mg_str key;
  while (next_line(&targets, &key)) {
    if (want_one(resolver, key, error) == 0) continue;
    finish_want(resolver);
    return -1;
  }
  resolver->done = done;
  resolver->context = context;
  uv_timer_start(&resolver->patience, on_patience_over, resolver->awaited ? wait_ms : 0, 0);
  return 0;
}

void mg_resolver_keep(struct mg_resolver *resolver, struct mg_str targets)
{
  struct mg_str key;
  for (struct name *name = resolver->names; name; name = name->next) name->kept = false;
  while (next_line(&targets, &key)) {
    struct name *name = find_name(resolver, mg_shm_find_target(resolver->shm, key));
    if (name) name->kept = true;
  }
}

static void on_timer_closed(uv_handle_t *handle)
{
  struct mg_resolver *resolver = handle->data;
  resolver->handles--;
  free_when_idle(resolver);
}

void mg_resolver_close(struct mg_resolver **resolver_at)
{
  struct mg_resolver *resolver = *resolver_at;
  *resolver_at = NULL;
  if (!resolver) return;
  resolver->closing = true;
  for (struct name *name = resolver->names; name; name = name->next)
    if (name->running) uv_cancel((uv_req_t *)&name->request);
  uv_close((uv_handle_t *)&resolver->refresh, on_timer_closed);
  uv_close((uv_handle_t *)&resolver->patience, on_timer_closed);
}
