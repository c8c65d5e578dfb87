/* timer.c - the timer wheel of timer.h.
 * Owns: the wheel's uv_timer.   May call: libuv.   Never: allocate.   Thread: the loop's. */
#include "timer.h"

#include "log.h"

static void unlink_timer(struct mg_timer *timer)
{
  timer->previous->next = timer->next;
  timer->next->previous = timer->previous;
  timer->next = timer->previous = NULL;
}

static void link_timer(struct mg_wheel *wheel, struct mg_timer *timer)
{
  uint64_t tick = (timer->deadline_ms + MG_TICK_MS - 1) / MG_TICK_MS;
  if (tick <= wheel->tick) tick = wheel->tick + 1;
  if (tick >= wheel->tick + MG_WHEEL_SLOTS) tick = wheel->tick + MG_WHEEL_SLOTS - 1; /* looked at again then */
  struct mg_timer *head = &wheel->slots[tick % MG_WHEEL_SLOTS];
  timer->slot_tick = tick;
  timer->next = head;
  timer->previous = head->previous;
  head->previous->next = timer;
  head->previous = timer;
}

static void run_slot(struct mg_wheel *wheel, uint64_t now_ms)
{
  struct mg_timer *head = &wheel->slots[wheel->tick % MG_WHEEL_SLOTS];
  struct mg_timer due = {.next = &due, .previous = &due};
  if (head->next == head) return;
  /* Taken out whole first: what fires may set timers, also into this slot one round later. */
  due.next = head->next;
  due.previous = head->previous;
  due.next->previous = &due;
  due.previous->next = &due;
  head->next = head->previous = head;
  while (due.next != &due) {
    struct mg_timer *timer = due.next;
    unlink_timer(timer);
    if (!timer->deadline_ms) continue;
    if (timer->deadline_ms > now_ms) {
      link_timer(wheel, timer);
    } else {
      timer->deadline_ms = 0;
      timer->fire(timer);
    }
  }
}

static void on_tick(uv_timer_t *clock)
{
  struct mg_wheel *wheel = clock->data;
  uint64_t now_ms = uv_now(clock->loop);
  uint64_t now_tick = now_ms / MG_TICK_MS;
  if (now_tick - wheel->tick > MG_WHEEL_SLOTS)
    wheel->tick = now_tick - MG_WHEEL_SLOTS; /* after a long stop: every slot once */
  while (wheel->tick < now_tick) {
    wheel->tick++;
    run_slot(wheel, now_ms);
  }
}

void mg_wheel_open(struct mg_wheel *wheel, uv_loop_t *loop)
{
  for (unsigned i = 0; i < MG_WHEEL_SLOTS; i++) wheel->slots[i].next = wheel->slots[i].previous = &wheel->slots[i];
  uv_timer_init(loop, &wheel->clock);
  wheel->clock.data = wheel;
  wheel->tick = uv_now(loop) / MG_TICK_MS;
  uv_timer_start(&wheel->clock, on_tick, MG_TICK_MS, MG_TICK_MS);
}

void mg_wheel_close(struct mg_wheel *wheel, uv_close_cb closed)
{
  uv_close((uv_handle_t *)&wheel->clock, closed);
}

void mg_timer_init(struct mg_timer *timer, void (*fire)(struct mg_timer *timer))
{
  *timer = (struct mg_timer){.fire = fire};
}

void mg_timer_set_at(struct mg_wheel *wheel, struct mg_timer *timer, uint64_t deadline_ms)
{
  MG_ASSERT(deadline_ms);
  timer->deadline_ms = deadline_ms;
  if (timer->next) {
    if (timer->slot_tick * MG_TICK_MS <= deadline_ms + MG_TICK_MS) return; /* its slot comes up early enough */
    unlink_timer(timer);
  }
  link_timer(wheel, timer);
}

void mg_timer_set(struct mg_wheel *wheel, struct mg_timer *timer, uint64_t milliseconds)
{
  mg_timer_set_at(wheel, timer, uv_now(wheel->clock.loop) + milliseconds);
}

void mg_timer_remove(struct mg_timer *timer)
{
  timer->deadline_ms = 0;
  if (timer->next) unlink_timer(timer);
}
