# weft_add_module(NAME base SOURCES ... [DEPS modules...] [LIBS libraries...] [EXACT] [TORCH])
#   One static library weft_NAME for one folder of src/. DEPS are the modules it may include (the house of
#   docs/architecture.md; tools/check_house.py keeps it true); LIBS are outside libraries.
#   EXACT: decides on int64 nanoseconds, so floating-point contraction is off and every CPU gives the same bytes.
#   TORCH: belongs to the data plane, shares its precompiled header.
#   Modules of WEFT_SHARED_HEADER_MODULES share the control plane's precompiled header.
function(weft_add_module)
  cmake_parse_arguments(M "EXACT;TORCH" "NAME" "SOURCES;DEPS;LIBS" ${ARGN})
  set(target weft_${M_NAME})
  add_library(${target} STATIC ${M_SOURCES})
  target_include_directories(${target} PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/src>
                             $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}/weft>)
  list(TRANSFORM M_DEPS PREPEND weft_)
  target_link_libraries(${target} PUBLIC ${M_DEPS} ${M_LIBS})
  if(M_EXACT)
    target_compile_options(${target} PRIVATE -ffp-contract=off)
  endif()
  if(M_TORCH)
    weft_use_torch(${target})
  elseif(M_NAME IN_LIST WEFT_SHARED_HEADER_MODULES)
    weft_use_control_header(${target})
  endif()
endfunction()

# weft_limit_time(SECONDS tests...): ends tests that run longer; a sanitizer's build is several times slower.
function(weft_limit_time seconds)
  if(WEFT_SANITIZE)
    math(EXPR seconds "${seconds} * 5")
  endif()
  set_tests_properties(${ARGN} PROPERTIES TIMEOUT ${seconds})
endfunction()

# weft_add_test(NAME base_test SOURCES ... [DEPS modules...] [LIBS libraries...] [TORCH] [TIMEOUT seconds])
#   One GoogleTest program. A torch-linked program is one CTest entry (libtorch costs 0.8 s at every start);
#   the others are discovered test by test.
function(weft_add_test)
  cmake_parse_arguments(T "TORCH" "NAME;TIMEOUT" "SOURCES;DEPS;LIBS" ${ARGN})
  if(NOT T_TIMEOUT)
    set(T_TIMEOUT 120)
  endif()
  add_executable(${T_NAME} ${T_SOURCES})
  set_target_properties(${T_NAME} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  target_include_directories(${T_NAME} PRIVATE ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/src)
  list(TRANSFORM T_DEPS PREPEND weft_)
  target_link_libraries(${T_NAME} PRIVATE ${T_DEPS} ${T_LIBS} GTest::gmock GTest::gtest_main)
  if(T_TORCH)
    weft_use_torch(${T_NAME})
    add_test(NAME ${T_NAME} COMMAND ${T_NAME} --gtest_brief=1)
    weft_limit_time(${T_TIMEOUT} ${T_NAME})
  else()
    # Tests are compiled once and run for seconds: compile time is what they cost.
    target_compile_options(${T_NAME} PRIVATE -O0)
    target_precompile_headers(${T_NAME} REUSE_FROM weft_test_header)
    if(WEFT_SANITIZE)
      math(EXPR T_TIMEOUT "${T_TIMEOUT} * 5")
    endif()
    gtest_discover_tests(${T_NAME} TEST_PREFIX ${T_NAME}. DISCOVERY_TIMEOUT 60
                         PROPERTIES TIMEOUT ${T_TIMEOUT})
  endif()
endfunction()

# What nearly every file of the control plane includes, compiled once. It serves only files with its own options, so
# contraction is off for all of them.
set(WEFT_SHARED_HEADER_MODULES base cluster corpus cost plan sim report comm model_config checkpoint_format train_config)
function(weft_use_control_header target)
  # -O3 makes no module of these faster, and takes longer to compile.
  # The Python module links them into a shared object; nothing replaces their symbols there.
  set(options -ffp-contract=off -fPIC -fno-semantic-interposition $<$<CONFIG:Release>:-O2>)
  target_compile_options(${target} PRIVATE ${options})
  if(NOT TARGET weft_control_header)
    file(WRITE ${CMAKE_BINARY_DIR}/generated/control_header.cc "")
    add_library(weft_control_header STATIC ${CMAKE_BINARY_DIR}/generated/control_header.cc)
    target_link_libraries(weft_control_header PRIVATE fmt::fmt)
    target_compile_options(weft_control_header PRIVATE ${options})
    target_precompile_headers(weft_control_header PRIVATE <fmt/format.h> <algorithm> <filesystem> <functional> <map>
                              <memory> <optional> <span> <string> <vector>)
  endif()
  target_precompile_headers(${target} REUSE_FROM weft_control_header)
endfunction()
