/* Inside emit/: one kernel of a device that is being written (nest_cuda.c), the walks over its loops
   (nest_pass.c), and sums that several blocks or teams keep (nest_parts.c). */
#ifndef EMIT_NEST_DEVICE_H
#define EMIT_NEST_DEVICE_H
#include "launch.h"

/* What becomes of a root where its loops are walked. */
typedef struct DeviceRoot {
  bool reduced;    /* inside a thread, over the loops of the path behind those that are spread */
  bool team;       /* over the threads of the team */
  bool over_rows;  /* and over all rows */
  bool alike;      /* all threads of the team hold the same sum over rows */
  int held;        /* sums over rows that a thread holds in an array; 0: one, or none */
  bool in_parts;   /* is added up by a second kernel */
  bool parts_hold; /* the sums over rows lie in scratch at once: too many for a thread */
  int64_t offset;  /* of its parts in scratch */
  const char
      *neighbours;      /* stores of several elements at once: where they are collected, or NULL */
  const char *acc, *at; /* accumulator; position (argmax) */
  const char *total, *part; /* the sum over rows of this thread; the part of this team or block */
} DeviceRoot;

typedef struct Device {
  Body b;
  const Kernel *k;
  const Piece *piece;
  bool many;           /* the nest is several pieces: values per row go through scratch */
  const Pass *pass;    /* being written */
  DeviceRoot *root;    /* by root */
  const char *thread;  /* number of the thread in its team; NULL: it is alone */
  const char *element; /* number of the element that is spread */
  const char *turn;    /* and which one of the thread's it is: "u / 32" */
  size_t name_at;      /* neighbours: where their loop is named in the text */
  size_t element_at;   /* where the element is */
  /* arrays of a thread (nest_keep.c): that a load or a store leaves its numbers in, and that a load is taken from */
  const char **keep_load, **kept_load; /* by NestTemp */
  const char **keep_store;             /* by root */
  bool *unread; /* by root: nobody reads its memory, now that its array is there */
  uint32_t n_kept;
  VEC(Val) read, written; /* memory since the last barrier of the team */
} Device;

/* ---------- nest_pass.c ---------- */
const char *device_index_type(const Body *b);
/* "(64 * B)" of the loops from..to of the path, as a factor; and "64 * B", to compare with. */
const char *device_bound(Device *d, const LoopPath *path, uint32_t from, uint32_t to);
const char *device_extent(Device *d, const LoopPath *path, uint32_t from, uint32_t to);
/* The loops from..to of the path from the number `at` of an element. */
void device_unflatten(Device *d, const LoopPath *path, uint32_t from, uint32_t to, const char *at);
void device_open(Device *d, const char *format, ...) __attribute__((format(printf, 2, 3)));
void device_close(Device *d);
void device_plan_pass(Device *d, const Pass *pass);
void device_begin(Device *d, uint32_t root); /* its accumulator */
/* A value per row in scratch, where the nest is several pieces. */
const char *device_slot(Device *d, uint32_t root, bool read);
/* The value of a root is complete: where it goes. */
void device_leave(Device *d, uint32_t root, const char *value);
/* The pass of a team, with its rows open. */
void device_team_pass(Device *d, const Pass *pass);
/* A thread for each element of what the pass spreads. */
void device_grid_pass(Device *d, const Pass *pass);

/* ---------- nest_once.c ---------- */
/* Scalars that one thread of a block computes for all, at the beginning of the kernel. */
void device_once(Device *d);

/* ---------- nest_vector.c ---------- */
/* Of how many neighbours a thread can take care at once; 1: of none. */
int vector_of(const Program *p, const Nest *n, const Pass *pass);
bool vector_loads(const Device *d, const Inst *x, const Pass *pass);
bool vector_stores(const Device *d, uint32_t root, const Pass *pass);
/* Takes the line at `place` away where nothing behind it needs the name: that would be a warning. */
void vector_drop_name(Device *d, size_t place, const char *name);
/* Around the statements of the neighbours from `first` on. */
void vector_open(Device *d, const char *first);
void vector_close(Device *d, const char *first);

/* ---------- nest_keep.c ---------- */
void keep_plan(Device *d);
/* Arrays that the pass fills. */
void keep_declare(Device *d);
/* Which element of the arrays it is: "u / 128". */
const char *keep_turn(const Device *d);
/* Where there are no neighbours: a store that is kept; the loads of a turn that are kept, or were. */
void keep_stored(Device *d, uint32_t root, const char *value);
void keep_single(Device *d);

/* ---------- nest_parts.c ---------- */
/* Where the parts of sums lie in scratch, from `offset` on. Returns the end. */
int64_t device_place_parts(Device *d, int64_t offset);
/* Pointers to the parts of this team or block and sums over rows, at the beginning of the kernel. */
void device_declare_parts(Device *d);
/* Sums over rows into the parts, at the end of the kernel. */
void device_write_parts(Device *d);
/* The body of the kernel that adds the parts up; d is that of the first kernel, with its own operands. */
void device_add_parts(Device *d);
/* Elements that the sums keep, the most of all at the largest batch; 0: there are no parts. */
int64_t device_parts_width(const Device *d);
/* Numbers of shared memory in which the teams of a block add their sums over rows up; 0: it is one team. */
int64_t device_shared_width(const Device *d);
/* `__shared__ float shared_float[n];` for the types of roots that `which` chooses. */
void device_shared(Device *d, int n, bool (*which)(const DeviceRoot *));
#endif
