/* Which fields a source can fill. In: the fields of a dataset and the arguments of a source. Out: true, or a
   report that says what the source has. What only the files know is compared when they are read. */
#include "diag.h"
#include "op.h"
#include "data_source.h"
#include <string.h>

static bool wrong_field(const Field *f, const char *source, const char *has) {
  diag_report(DIAG_E0803, f->at, "`%s` cannot fill the field `%s`: it has %s", source, f->name,
              has);
  return false;
}

static bool no_field(const Field *f, const Expr *x, const char *source, const char *has) {
  diag_report(DIAG_E0802, x->span, "`%s` has no field `%s`", source, f->name);
  diag_note(f->at, "declared here");
  diag_help("%s", has);
  return false;
}

/* [grouped, dims...] of uint8 */
static bool is_bytes(const SourceBuild *b, const Field *f, const int64_t *dims, int rank) {
  int front = b->grouped ? 1 : 0;
  if (f->text || f->type.dtype != DT_u8 || f->type.rank != rank + front) return false;
  if (front && f->type.dim[0].fixed != b->grouped) return false;
  for (int i = 0; i < rank; i++) {
    if (dims[i] && f->type.dim[i + front].fixed != dims[i]) return false;
  }
  return true;
}

static bool is_label(const SourceBuild *b, const Field *f) {
  return !f->text && f->type.rank == (b->grouped ? 1 : 0) && dtype_category(f->type.dtype) == 'i';
}

static bool fits_images(SourceBuild *b, const Expr *x, const char *source, int64_t size,
                        const char *image, const char *const *labels, const char *has) {
  bool ok = true;
  for (uint32_t i = 0; i < b->d->fields.len; i++) {
    const Field *f = &b->d->fields.at[i];
    bool label = false;
    for (int k = 0; labels[k]; k++) label |= !strcmp(f->name, labels[k]);
    if (f->type.dtype == DT_COUNT) continue;
    if (!strcmp(f->name, "image"))
      ok &= is_bytes(b, f, (int64_t[]){3, size, size}, 3) || wrong_field(f, source, image);
    else if (label)
      ok &= is_label(b, f) || wrong_field(f, source, "an integer, the label");
    else
      ok &= no_field(f, x, source, has);
  }
  return ok;
}

bool fits_cifar(SourceBuild *b, const Given *g, const Expr *x) {
  static const char *const labels[] = {"label", "coarse_label", "fine_label", NULL};
  (void)g;
  bool ten = false, hundred = false;
  for (uint32_t i = 0; i < b->d->fields.len; i++) {
    ten |= !strcmp(b->d->fields.at[i].name, labels[0]);
    hundred |= strstr(b->d->fields.at[i].name, "_label") != NULL;
  }
  const char *has = "CIFAR-10 has `image` and `label`, CIFAR-100 `image`, `coarse_label` and "
                    "`fine_label`";
  bool ok = fits_images(b, x, "cifar_bin", 32, "uint8[3, 32, 32], the image", labels, has);
  if (!ok || !ten || !hundred) return ok;
  diag_report(DIAG_E0802, x->span, "no file of `cifar_bin` has `label` and two others");
  diag_help("%s", has);
  return false;
}

bool fits_folder(SourceBuild *b, const Given *g, const Expr *x) {
  const char *has = g[1].arg ? arena_printf(b->a->arena, "uint8[3, %lld, %lld], the image",
                                            (long long)g[1].n, (long long)g[1].n)
                             : "uint8[3, H, W], the image";
  static const char *const labels[] = {"label", NULL};
  return fits_images(b, x, "image_folder", g[1].n, has, labels, "it has `image` and `label`");
}

bool fits_windows(SourceBuild *b, const Given *g, const Expr *x) {
  if (!b->d->sources.at[g[0].source].stream) {
    diag_report(DIAG_E0501, g[0].arg->value->span,
                "`windows` cuts samples from a row of tokens, such as `token_bin(...)`");
    return false;
  }
  for (uint32_t i = 0; i < b->d->fields.len; i++) {
    const Field *f = &b->d->fields.at[i];
    bool row = !f->text && f->type.rank == 1 && dtype_category(f->type.dtype) == 'i';
    if (f->type.dtype == DT_COUNT) continue;
    if (i) return no_field(f, x, "windows", "the windows are one field");
    if (!row) return wrong_field(f, "windows", "a row of integers, such as `uint16[1025]`");
  }
  return true;
}

/* The type of the field says how wide a token is in the file. */
bool fits_tokens(SourceBuild *b, const Given *g, const Expr *x) {
  (void)g;
  (void)x;
  const Field *f = b->d->fields.len ? &b->d->fields.at[0] : NULL;
  bool whole = f && f->type.dtype != DT_COUNT && dtype_category(f->type.dtype) == 'i';
  if (!whole || (f->stored <= 4 && !f->negative)) return true;
  return wrong_field(f, "token_bin", "tokens of type uint8, uint16, uint32 or int32");
}

bool fits_numbers(SourceBuild *b, const Given *g, const Expr *x) {
  (void)g;
  (void)x;
  for (uint32_t i = 0; i < b->d->fields.len; i++) {
    const Field *f = &b->d->fields.at[i];
    if (f->text) return wrong_field(f, "this source", "numbers of one shape");
    if (f->ragged) return wrong_field(f, "this source", "one shape for all samples");
  }
  return true;
}

/* Even numbers need to know between what. */
bool fits_synthetic(SourceBuild *b, const Given *g, const Expr *x) {
  if (!fits_numbers(b, g, x)) return false;
  for (uint32_t i = 0; i < b->d->fields.len; i++) {
    const Field *f = &b->d->fields.at[i];
    bool open = f->type.dtype == DT_i32 || f->type.dtype == DT_i64;
    if (!open || f->has_range) continue;
    diag_report(DIAG_E0803, f->at, "`synthetic` needs the range of the whole numbers of `%s`",
                f->name);
    diag_help("for example `in 0..100`");
    return false;
  }
  return true;
}
