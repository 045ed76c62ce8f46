# foldcast_layer(NAME SOURCES ... DEPENDS ...): one layer of docs/design.md as a static library foldcast::NAME.
# All see the whole source tree; that none includes from a layer below it is what tests/layering checks.
function(foldcast_layer name)
  cmake_parse_arguments(arg "" "" "SOURCES;DEPENDS" ${ARGN})
  add_library(foldcast_${name} STATIC ${arg_SOURCES})
  add_library(foldcast::${name} ALIAS foldcast_${name})
  target_include_directories(foldcast_${name} PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>)
  target_link_libraries(foldcast_${name} PUBLIC ${arg_DEPENDS})
  foldcast_compile_options(foldcast_${name})
  # What nearly every file includes is read once: a third of the compile time. Libraries' headers only: ours change.
  if(name STREQUAL base)
    target_precompile_headers(foldcast_base PRIVATE
      <algorithm> <array> <chrono> <cstdint> <functional> <map> <memory> <optional> <span> <string> <string_view>
      <unordered_map> <utility> <variant> <vector> <fmt/format.h>)
  else()
    target_precompile_headers(foldcast_${name} REUSE_FROM foldcast_base)
  endif()
endfunction()

function(foldcast_compile_options target)
  target_compile_options(${target} PRIVATE -Wall -Wextra -Wshadow
                         $<$<COMPILE_LANGUAGE:CXX>:-Wnon-virtual-dtor -Woverloaded-virtual>)
  if(CMAKE_CXX_COMPILER_ID STREQUAL GNU AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
    # It sees overruns inside std::string's operator+ that are not there (GCC bug 105651).
    target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-Wno-array-bounds -Wno-restrict
                                             -Wno-stringop-overflow -Wno-stringop-overread>)
  endif()
  target_compile_options(${target} PRIVATE -fvisibility=hidden -fvisibility-inlines-hidden)
  if(FOLDCAST_WERROR)
    target_compile_options(${target} PRIVATE -Werror)
  endif()
  if(FOLDCAST_SANITIZE)
    # With the checks compiled in GCC no longer follows what is initialized, in the standard library's regex to begin with.
    target_compile_options(${target} PRIVATE -fsanitize=${FOLDCAST_SANITIZE} -fno-omit-frame-pointer
                                             -Wno-maybe-uninitialized)
    target_link_options(${target} PUBLIC -fsanitize=${FOLDCAST_SANITIZE})
  endif()
endfunction()

# foldcast_test(NAME SOURCES ... DEPENDS ... [TIMEOUT seconds]): one GoogleTest program, its cases found at run time.
function(foldcast_test name)
  cmake_parse_arguments(arg "" "TIMEOUT" "SOURCES;DEPENDS" ${ARGN})
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 120)
  endif()
  if(FOLDCAST_SANITIZE)
    math(EXPR arg_TIMEOUT "5 * ${arg_TIMEOUT}")
  endif()
  add_executable(${name} ${arg_SOURCES})
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR})
  target_link_libraries(${name} PRIVATE
    ${arg_DEPENDS} foldcast::base GTest::gtest GTest::gmock GTest::gtest_main Threads::Threads)
  foldcast_compile_options(${name})
  if(NOT TARGET foldcast_test_headers)
    add_executable(foldcast_test_headers EXCLUDE_FROM_ALL ${PROJECT_SOURCE_DIR}/cmake/test_headers.cc)
    target_include_directories(foldcast_test_headers PRIVATE ${PROJECT_SOURCE_DIR})
    target_link_libraries(foldcast_test_headers PRIVATE foldcast::base GTest::gtest GTest::gmock Threads::Threads)
    foldcast_compile_options(foldcast_test_headers)
    target_precompile_headers(foldcast_test_headers PRIVATE
      <gmock/gmock.h> <gtest/gtest.h> <map> <span> <string> <vector> <fmt/format.h>)
  endif()
  target_precompile_headers(${name} REUSE_FROM foldcast_test_headers)
  # One ctest entry a program: thousands of parameterised cases would each pay a process start.
  add_test(NAME ${name} COMMAND ${name})
  set_tests_properties(${name} PROPERTIES TIMEOUT ${arg_TIMEOUT})
  if(FOLDCAST_SANITIZE STREQUAL thread)
    # UCX's memory hooks run in threads that are ending, of which the sanitizer has already forgotten all.
    set_tests_properties(${name} PROPERTIES ENVIRONMENT "UCX_MEM_EVENTS=n;UCX_MEM_MMAP_HOOK_MODE=none")
  endif()
endfunction()
