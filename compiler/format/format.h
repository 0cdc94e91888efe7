/* The one canonical form of a .ddp text (docs/language.md, "The canonical form"). It holds what the text
   holds: the same tree, the same comments, the same key order; layout and spelling are its own. */
#ifndef FORMAT_FORMAT_H
#define FORMAT_FORMAT_H
#include "arena.h"
#include "ast.h"
#include "text.h"

/* Adds the canonical text of a file that was parsed without errors. Scratch memory from the arena. */
void format_file(Text *out, Arena *arena, const AstFile *file);

/* Adds a unified diff of two texts, three lines of context; nothing when they are equal. */
void format_diff(Text *out, const char *before_name, const char *after_name, const Text *before,
                 const Text *after);
#endif
