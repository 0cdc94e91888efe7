# Programs in the CUDA language: in the emulator (tests/cudasim), and through nvcc where it is installed.
set(DDP_CUDASIM_INCLUDE ${CMAKE_SOURCE_DIR}/tests/cudasim/include)
# As `ddpc --target cuda:sim` compiles: only fused multiply-adds that are written.
set(DDP_CUDASIM_FLAGS -ffp-contract=off -Wall -Wextra -Wshadow -Wconversion -Wno-unknown-pragmas -Werror
    $<$<CXX_COMPILER_ID:Clang>:-Wno-pass-failed>) # which loops are unrolled is for GPUs
set(DDP_NVCC_FLAGS -std=c++20 -O3 -fmad=false -Werror all-warnings -Xcompiler -Wall,-Wextra
    -gencode arch=compute_80,code=sm_80 -gencode arch=compute_90,code=sm_90
    -gencode arch=compute_100,code=[sm_100,compute_100])

# ddp_cudasim_program(NAME [SANITIZE address|thread] SOURCES A.cu ... [LINK LIBRARIES])
# .cu files as C++ against the emulator's headers, linked with the emulator.
function(ddp_cudasim_program name)
  cmake_parse_arguments(ARG "" "SANITIZE" "SOURCES;LINK" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  foreach(source ${ARG_SOURCES})
    if(source MATCHES "\\.cu$") # as C++, which is what one says by -x
      set_source_files_properties(${source} PROPERTIES LANGUAGE CXX)
    endif()
  endforeach()
  target_compile_features(${name} PRIVATE cxx_std_20)
  set_target_properties(${name} PROPERTIES LINKER_LANGUAGE CXX ENABLE_EXPORTS ON)
  target_include_directories(${name} BEFORE PRIVATE ${DDP_CUDASIM_INCLUDE})
  target_include_directories(${name} PRIVATE ${CMAKE_SOURCE_DIR}/runtime/kernels ${CMAKE_SOURCE_DIR}/runtime/include)
  target_link_libraries(${name} PRIVATE ddp_tables)
  target_compile_options(${name} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:${DDP_CUDASIM_FLAGS}>)
  set(library cudasim)
  if(ARG_SANITIZE STREQUAL address)
    set(library cudasim_address)
    set(flags -fsanitize=address,undefined)
    target_compile_options(${name} PRIVATE ${flags} -fno-sanitize-recover=undefined
                           $<$<CXX_COMPILER_ID:GNU>:-fsanitize-sections=cudasim_shared> -O1 -g)
  elseif(ARG_SANITIZE STREQUAL thread)
    set(library cudasim_thread)
    set(flags -fsanitize=thread)
    target_compile_options(${name} PRIVATE ${flags} -O1 -g)
  elseif(DDP_SANITIZE MATCHES address)
    target_compile_options(${name} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-fsanitize-sections=cudasim_shared>)
  endif()
  target_link_options(${name} PRIVATE ${flags})
  target_link_libraries(${name} PRIVATE ${ARG_LINK} ${library})
endfunction()

# ddp_nvcc_test(NAME SOURCE [INCLUDE FOLDERS]): the file compiles without a warning for three architectures.
function(ddp_nvcc_test name source)
  if(NOT DDP_HAVE_CUDA)
    return()
  endif()
  cmake_parse_arguments(ARG "" "" "INCLUDE" ${ARGN})
  list(TRANSFORM ARG_INCLUDE PREPEND -I)
  cmake_path(ABSOLUTE_PATH source)
  string(REPLACE "." "_" object ${name})
  add_test(NAME nvcc.${name}
           COMMAND ${DDP_NVCC} ${DDP_NVCC_FLAGS} -I${CMAKE_SOURCE_DIR}/runtime/kernels -I${CMAKE_SOURCE_DIR}/runtime/include
                   -I${CMAKE_SOURCE_DIR}/tables ${ARG_INCLUDE} -c ${source} -o ${CMAKE_CURRENT_BINARY_DIR}/nvcc_${object}.o)
  set_tests_properties(nvcc.${name} PROPERTIES LABELS "slow;cuda" TIMEOUT 300)
endfunction()
