# What `cmake --install` puts where. Component runtime: the programs and what they read. Component development: the
# control plane as libraries for others: find_package(weft) gives weft::sim, weft::plan, weft::corpus, weft::cost, weft::cluster,
# weft::base, and includes are written as here: #include "plan/planner.h".
include(CMakePackageConfigHelpers)

set(WEFT_LIBRARY_MODULES base cluster corpus cost plan sim)
set(WEFT_HEADER_DIR ${CMAKE_INSTALL_INCLUDEDIR}/weft)
set(WEFT_CONFIG_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/weft)

foreach(module IN LISTS WEFT_LIBRARY_MODULES)
  set_target_properties(weft_${module} PROPERTIES EXPORT_NAME ${module})
  install(TARGETS weft_${module} EXPORT weftTargets
          ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT development)
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/src/${module} DESTINATION ${WEFT_HEADER_DIR} COMPONENT development
          FILES_MATCHING PATTERN "*.h")
endforeach()
install(EXPORT weftTargets NAMESPACE weft:: DESTINATION ${WEFT_CONFIG_DIR} COMPONENT development)
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/weftConfig.cmake.in ${CMAKE_BINARY_DIR}/weftConfig.cmake
                              INSTALL_DESTINATION ${WEFT_CONFIG_DIR})
# Formats and interfaces may still change with every minor version.
write_basic_package_version_file(${CMAKE_BINARY_DIR}/weftConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/weftConfig.cmake ${CMAKE_BINARY_DIR}/weftConfigVersion.cmake
        DESTINATION ${WEFT_CONFIG_DIR} COMPONENT development)

install(TARGETS weft RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT runtime)
# Debian wants these compressed, without a time inside.
find_program(WEFT_GZIP gzip REQUIRED)
function(weft_gzip name result)
  set(out ${CMAKE_BINARY_DIR}/packaging/${name}.gz)
  file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/packaging)
  execute_process(COMMAND ${WEFT_GZIP} -9nc ${PROJECT_SOURCE_DIR}/packaging/${name} OUTPUT_FILE ${out}
                  COMMAND_ERROR_IS_FATAL ANY)
  set_property(DIRECTORY ${PROJECT_SOURCE_DIR} APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS packaging/${name})
  set(${result} ${out} PARENT_SCOPE)
endfunction()
weft_gzip(weft.1 man_pages)
weft_gzip(changelog changelog)
if(WEFT_DATA_PLANE)
  install(TARGETS weft-engine RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT runtime)
  weft_gzip(weft-engine.1 engine_page)
  list(APPEND man_pages ${engine_page})
endif()
install(FILES ${man_pages} DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT runtime)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/configs DESTINATION ${CMAKE_INSTALL_DATADIR}/weft COMPONENT runtime)
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE ${PROJECT_SOURCE_DIR}/NOTICE ${PROJECT_SOURCE_DIR}/packaging/copyright
        ${changelog} DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/weft COMPONENT runtime)
install(FILES ${PROJECT_SOURCE_DIR}/packaging/copyright ${changelog} DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/libweft-dev
        COMPONENT development)
