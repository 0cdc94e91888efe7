/* The op table as documentation: ops_page prints it; ops_page FILE fails unless FILE ends with it. */
#include "ops.h"
#include <stdio.h>
#include <string.h>

int main(int argc, char **argv) {
  Text table = {0};
  ops_print_table(&table);
  if (argc < 2) {
    fputs(table.at, stdout);
    return 0;
  }
  uint32_t file = source_read(argv[1]);
  if (!file) {
    perror(argv[1]);
    return 2;
  }
  const Source *page = source_get(file);
  if (page->length >= table.len && !strcmp(page->text + page->length - table.len, table.at))
    return 0;
  printf("%s does not end with the op table; replace its last table by this:\n%s", argv[1],
         table.at);
  return 1;
}
