/* libclang, loaded when the first header is read: most runs of ddpc read none, and loading it takes 20 ms
   and 45 MiB. Included by cimport.c alone. */
#ifndef SEMA_CLANG_API_H
#define SEMA_CLANG_API_H
#include <clang-c/Index.h>
#include <dlfcn.h>

/* clang-format off */
#define CLANG_FUNCTIONS(F) \
  F(Cursor_getArgument) F(Cursor_getNumArguments) F(Cursor_isNull) F(File_isEqual) \
  F(Type_getSizeOf) F(createIndex) F(disposeDiagnostic) F(disposeIndex) F(disposeString) \
  F(disposeTranslationUnit) F(getCString) F(getCanonicalType) F(getCursorDefinition) \
  F(getCursorKind) F(getCursorLocation) F(getCursorResultType) F(getCursorSpelling) \
  F(getCursorType) F(getDiagnostic) F(getDiagnosticLocation) F(getDiagnosticSeverity) \
  F(getDiagnosticSpelling) F(getExpansionLocation) F(getFile) F(getFileName) \
  F(getNumDiagnostics) F(getPointeeType) F(getTranslationUnitCursor) F(getTypeSpelling) \
  F(isConstQualifiedType) F(parseTranslationUnit) F(visitChildren)
/* clang-format on */

static struct {
  void *library;
#define CLANG_MEMBER(name) __typeof__(clang_##name) *name;
  CLANG_FUNCTIONS(CLANG_MEMBER)
#undef CLANG_MEMBER
} clang_api;

static bool clang_load(void) {
  if (clang_api.library) return true;
  clang_api.library = dlopen(DDP_CLANG_LIBRARY, RTLD_NOW | RTLD_LOCAL);
  if (!clang_api.library) clang_api.library = dlopen(DDP_CLANG_NAME, RTLD_NOW | RTLD_LOCAL);
  if (!clang_api.library) return false;
  bool all = true;
#define CLANG_FIND(name)                                                                           \
  *(void **)&clang_api.name = dlsym(clang_api.library, "clang_" #name);                            \
  all = all && clang_api.name;
  CLANG_FUNCTIONS(CLANG_FIND)
#undef CLANG_FIND
  return all;
}

#define clang_Cursor_getArgument       clang_api.Cursor_getArgument
#define clang_Cursor_getNumArguments   clang_api.Cursor_getNumArguments
#define clang_Cursor_isNull            clang_api.Cursor_isNull
#define clang_File_isEqual             clang_api.File_isEqual
#define clang_Type_getSizeOf           clang_api.Type_getSizeOf
#define clang_createIndex              clang_api.createIndex
#define clang_disposeDiagnostic        clang_api.disposeDiagnostic
#define clang_disposeIndex             clang_api.disposeIndex
#define clang_disposeString            clang_api.disposeString
#define clang_disposeTranslationUnit   clang_api.disposeTranslationUnit
#define clang_getCString               clang_api.getCString
#define clang_getCanonicalType         clang_api.getCanonicalType
#define clang_getCursorDefinition      clang_api.getCursorDefinition
#define clang_getCursorKind            clang_api.getCursorKind
#define clang_getCursorLocation        clang_api.getCursorLocation
#define clang_getCursorResultType      clang_api.getCursorResultType
#define clang_getCursorSpelling        clang_api.getCursorSpelling
#define clang_getCursorType            clang_api.getCursorType
#define clang_getDiagnostic            clang_api.getDiagnostic
#define clang_getDiagnosticLocation    clang_api.getDiagnosticLocation
#define clang_getDiagnosticSeverity    clang_api.getDiagnosticSeverity
#define clang_getDiagnosticSpelling    clang_api.getDiagnosticSpelling
#define clang_getExpansionLocation     clang_api.getExpansionLocation
#define clang_getFile                  clang_api.getFile
#define clang_getFileName              clang_api.getFileName
#define clang_getNumDiagnostics        clang_api.getNumDiagnostics
#define clang_getPointeeType           clang_api.getPointeeType
#define clang_getTranslationUnitCursor clang_api.getTranslationUnitCursor
#define clang_getTypeSpelling          clang_api.getTypeSpelling
#define clang_isConstQualifiedType     clang_api.isConstQualifiedType
#define clang_parseTranslationUnit     clang_api.parseTranslationUnit
#define clang_visitChildren            clang_api.visitChildren
#endif
