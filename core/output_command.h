/* output_command.h - `moongate journal`, with the outputs as its forms.   Thread: the main thread. */
#pragma once

/** As mg_journal_main (journal/tool.h). */
int mg_output_journal_main(int argc, char **argv);
