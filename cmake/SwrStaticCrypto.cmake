# A static libcrypto needs what it was built with, zlib and zstd on Debian 13; pkg-config knows.
if(SWR_STATIC_DEPENDENCIES)
  find_package(PkgConfig REQUIRED)
  pkg_check_modules(SWR_CRYPTO REQUIRED libcrypto)
  foreach(library IN LISTS SWR_CRYPTO_STATIC_LIBRARIES)
    if(NOT library MATCHES "^(crypto|dl|pthread)$")
      find_library(SWR_CRYPTO_NEEDS_${library} ${library} REQUIRED)
      set_property(TARGET OpenSSL::Crypto APPEND PROPERTY
        INTERFACE_LINK_LIBRARIES "${SWR_CRYPTO_NEEDS_${library}}")
    endif()
  endforeach()
endif()
