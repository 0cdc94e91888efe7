# The tree of INPUT, as PROGRAM prints it, equals the file EXPECTED.
execute_process(COMMAND ${PROGRAM} --print ${INPUT} OUTPUT_VARIABLE have RESULT_VARIABLE failed)
file(READ ${EXPECTED} want)
if(failed OR NOT have STREQUAL want)
  message(FATAL_ERROR "the tree of ${INPUT} differs from ${EXPECTED}; it is now:\n${have}")
endif()
