# Install rules and the package files behind find_package(swr).
include(CMakePackageConfigHelpers)
set(SWR_PACKAGE_DIR "${CMAKE_INSTALL_LIBDIR}/cmake/swr")

install(TARGETS swr_core swr_driver swr_generator swr_db swr_measure swr_model swr_explain swr_operations swr_statistics
        swr_calibrate swr_supervise swr_tuner swr_study swr_manifest swr_runtime swr_c
        EXPORT swrTargets)
install(TARGETS swr-tune)
install(DIRECTORY include/swr "${PROJECT_BINARY_DIR}/include/swr"
        DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}")
install(EXPORT swrTargets NAMESPACE swr:: DESTINATION "${SWR_PACKAGE_DIR}")
configure_package_config_file(cmake/swrConfig.cmake.in "${PROJECT_BINARY_DIR}/swrConfig.cmake"
  INSTALL_DESTINATION "${SWR_PACKAGE_DIR}")
write_basic_package_version_file("${PROJECT_BINARY_DIR}/swrConfigVersion.cmake"
  COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/swrConfig.cmake" "${PROJECT_BINARY_DIR}/swrConfigVersion.cmake"
        DESTINATION "${SWR_PACKAGE_DIR}")
