# One helper for all folders: a static library whose public include path is its own folder and what it
# links, so that a wrong-way #include does not compile.
set(DDP_WARNINGS -Wall -Wextra -Wpedantic -Wconversion -Wshadow -Werror)

add_library(ddp_tables INTERFACE)
target_include_directories(ddp_tables INTERFACE ${CMAKE_SOURCE_DIR}/tables)

function(ddp_folder name)
  cmake_parse_arguments(ARG "" "" "LINK" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.c)
  if(NOT sources) # a folder that has no code yet still links
    set(sources ${CMAKE_CURRENT_BINARY_DIR}/${name}_empty.c)
    file(GENERATE OUTPUT ${sources} CONTENT "typedef int ${name}_empty;\n")
  endif()
  add_library(${name} STATIC ${sources})
  set_target_properties(${name} PROPERTIES LINKER_LANGUAGE C)
  target_include_directories(${name} PUBLIC ${CMAKE_CURRENT_SOURCE_DIR})
  target_link_libraries(${name} PUBLIC ddp_tables ${ARG_LINK})
  target_compile_options(${name} PRIVATE $<$<COMPILE_LANGUAGE:C>:${DDP_WARNINGS}>)
  target_compile_definitions(${name} PRIVATE _GNU_SOURCE)
endfunction()
