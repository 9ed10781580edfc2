# CPack: Debian packages weft (programs) and libweft-dev (find_package), and one archive of both.
#   cpack --config build/release/CPackConfig.cmake -B OUT
set(CPACK_PACKAGE_NAME weft)
set(CPACK_PACKAGE_VENDOR "The Weft authors")
set(CPACK_PACKAGE_CONTACT "The Weft authors <weft@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "trains large language models on sequences of every length at once")
set(CPACK_PACKAGE_DESCRIPTION
    "Each step, a planner gives every sequence of the global batch exactly the ranks it needs: a short sequence runs whole on one rank, a long one over as many as it takes (Hybrid Data Parallelism, the idea of ByteScale). Any plan trains exactly as one rank would.")
set(CPACK_RESOURCE_FILE_LICENSE ${PROJECT_SOURCE_DIR}/LICENSE)
set(CPACK_GENERATOR "DEB;TGZ")
set(CPACK_COMPONENTS_ALL runtime development)
set(CPACK_STRIP_FILES ON)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)

set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_ENABLE_COMPONENT_DEPENDS OFF)
set(CPACK_DEBIAN_RUNTIME_PACKAGE_NAME weft)
set(CPACK_DEBIAN_RUNTIME_PACKAGE_SECTION science)
set(CPACK_DEBIAN_RUNTIME_PACKAGE_SHLIBDEPS ON)
set(CPACK_COMPONENT_RUNTIME_DESCRIPTION "${CPACK_PACKAGE_DESCRIPTION}")
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_NAME libweft-dev)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS
    "libfmt-dev, libspdlog-dev, nlohmann-json3-dev, libsimdjson-dev, zlib1g-dev, libzstd-dev, libxxhash-dev, pkg-config")
set(CPACK_DEBIAN_DEVELOPMENT_DESCRIPTION
    "trains large language models on sequences of every length - planner library\n Static libraries, headers and CMake targets of the planner, the cost model and the corpus reader of Weft.")
set(CPACK_COMPONENT_DEVELOPMENT_DESCRIPTION
    "Static libraries, headers and CMake targets of the planner, the cost model and the corpus reader of Weft.")
include(CPack)
