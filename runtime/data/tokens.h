/* Rows of tokens: files one behind the other, out of which windows are cut. Texts lie in memory, a byte or
   two for each character; token files stay where they are and are read a window at a time, so that they
   may be larger than memory, and one that gets shorter meanwhile is an error instead of a fault. */
#ifndef DDP_DATA_TOKENS_H
#define DDP_DATA_TOKENS_H
#include "table.h"

typedef struct DdpTokenFile {
  char *path;
  int fd;             /* of a token file; -1: the tokens are in `ids` */
  int64_t offset;     /* of the first token in the file */
  int width;          /* bytes of a token, little-endian: 1, 2, 4 */
  int64_t n;          /* tokens */
  unsigned char *ids; /* or NULL */
} DdpTokenFile;

typedef struct DdpTokenPart { /* neighbouring tokens of one file */
  const DdpTokenFile *file;
  int64_t start, n;
} DdpTokenPart;
typedef struct DdpTokenRow {
  DdpTokenPart *part;
  int32_t parts;
  int64_t n; /* tokens */
} DdpTokenRow;

/* A text: each character becomes its place in the field's categories. */
DdpError *ddp_text_open(DdpTokenFile *out, const char *path, const DdpField *f);
/* Tokens of the source's width; with its header that of llm.c comes first. */
DdpError *ddp_token_bin_open(DdpTokenFile *out, const char *path, const DdpSource *source,
                             const DdpField *f);
void ddp_token_file_close(DdpTokenFile *f);
/* Of number and contents; of large files only pieces are looked at. */
DdpError *ddp_token_file_hash(const DdpTokenFile *f, uint64_t *hash);

/* Tokens start..stop of a row, as a row of its own; to be freed with ddp_token_row_free. */
DdpError *ddp_token_row_slice(const DdpTokenRow *row, int64_t start, int64_t stop,
                              DdpTokenRow *out);
/* Rows one behind the other. */
DdpError *ddp_token_row_join(const DdpTokenRow *const *rows, int32_t n, DdpTokenRow *out);
void ddp_token_row_free(DdpTokenRow *row);
/* n tokens from `start` on, as values of the field; each is checked against its range. */
DdpError *ddp_token_row_copy(const DdpTokenRow *row, int64_t start, int64_t n, const DdpField *f,
                             void *into);

/* ---------- characters ---------- */

/* The whole file, UTF-8, plain or gzip; to be freed. A byte order mark is left out. */
DdpError *ddp_text_load(const char *path, char **text, size_t *n);
enum { DDP_MOST_CHARACTERS = 1 << 16 }; /* different ones */
/* The distinct characters of the files in the order of their numbers; to be freed. */
DdpError *ddp_text_vocabulary(const char *const *paths, int32_t n, uint32_t **characters,
                              int32_t *count);
/* Next character of a text; 0 where it is no UTF-8 (or NUL). *at moves behind it. */
uint32_t ddp_text_next(const char *text, size_t n, size_t *at);
#endif
