/* tool.h - `moongate journal`: ls, show, find, verify, cat. */
#pragma once

/** argv[0] is "journal". Data on stdout, messages on stderr; exit codes as of every command. */
int mg_journal_main(int argc, char **argv);
