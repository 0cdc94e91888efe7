/* `ddpc backends`: the table of backends, each looked for on this machine by the code that a program would use. */
#include "backend.h"
#include "command.h"
#include "install.h"
#include <stdlib.h>
#include <string.h>

static int as_json(void) {
  json_t *list = json_array();
  for (int i = 0; i < ddp_backend_count; i++) {
    const DdpBackendInfo *b = &ddp_backend_infos[i];
    char missing[4608];
    ddp_backend_missing(b, missing, sizeof missing);
    json_array_append_new(list, json_pack("{s:s, s:s, s:s, s:b, s:s, s:s}", "name", b->name,
                                          "devices", b->devices, "library", b->library, "supported",
                                          !b->later, "missing", missing, "install", b->install));
  }
  return run_write_json(NULL, list);
}

int cmd_backends(Run *r) {
  if (r->options.names.len) {
    options_help(stderr, COMMAND_backends);
    return WRONG_USE;
  }
  const Install *where = install_find(r->arena);
  if (!where) return WRONG_USE;
  setenv("DDP_PLUGIN_DIR", where->plugins, 0);
  if (run_switch(r, OPT_json)) return as_json();
  printf("Between ranks of one host: shared memory, unless runtime { intra_node = backend }.\n"
         "Else, by ddp_backend:\n");
  for (int i = 0; i < ddp_backend_count; i++) {
    const DdpBackendInfo *b = &ddp_backend_infos[i];
    char missing[4608];
    ddp_backend_missing(b, missing, sizeof missing);
    printf("  %-5s %-14s %-15s ", b->name, b->devices, b->library);
    if (!b->later && !*missing)
      printf("works here\n");
    else if (!b->later)
      printf("not here: %s\n", missing);
    else if (*missing)
      printf("not supported yet; here: %s (%s)\n", missing, b->install);
    else
      printf("not supported yet; this machine has what it needs\n");
  }
  return DONE;
}
