# Install rules and the package files behind find_package(swr).
include(CMakePackageConfigHelpers)
include(SwrShellFiles)
set(SWR_PACKAGE_DIR "${CMAKE_INSTALL_LIBDIR}/cmake/swr")
set(SWR_INSTALLED_TARGETS swr_core swr_driver swr_generator swr_db swr_measure swr_model swr_explain
    swr_operations swr_kernel_spec swr_user_kernels swr_statistics swr_calibrate swr_supervise swr_tuner
    swr_manifest swr_export swr_report swr_runtime swr_runtime_calls swr_c)

# Whoever built the program alone, as scripts/swr-tune does, has not built the libraries: installing
# builds what is missing, and nothing that is not installed.
add_custom_target(installable DEPENDS ${SWR_INSTALLED_TARGETS} swr-tune shell_files)
install(CODE "
  message(STATUS \"Building what is installed and not built yet\")
  execute_process(COMMAND \"${CMAKE_COMMAND}\" --build \"${PROJECT_BINARY_DIR}\" --target installable
                  RESULT_VARIABLE failure)
  if(failure)
    message(FATAL_ERROR \"Building failed, so nothing was installed. Build by hand first: \
cmake --build ${PROJECT_BINARY_DIR} --target installable\")
  endif()")

install(TARGETS ${SWR_INSTALLED_TARGETS} EXPORT swrTargets)
install(TARGETS swr-tune)
install(DIRECTORY include/swr "${PROJECT_BINARY_DIR}/include/swr"
        DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}")
install(EXPORT swrTargets NAMESPACE swr:: DESTINATION "${SWR_PACKAGE_DIR}")
configure_package_config_file(cmake/swrConfig.cmake.in "${PROJECT_BINARY_DIR}/swrConfig.cmake"
  INSTALL_DESTINATION "${SWR_PACKAGE_DIR}" PATH_VARS CMAKE_INSTALL_BINDIR)
write_basic_package_version_file("${PROJECT_BINARY_DIR}/swrConfigVersion.cmake"
  COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/swrConfig.cmake" "${PROJECT_BINARY_DIR}/swrConfigVersion.cmake"
        cmake/SwrTuneKernel.cmake
        DESTINATION "${SWR_PACKAGE_DIR}")

install(FILES "${SWR_SHELL_DIR}/swr-tune.bash" RENAME swr-tune
        DESTINATION "${CMAKE_INSTALL_DATADIR}/bash-completion/completions")
install(FILES "${SWR_SHELL_DIR}/swr-tune.zsh" RENAME _swr-tune
        DESTINATION "${CMAKE_INSTALL_DATADIR}/zsh/vendor-completions")
install(FILES "${SWR_SHELL_DIR}/swr-tune.fish"
        DESTINATION "${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d")
install(FILES "${SWR_SHELL_DIR}/swr-tune.1" DESTINATION "${CMAKE_INSTALL_MANDIR}/man1")
# Kernels that are compiled already (docs/shipped_kernels.md).
set(SWR_KERNEL_ARCHIVE "" CACHE FILEPATH "swr-kernels.bin, to be installed and packaged with the program")
if(SWR_KERNEL_ARCHIVE)
  install(FILES "${SWR_KERNEL_ARCHIVE}" DESTINATION "${CMAKE_INSTALL_DATADIR}/swr"
          RENAME swr-kernels.bin)
endif()
include(SwrPackage)
