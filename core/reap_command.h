/* reap_command.h - `moongate reap`.   Thread: the main thread. */
#pragma once

int mg_reap_main(int argc, char **argv);
