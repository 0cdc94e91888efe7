/* save_on_each_node. In: who shares a host with whom, and whether hosts share a file system. Out: which ranks
   write checkpoints and weights: rank 0, and the first rank of every other host into its own output_dir, the
   same bytes. A host that sees rank 0's folder has these files already. */
#include "file.h"
#include "log.h"
#include "manifest.h"
#include "rendezvous.h"
#include "run.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

bool run_copies(const DdpRun *r) {
  return r->set->save_on_each_node == 1 && r->world > 1;
}

/* Is no rank below this one on the same host? */
static DdpError *first_of_host(DdpRun *r, bool *first) {
  DdpPeer peer;
  memset(&peer, 0, sizeof peer);
  ddp_host_identity(&peer);
  uint64_t mine = XXH64(peer.host_id, strlen(peer.host_id), 0);
  uint64_t *all = calloc((size_t)r->world, sizeof *all);
  if (!all) return ddp_error(DDP_MEMORY, "out of memory");
  DdpError *error =
      ddp_group_all_gather(r->group, &mine, all, (int64_t)sizeof mine, "the hosts of the ranks");
  *first = true;
  for (int k = 0; k < r->rank; k++) *first = *first && all[k] != mine;
  free(all);
  return error;
}

/* A name that nobody else uses, told by rank 0. */
static DdpError *mark_name(DdpRun *r, char **path) {
  uint64_t number = (uint64_t)getpid();
  if (r->rank == 0 && getrandom(&number, sizeof number, 0) < 0)
    number ^= (uint64_t)time(NULL) << 32;
  DDP_TRY(ddp_group_broadcast(r->group, &number, (int64_t)sizeof number, 0, "the name of a file"));
  if (asprintf(path, "%s/.shared-%016llx", r->output, (unsigned long long)number) >= 0) return NULL;
  *path = NULL;
  return ddp_error(DDP_MEMORY, "out of memory");
}

static DdpError *mark(const DdpRun *r, const char *path) {
  DDP_TRY(ddp_file_make_folder(r->output));
  int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
  if (fd < 0) return ddp_file_error("create", path, errno);
  close(fd);
  return NULL;
}

static DdpError *folder_open(const DdpRun *r) {
  DDP_TRY(ddp_file_make_folder(r->output));
  return ddp_checkpoint_sweep(r->output);
}

DdpError *run_nodes_open(DdpRun *r) {
  bool first = false;
  char *path = NULL;
  if (!run_copies(r)) return NULL;
  DDP_TRY(first_of_host(r, &first));
  DdpError *error = mark_name(r, &path);
  if (!error) error = run_agree(r, r->rank == 0 ? mark(r, path) : NULL, "writing to output_dir");
  bool shared = !error && access(path, F_OK) == 0;
  if (!error && r->rank != 0 && first && shared)
    ddp_log(DDP_LOG_info,
            "save_on_each_node: this host shares '%s' with rank 0's, which writes there",
            r->output);
  r->writes = r->rank == 0 || (first && !shared);
  DdpError *mine = r->writes && r->rank != 0 && !error ? folder_open(r) : NULL;
  if (!error) error = run_agree(r, mine, "making output_dir"); /* all have looked */
  if (r->rank == 0 && path) unlink(path);
  free(path);
  return error;
}

DdpError *run_nodes_state(DdpRun *r, char **text, DdpKeep *keep) {
  struct {
    int64_t bytes;
    DdpKeep keep;
  } told = {.bytes = *text ? (int64_t)strlen(*text) : 0, .keep = *keep};
  DDP_TRY(ddp_group_broadcast(r->group, &told, (int64_t)sizeof told, 0, "what is saved"));
  *keep = told.keep;
  if (r->rank != 0) *text = malloc((size_t)told.bytes + 1);
  DDP_TRY(run_agree(r, *text ? NULL : ddp_error(DDP_MEMORY, "out of memory"), "saving"));
  DDP_TRY(ddp_group_broadcast(r->group, *text, told.bytes, 0, "trainer_state.json"));
  (*text)[told.bytes] = 0;
  return NULL;
}
