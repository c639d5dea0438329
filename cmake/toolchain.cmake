# Compiler, warnings, ccache, linker. A missing piece stops here with a sentence saying what to do.
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 12)
  message(FATAL_ERROR "g++ ${CMAKE_CXX_COMPILER_VERSION} is too old for C++20 as used here. Install g++ 12 or newer (apt-get install g++-12) and set CXX.")
endif()

find_program(CCACHE ccache)
if(CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${CMAKE_SOURCE_DIR} CCACHE_NOHASHDIR=1
      CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime ${CCACHE})
endif()
find_program(MOLD mold)
find_program(LLD ld.lld)
if(MOLD)
  add_link_options(-fuse-ld=mold)
elseif(LLD)
  add_link_options(-fuse-ld=lld)
endif()

add_compile_options(-Wall -Wextra -Wno-unused-parameter -fno-math-errno -ffp-contract=off)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  add_compile_options(-Wno-restrict)  # GCC bug 105651: a false alarm for `"text" + std::string`
endif()

set(IPU_SANITIZE "" CACHE STRING "Sanitizers: address,undefined or thread")
if(IPU_SANITIZE)
  add_compile_options(-fsanitize=${IPU_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${IPU_SANITIZE})
  if(IPU_SANITIZE MATCHES "address")
    add_compile_options(--param asan-instrumentation-with-call-threshold=0)  # checks by call: 40 % less time to translate
    # AddressSanitizer reports the access itself; these two checks of UBSan take a quarter of the time to translate.
    add_compile_options(-fno-sanitize=null,object-size)
  endif()
  # What this processor cannot run is not translated for it: tests of AVX-512 are skipped there anyway. Nor is AVX-512 for
  # ThreadSanitizer: one kind of vectors shows as many races as two.
  file(STRINGS /proc/cpuinfo avx512 REGEX "^flags.* avx512f " LIMIT_COUNT 1)
  if(NOT avx512 OR IPU_SANITIZE MATCHES "thread")
    add_compile_definitions("HWY_DISABLED_TARGETS=(HWY_SSSE3|HWY_SSE4|HWY_AVX3_DL|HWY_AVX3)")
  endif()
endif()

# Warnings are errors with the compiler that is tried: others have false alarms of their own. Those that depend on what is inlined
# are errors only in units, which everybody builds alike, and not under sanitizers.
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION MATCHES "^12\\.")
  set(tried_compiler ON)
else()
  set(tried_compiler OFF)
endif()
option(IPU_WARNINGS_ARE_ERRORS "Stop at warnings" ${tried_compiler})
if(IPU_WARNINGS_ARE_ERRORS)
  add_compile_options(-Werror)
  if(NOT IPU_UNITS OR IPU_SANITIZE)
    add_compile_options(-Wno-error=maybe-uninitialized -Wno-error=array-bounds -Wno-error=free-nonheap-object)
  endif()
endif()
