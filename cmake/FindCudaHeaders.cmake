# Finds the CUDA headers that swr compiles against; the libraries themselves are opened at run time.
#   CudaHeaders::CudaHeaders   include directories of cuda.h, nvrtc.h and cupti_range_profiler.h
# Searched: SWR_CUDA_ROOT, CUDA_HOME, CUDA_PATH, nvcc's installation, the usual places.
# CudaHeaders_LIBRARY_DIR is where libnvrtc and libcupti of the same release lie, a hint that is
# compiled in as the first place to look.
find_program(SWR_NVCC nvcc HINTS ENV CUDA_HOME ENV CUDA_PATH PATHS /usr/local/cuda PATH_SUFFIXES bin)
if(SWR_NVCC)
  get_filename_component(_swr_nvcc_real "${SWR_NVCC}" REALPATH)
  get_filename_component(_swr_nvcc_bin "${_swr_nvcc_real}" DIRECTORY)
  get_filename_component(_swr_nvcc_root "${_swr_nvcc_bin}" DIRECTORY)
endif()
set(_swr_roots "${SWR_CUDA_ROOT}" "$ENV{CUDA_HOME}" "$ENV{CUDA_PATH}" "${_swr_nvcc_root}"
    "${PROJECT_SOURCE_DIR}/.deps/cuda" /usr/local/cuda)
set(_swr_include_suffixes include targets/x86_64-linux/include targets/sbsa-linux/include
    extras/CUPTI/include)
find_path(CudaHeaders_CUDA_DIR cuda.h HINTS ${_swr_roots} PATH_SUFFIXES ${_swr_include_suffixes})
find_path(CudaHeaders_NVRTC_DIR nvrtc.h HINTS ${_swr_roots} PATH_SUFFIXES ${_swr_include_suffixes})
find_path(CudaHeaders_CUPTI_DIR cupti_range_profiler.h HINTS ${_swr_roots}
          PATH_SUFFIXES ${_swr_include_suffixes})
find_file(CudaHeaders_NVRTC_LIBRARY NAMES libnvrtc.so.13 libnvrtc.so.12 libnvrtc.so
          HINTS ${_swr_roots}
          PATH_SUFFIXES lib64 lib targets/x86_64-linux/lib targets/sbsa-linux/lib)
if(CudaHeaders_NVRTC_LIBRARY)
  get_filename_component(CudaHeaders_LIBRARY_DIR "${CudaHeaders_NVRTC_LIBRARY}" DIRECTORY)
endif()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(CudaHeaders
  REQUIRED_VARS CudaHeaders_CUDA_DIR CudaHeaders_NVRTC_DIR CudaHeaders_CUPTI_DIR
  REASON_FAILURE_MESSAGE "Install the CUDA toolkit, or run scripts/setup, which fetches NVIDIA's \
packages into .deps/cuda, or pass -DSWR_CUDA_ROOT=DIR.")
if(CudaHeaders_FOUND AND NOT TARGET CudaHeaders::CudaHeaders)
  add_library(CudaHeaders::CudaHeaders INTERFACE IMPORTED)
  target_include_directories(CudaHeaders::CudaHeaders SYSTEM INTERFACE
    "${CudaHeaders_CUDA_DIR}" "${CudaHeaders_NVRTC_DIR}" "${CudaHeaders_CUPTI_DIR}")
endif()
