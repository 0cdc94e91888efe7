/* The device of a job for GPUs, without a job: opens it as rank LOCAL_RANK of LOCAL_WORLD of this host, for a
   program built for the architectures of the list, says what it is or why not.
     probe LOCAL_RANK LOCAL_WORLD sm_80,sm_90[,ptx_90] [hold]
     probe count
   hold: stays until its input ends. The exit code is the class of the error. */
#include "ddp/cuda.h"
#include "device.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void architectures(char *list, int *sm, DdpTarget *target) {
  int n = 0;
  for (char *word = strtok(list, ","); word; word = strtok(NULL, ",")) {
    if (strncmp(word, "ptx_", 4) == 0)
      target->ptx = atoi(word + 4);
    else
      sm[n++] = atoi(word + 3);
  }
  target->sm = sm;
}

static int end(DdpError *e) {
  puts(e->message);
  return (int)e->klass;
}

int main(int argc, char **argv) {
  int count = 0;
  if (argc == 2 && strcmp(argv[1], "count") == 0) {
    DdpError *e = ddp_device_cuda.count(&count);
    if (e) return end(e);
    printf("%d\n", count);
    return 0;
  }
  if (argc < 4) return DDP_USAGE;
  int sm[16] = {0};
  DdpTarget target = {.name = "cuda", .device = &ddp_device_cuda};
  DdpJob job = {.target = &target};
  architectures(argv[3], sm, &target);
  DdpError *e = ddp_device_cuda.open(&job, atoi(argv[1]), atoi(argv[2]));
  if (e) return end(e);
  puts(ddp_device_cuda.describe());
  fflush(stdout);
  if (argc > 4)
    while (getchar() != EOF) {
    }
  ddp_device_cuda.close();
  return 0;
}
