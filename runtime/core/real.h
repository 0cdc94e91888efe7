/* Floats as text, the way Python's repr writes them: the fewest digits that read back as the same double,
   always with a point or an exponent, so that a reader sees that it is a float. */
#ifndef DDP_CORE_REAL_H
#define DDP_CORE_REAL_H

enum { DDP_REAL_TEXT = 40 };
/* v must be finite. Returns text. */
const char *ddp_real_text(double v, char text[DDP_REAL_TEXT]);
#endif
