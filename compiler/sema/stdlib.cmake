# Library files and templates -> one C table: text of each file, and an index of the names that each
# library file declares.
# cmake -DROOT=stdlib -DOUT=stdlib_table.c -P stdlib.cmake
file(GLOB_RECURSE files RELATIVE ${ROOT} ${ROOT}/*.ddp ${ROOT}/templates/*.csv)
list(SORT files)
set(texts "")
set(table "")
set(index "")
set(n 0)
foreach(file ${files})
  file(READ ${ROOT}/${file} hex HEX)
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${hex}")
  string(REGEX REPLACE "(................................................................................)"
                       "\\1\n" bytes "${bytes}")
  string(APPEND texts "static const char text_${n}[] = {\n${bytes}0};\n")
  string(APPEND table "    {\"std/${file}\", text_${n}, sizeof text_${n} - 1},\n")
  file(READ ${ROOT}/${file} content)
  if(file MATCHES "^templates/")
    set(content "")
  endif()
  string(REGEX MATCHALL "\n(def|module|optimizer|const) [A-Za-z_0-9]+" names "\n${content}")
  foreach(name ${names})
    string(REGEX REPLACE "^.* " "" name "${name}")
    string(APPEND index "    {\"${name}\", \"std/${file}\"},\n")
  endforeach()
  math(EXPR n "${n} + 1")
endforeach()
file(WRITE ${OUT} "/* Made by stdlib.cmake from stdlib/. */
#include \"stdlib_table.h\"

${texts}
const StdlibFile stdlib_files[] = {
${table}};
const int stdlib_file_count = ${n};

const StdlibName stdlib_names[] = {
${index}};
const int stdlib_name_count = sizeof stdlib_names / sizeof *stdlib_names;
")
