/* timer.h - coarse timers for many objects: one wheel per loop, one uv_timer behind it.
 *
 * A timer is moved to a later moment by a store; it is looked at again when its old slot comes up. So a connection
 * that is busy costs no list work. Timers fire at their deadline or up to MG_TICK_MS later.
 * Thread: the loop's. */
#pragma once

#include <stdint.h>
#include <uv.h>

enum { MG_TICK_MS = 50, MG_WHEEL_SLOTS = 1024 };

struct mg_timer {
  struct mg_timer *next, *previous; /* NULL when in no slot */
  uint64_t deadline_ms;             /* uv_now's clock; 0 when off */
  uint64_t slot_tick;
  void (*fire)(struct mg_timer *timer);
};

struct mg_wheel {
  struct mg_timer slots[MG_WHEEL_SLOTS]; /* list heads */
  uint64_t tick;                         /* the last one handled */
  uv_timer_t clock;
};

/** Starts the wheel on loop (borrowed). */
void mg_wheel_open(struct mg_wheel *wheel, uv_loop_t *loop);
/** Stops it; the memory may go when closed has been called. Timers still set are forgotten. */
void mg_wheel_close(struct mg_wheel *wheel, uv_close_cb closed);

void mg_timer_init(struct mg_timer *timer, void (*fire)(struct mg_timer *timer));
/** Fires once, after milliseconds from now; replaces an earlier deadline. */
void mg_timer_set(struct mg_wheel *wheel, struct mg_timer *timer, uint64_t milliseconds);
/** As mg_timer_set with an absolute deadline on uv_now's clock. */
void mg_timer_set_at(struct mg_wheel *wheel, struct mg_timer *timer, uint64_t deadline_ms);
/** Does not fire any more; cheap, for timers that will be set again. */
static inline void mg_timer_off(struct mg_timer *timer)
{
  timer->deadline_ms = 0;
}
/** Takes the timer out of the wheel for good: before its memory goes. */
void mg_timer_remove(struct mg_timer *timer);
