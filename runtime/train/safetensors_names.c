/* By which names a file holds what a model calls otherwise. In: the model's names below one of its modules.
   Out: as they are, with the path of the module in front (a file of the whole model), or without their
   first component (a file of the base model of a model with a head): whichever finds most. */
#include "safetensors.h"
#include <string.h>

bool ddp_safetensors_is(const DdpSafeNames *n, const char *model, const char *file) {
  switch (n->how) {
  case DDP_NAMES_as_they_are:
    break;
  case DDP_NAMES_below:
    if (strncmp(file, n->prefix, n->length) != 0 || file[n->length] != '.') return false;
    file += n->length + 1;
    break;
  case DDP_NAMES_without:
    if (strncmp(model, n->prefix, n->length) != 0 || model[n->length] != '.') return false;
    model += n->length + 1;
    break;
  }
  return strcmp(model, file) == 0;
}

int ddp_safetensors_find_as(const DdpSafeFile *f, const DdpSafeNames *n, const char *name) {
  for (int i = 0; i < ddp_safetensors_count(f); i++) {
    if (ddp_safetensors_is(n, name, ddp_safetensors_name(f, i))) return i;
  }
  return -1;
}

static bool ends(const char *name, const char *end) {
  size_t n = strlen(name), e = strlen(end);
  return n >= e && strcmp(name + n - e, end) == 0;
}

/* Constants that older releases of transformers wrote as if they were weights. */
static bool is_constant(const DdpSafeEntry *e) {
  static const char *const names[] = {".attn.masked_bias", "position_ids", "rotary_emb.inv_freq"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    if (ends(e->name, names[i])) return true;
  }
  return e->rank == 4 && ends(e->name, ".attn.bias");
}

bool ddp_safetensors_beside(const DdpSafeFile *f, const DdpSafeNames *n, int i) {
  DdpSafeEntry e = ddp_safetensors_entry(f, i);
  bool below = strncmp(e.name, n->prefix, n->length) == 0 && e.name[n->length] == '.';
  return is_constant(&e) || (n->how == DDP_NAMES_below && !below);
}

static int hits(const DdpSafeFile *f, const DdpSafeNames *n, const char *const *names, int count) {
  int found = 0;
  for (int i = 0; i < count; i++) found += ddp_safetensors_find_as(f, n, names[i]) >= 0;
  return found;
}

DdpSafeNames ddp_safetensors_names(const DdpSafeFile *f, const char *const *names, int count,
                                   const char *path) {
  DdpSafeNames best = {DDP_NAMES_as_they_are, "", 0}, other;
  int most = hits(f, &best, names, count);
  if (most == count) return best;
  if (*path) {
    other = (DdpSafeNames){DDP_NAMES_below, path, strlen(path)};
    int found = hits(f, &other, names, count);
    if (found > most) most = found, best = other;
  }
  other = (DdpSafeNames){DDP_NAMES_without, "", 0};
  for (int i = 0; i < count; i++) {
    size_t first = strcspn(names[i], ".");
    bool same = first == other.length && strncmp(names[i], other.prefix, first) == 0;
    if (!names[i][first] || same) continue;
    other = (DdpSafeNames){DDP_NAMES_without, names[i], first};
    int found = hits(f, &other, names, count);
    if (found > most) most = found, best = other;
  }
  return best;
}
