# A Debian package of the program, the libraries and the headers: cpack --config build/release/CPackConfig.cmake
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME swr)
set(CPACK_PACKAGE_VERSION "${PROJECT_VERSION}")
set(CPACK_PACKAGE_VENDOR "swr")
set(CPACK_PACKAGE_CONTACT "swr")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "${PROJECT_DESCRIPTION}")
set(CPACK_PACKAGE_DESCRIPTION "Generates variants of attention and GEMM kernels, compiles them at
run time, measures them on the GPU present or predicts them for one
that is not, and stores and ships the best for each shape.")
set(CPACK_RESOURCE_FILE_LICENSE "${PROJECT_SOURCE_DIR}/LICENSE")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)
# NVRTC is opened at run time, under whatever name NVIDIA's package for this release has.
set(CPACK_DEBIAN_PACKAGE_SUGGESTS "cuda-nvrtc-13-0, cuda-cupti-13-0")
install(FILES LICENSE RENAME copyright DESTINATION "${CMAKE_INSTALL_DATADIR}/doc/swr")
include(CPack)
