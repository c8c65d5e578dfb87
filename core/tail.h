/* tail.h - `moongate tail`.   Thread: the main thread. */
#pragma once

int mg_tail_main(int argc, char **argv);
