# What terp is made of, in SPDX's form, with the versions that were found:
# terp.spdx.json, and terp_jansson_link.

# terp_tell(name is_there version libraries): records a part's version, and how
# it is linked.
function(terp_tell name is_there version libraries)
  set(link OTHER) # neither linked nor needed
  set(terp_${name}_version NOASSERTION PARENT_SCOPE)
  if(is_there)
    set(terp_${name}_version "${version}" PARENT_SCOPE)
    set(link DYNAMIC_LINK)
    if(libraries MATCHES "${name}[.]a(;|$)")
      set(link STATIC_LINK)
    endif()
  endif()
  set(terp_${name}_link ${link} PARENT_SCOPE)
endfunction()

terp_tell(hdf5 "${TERP_HDF5}" "${HDF5_VERSION}" "${HDF5_C_LIBRARIES}")
terp_tell(jansson "${JANSSON_FOUND}" "${JANSSON_VERSION}"
          "${JANSSON_LINK_LIBRARIES}")
terp_tell(cairo "${CAIRO_FOUND}" "${CAIRO_VERSION}" "${CAIRO_LINK_LIBRARIES}")

set(terp_cuda_packages)
set(terp_cuda_links)
# terp_tell_cuda(id name version licence copyright): records a part of the CUDA
# engine.
macro(terp_tell_cuda id name version licence copyright)
  string(APPEND terp_cuda_packages ",
    {
      \"SPDXID\": \"SPDXRef-${id}\",
      \"name\": \"${name}\",
      \"comment\": \"Linked into libterp_cuda.so\",
      \"versionInfo\": \"${version}\",
      \"downloadLocation\": \"NOASSERTION\",
      \"filesAnalyzed\": false,
      \"licenseConcluded\": \"${licence}\",
      \"licenseDeclared\": \"${licence}\",
      \"copyrightText\": \"${copyright}\"
    }")
  string(APPEND terp_cuda_links ",
    {
      \"spdxElementId\": \"SPDXRef-terp\",
      \"relationshipType\": \"STATIC_LINK\",
      \"relatedSpdxElement\": \"SPDXRef-${id}\"
    }")
endmacro()
if(TARGET terp_cuda)
  terp_tell_cuda(cudart "NVIDIA CUDA runtime" "${CMAKE_CUDA_COMPILER_VERSION}"
    NOASSERTION "Copyright (c) NVIDIA CORPORATION")
  terp_tell_cuda(cub "CUB" "${CMAKE_CUDA_COMPILER_VERSION}" BSD-3-Clause
    "Copyright (c) 2011, Duane Merrill; 2011-2018, NVIDIA CORPORATION")
  terp_tell_cuda(libstdcxx "GCC's C++ library" "${CMAKE_CXX_COMPILER_VERSION}"
    "GPL-3.0-or-later WITH GCC-exception-3.1" NOASSERTION)
endif()
configure_file(cmake/terp.spdx.json.in terp.spdx.json @ONLY)
