# libtorch for the data plane, and the one precompiled header that all of its files share.
# Debian's package works as it is; users with GPUs point CMAKE_PREFIX_PATH at their own libtorch 2.x.
find_package(Torch REQUIRED)
message(STATUS "libtorch ${Torch_VERSION}")
find_package(BLAS REQUIRED)

add_library(weft_torch INTERFACE)
target_include_directories(weft_torch SYSTEM INTERFACE ${TORCH_INCLUDE_DIRS})
target_link_libraries(weft_torch INTERFACE ${TORCH_LIBRARIES} ${BLAS_LIBRARIES})

function(weft_use_torch target)
  target_link_libraries(${target} PRIVATE weft_torch)
  get_target_property(type ${target} TYPE)
  if(type STREQUAL "STATIC_LIBRARY")
    target_link_libraries(${target} INTERFACE weft_torch)
  endif()
  if(target STREQUAL "weft_tensor")
    target_precompile_headers(${target} PRIVATE <ATen/ATen.h> <memory> <span> <string> <vector>)
  else()
    target_precompile_headers(${target} REUSE_FROM weft_tensor)
  endif()
endfunction()
