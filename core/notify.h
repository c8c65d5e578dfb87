/* notify.h - what a service manager wants to hear: sd_notify(3) over $NOTIFY_SOCKET. Without that variable nothing is
 * sent. Thread: the loop thread. */
#pragma once

#include <stdint.h>

/** Sends assignments ("READY=1\nSTATUS=serving"), one a line. What cannot be sent is lost: a manager that does not
 * listen is no reason to stop serving. */
__attribute__((format(printf, 1, 2))) void mg_notify(const char *format, ...);

/** RELOADING=1 with the time that systemd wants beside it. */
void mg_notify_reloading(void);

/** How often WATCHDOG=1 is to be sent: half of what the manager waits. 0: it does not. */
uint64_t mg_notify_watchdog_ms(void);
