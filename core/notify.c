/* notify.c - datagrams to the service manager.
 * Owns: nothing; a socket per message.   May call: libuv, libc.   Never: wait, fail.   Thread: the loop thread. */
#include "notify.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

enum { MESSAGE_SIZE = 1024 };

static void send_text(const char *path, const char *text, size_t len)
{
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  size_t path_len = strlen(path);
  if (path_len >= sizeof address.sun_path) return;
  memcpy(address.sun_path, path, path_len);
  if (*path == '@') address.sun_path[0] = '\0'; /* the abstract namespace */
  int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return;
  socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + path_len);
  sendto(fd, text, len, MSG_NOSIGNAL, (const struct sockaddr *)&address, size);
  close(fd);
}

void mg_notify(const char *format, ...)
{
  const char *path = getenv("NOTIFY_SOCKET");
  char text[MESSAGE_SIZE];
  if (!path || (*path != '/' && *path != '@')) return;
  va_list args;
  va_start(args, format);
  int len = vsnprintf(text, sizeof text, format, args);
  va_end(args);
  if (len > 0) send_text(path, text, (size_t)len < sizeof text ? (size_t)len : sizeof text - 1);
}

void mg_notify_reloading(void)
{
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  mg_notify("RELOADING=1\nMONOTONIC_USEC=%lld", (long long)now.tv_sec * 1000000 + now.tv_nsec / 1000);
}

static void on_watchdog(uv_timer_t *timer)
{
  (void)timer;
  mg_notify("WATCHDOG=1");
}

static uint64_t watchdog_ms(void)
{
  const char *pid = getenv("WATCHDOG_PID"), *limit = getenv("WATCHDOG_USEC");
  if (!limit || (pid && strtol(pid, NULL, 10) != (long)getpid())) return 0;
  uint64_t us = strtoull(limit, NULL, 10);
  return us / 2000;
}

void mg_notify_watchdog(uv_loop_t *loop, uv_timer_t *timer)
{
  uint64_t interval = watchdog_ms();
  uv_timer_init(loop, timer);
  if (interval) uv_timer_start(timer, on_watchdog, interval, interval);
}
