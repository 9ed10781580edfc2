# Compiler and linker settings that every target shares: ccache and lld where they are present.
find_program(WEFT_CCACHE ccache)
if(WEFT_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # Without these settings ccache declines every file that uses a precompiled header.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env
      CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime ${WEFT_CCACHE})
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    add_compile_options(-fpch-preprocess)
  endif()
endif()
find_program(WEFT_LLD ld.lld)
if(WEFT_LLD)
  add_link_options(-fuse-ld=lld)
endif()
add_compile_options(-Wall -Wextra)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  # GCC 12 sees overlaps and overflows in inlined std::string code that are not there.
  add_compile_options(-Wno-array-bounds -Wno-restrict -Wno-stringop-overflow -Wno-stringop-overread)
endif()
if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  # Options structs have defaults: naming only what differs is how they are meant.
  add_compile_options(-Wno-missing-designated-field-initializers)
endif()
if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  # libstdc++ 12's own stable_sort calls what it has deprecated, and clang blames the caller.
  add_compile_options(-Wno-deprecated-declarations)
endif()
if(WEFT_WERROR)
  add_compile_options(-Werror)
endif()
if(WEFT_SANITIZE)
  # A report ends the program, so that no test passes over one. _GLIBCXX_ASSERTIONS checks what sanitizers cannot see:
  # indices inside a container's capacity.
  add_compile_options(-fsanitize=${WEFT_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  add_compile_definitions(_GLIBCXX_ASSERTIONS)
  add_link_options(-fsanitize=${WEFT_SANITIZE})
  if(WEFT_SANITIZE MATCHES undefined)
    add_compile_options(-fsanitize=float-cast-overflow,float-divide-by-zero)
  endif()
endif()
if(WEFT_FUZZ)
  add_compile_options(-fsanitize=fuzzer-no-link)
endif()
