/* Files that are never seen half-written: bytes go to a temporary name beside the target, which is
   synced and renamed at commit. Without a commit the temporary file is removed. */
#ifndef DDP_CORE_FILE_H
#define DDP_CORE_FILE_H
#include "ddp/status.h"
#include <stddef.h>

typedef struct DdpFile DdpFile;

DdpError *ddp_file_create(DdpFile **out, const char *path);
/* Errors name path, reason and, on a full disk, what was needed. The first one sticks. */
DdpError *ddp_file_write(DdpFile *f, const void *data, size_t bytes);
/* Sync, rename, sync the folder. Frees f, also on an error. */
DdpError *ddp_file_commit(DdpFile *f);
/* Removes the temporary file. f may be NULL. */
void ddp_file_discard(DdpFile *f);
/* The one or the other: commits, or after an error discards and returns it. */
DdpError *ddp_file_end(DdpFile *f, DdpError *error);

/* Removes the temporary files of all that has not been committed; the process is about to end. Safe
   in a signal handler and from any thread. */
void ddp_file_abandon(void);

/* mkdir -p. */
DdpError *ddp_file_make_folder(const char *path);
/* a/b, b when a is empty or b is absolute; to be freed. */
char *ddp_file_join(const char *a, const char *b);
/* "cannot write 'p': No space left on device ..." for the current errno. */
DdpError *ddp_file_error(const char *doing, const char *path, int error_number);
#endif
