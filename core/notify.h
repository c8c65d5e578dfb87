/* notify.h - what a service manager wants to hear: sd_notify(3) over $NOTIFY_SOCKET. Without that variable nothing is
 * sent. Thread: the loop thread. */
#pragma once

#include <uv.h>

/** Sends assignments ("READY=1\nSTATUS=serving"), one a line. What cannot be sent is lost: a manager that does not
 * listen is no reason to stop serving. */
__attribute__((format(printf, 1, 2))) void mg_notify(const char *format, ...);

/** RELOADING=1 with the time that systemd wants beside it. */
void mg_notify_reloading(void);

/** Sends WATCHDOG=1 from timer (to be closed by the caller) twice as often as the manager wants it, if it does. */
void mg_notify_watchdog(uv_loop_t *loop, uv_timer_t *timer);
