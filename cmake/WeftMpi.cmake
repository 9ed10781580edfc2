# MPI for the ranks of a run as processes (src/comm/mpi). Sets WEFT_HAVE_MPI; the configure output says which.
set(WEFT_MPI AUTO CACHE STRING "The mpi transport: AUTO (if MPI is found), ON (required), OFF")
set_property(CACHE WEFT_MPI PROPERTY STRINGS AUTO ON OFF)
set(WEFT_HAVE_MPI OFF)
if(NOT WEFT_MPI MATCHES "^(AUTO|ON|OFF)$")
  message(FATAL_ERROR "WEFT_MPI is '${WEFT_MPI}'; expected AUTO, ON or OFF")
endif()
if(WEFT_MPI STREQUAL "OFF")
  message(STATUS "MPI: off (WEFT_MPI=OFF)")
else()
  # The C interface only: MPI's C++ one is gone from newer versions.
  enable_language(C)
  find_package(MPI QUIET COMPONENTS C)
  if(MPI_C_FOUND)
    set(WEFT_HAVE_MPI ON)
    message(STATUS "MPI: found, version of the standard ${MPI_C_VERSION}, ${MPIEXEC_EXECUTABLE}")
  elseif(WEFT_MPI STREQUAL "ON")
    message(FATAL_ERROR "MPI: not found, but WEFT_MPI=ON; install libopenmpi-dev and openmpi-bin")
  else()
    message(STATUS "MPI: not found; weft-engine will have thread ranks only (install libopenmpi-dev and openmpi-bin)")
  endif()
endif()

# weft_add_mpi_program(NAME mpi_test SOURCES ... [LIBS libraries...] [TORCH])   a program that is one rank of an MPI job
function(weft_add_mpi_program)
  cmake_parse_arguments(P "TORCH" "NAME" "SOURCES;LIBS" ${ARGN})
  add_executable(${P_NAME} ${P_SOURCES})
  set_target_properties(${P_NAME} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  target_include_directories(${P_NAME} PRIVATE ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/src)
  target_link_libraries(${P_NAME} PRIVATE weft_comm_mpi ${P_LIBS})
  if(NOT P_TORCH)
    target_compile_options(${P_NAME} PRIVATE -O1)
  endif()
endfunction()

# Root and crowded cores are what a test machine has; binding would put all ranks on the same ones.
set(WEFT_MPIRUN ${MPIEXEC_EXECUTABLE} --oversubscribe --bind-to none)
set(WEFT_MPI_ENVIRONMENT OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_mpi_yield_when_idle=1)
if(WEFT_SANITIZE MATCHES "thread")
  # Open MPI is not instrumented: its locks are atomics that the sanitizer cannot see, so whatever two threads do inside
  # its calls would look like a race. What libraries without the sanitizer copy, allocate and lock is left out.
  list(APPEND WEFT_MPI_ENVIRONMENT TSAN_OPTIONS=second_deadlock_stack=1:ignore_noninstrumented_modules=1)
elseif(WEFT_SANITIZE)
  # Open MPI keeps what it allocated when it ends, and unloads the plugins that did, so that no suppression can name
  # them. Weft's own leaks show in the same tests on threads.
  list(APPEND WEFT_MPI_ENVIRONMENT
       ASAN_OPTIONS=detect_leaks=0:detect_stack_use_after_return=1:strict_string_checks=1:allocator_may_return_null=1)
endif()

# weft_add_mpi_test(NAME name RANKS n [TIMEOUT seconds] COMMAND program arguments...)
function(weft_add_mpi_test)
  cmake_parse_arguments(T "" "NAME;RANKS;TIMEOUT" "COMMAND" ${ARGN})
  if(NOT T_TIMEOUT)
    set(T_TIMEOUT 300)
  endif()
  list(POP_FRONT T_COMMAND program)
  add_test(NAME ${T_NAME} COMMAND ${WEFT_MPIRUN} ${MPIEXEC_NUMPROC_FLAG} ${T_RANKS} $<TARGET_FILE:${program}>
           ${T_COMMAND})
  set_tests_properties(${T_NAME} PROPERTIES PROCESSORS ${T_RANKS} ENVIRONMENT "${WEFT_MPI_ENVIRONMENT}")
  weft_limit_time(${T_TIMEOUT} ${T_NAME})
endfunction()
