# Run by ctest: installs BUILD under WORK and builds the programs of SOURCE and README against it.

function(must)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE code OUTPUT_VARIABLE out ERROR_VARIABLE out)
  if(NOT code EQUAL 0)
    message(FATAL_ERROR "${ARGN}\nended with ${code}:\n${out}")
  endif()
  set(output "${out}" PARENT_SCOPE)
endfunction()

file(REMOVE_RECURSE ${WORK})
must(${CMAKE_COMMAND} --install ${BUILD} --prefix ${WORK}/prefix)
file(COPY ${SOURCE}/consumer DESTINATION ${WORK})

# The README's program is the one that is compiled, so that it cannot go stale.
file(READ ${README} readme)
string(REGEX MATCH "```cpp\n(#include <foldcast.hpp>[^`]*)```" found "${readme}")
if(NOT found)
  message(FATAL_ERROR "the README has no C++ program")
endif()
file(WRITE ${WORK}/consumer/readme.cc "${CMAKE_MATCH_1}")

must(${CMAKE_COMMAND} -S ${WORK}/consumer -B ${WORK}/build -DCMAKE_PREFIX_PATH=${WORK}/prefix
     -DCMAKE_CXX_FLAGS=${FLAGS} -DCMAKE_C_FLAGS=${FLAGS} -DCMAKE_EXE_LINKER_FLAGS=${FLAGS})
must(${CMAKE_COMMAND} --build ${WORK}/build)
must(${WORK}/build/readme)
if(NOT output MATCHES "mean 1, ranks 1")
  message(FATAL_ERROR "the README's program printed: ${output}")
endif()
must(${WORK}/build/plain)
# The same program through pkg-config.
set(ENV{PKG_CONFIG_PATH} ${WORK}/prefix/${LIBDIR}/pkgconfig)
must(pkg-config --cflags --libs foldcast)
separate_arguments(flags UNIX_COMMAND "${output}")
must(${C_COMPILER} ${WORK}/consumer/plain.c ${flags} ${FLAGS} -o ${WORK}/plain)
must(${CMAKE_COMMAND} -E env LD_LIBRARY_PATH=${WORK}/prefix/${LIBDIR} ${WORK}/plain)
