# The Python package. Its wheel is built and installed as users do, beside the
# newest and the oldest packages that it supports.
find_package(Python3 COMPONENTS Interpreter)
if(NOT Python3_FOUND OR TERP_SANITIZE)
  return()
endif()

# terp_add_wheel_test(name venv packages command...): a test in python/ that
# needs packages of PyPI. in_venv.py says when it skips the test.
function(terp_add_wheel_test name venv packages)
  string(REPLACE ";" "," packages "${packages}")
  add_test(NAME ${name}
           COMMAND ${Python3_EXECUTABLE}
                   ${CMAKE_CURRENT_SOURCE_DIR}/hosts/in_venv.py
                   ${CMAKE_BINARY_DIR}/${venv} ${packages} ${ARGN}
           WORKING_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR}/python)
  set_tests_properties(${name} PROPERTIES LABELS ci SKIP_RETURN_CODE 77
    ENVIRONMENT PYTHONPYCACHEPREFIX=${CMAKE_BINARY_DIR}/pycache)
endfunction()

set(wheel ${CMAKE_BINARY_DIR}/wheel)
terp_add_wheel_test(python_wheel venv-wheel "pip;scikit-build-core;ninja"
                    make_wheel.py ${PROJECT_SOURCE_DIR} ${wheel})
set_tests_properties(python_wheel PROPERTIES FIXTURES_SETUP wheel COST 300)
terp_add_wheel_test(python_newest venv-python-newest
  "h5py;netCDF4;xarray;h5netcdf;numcodecs;zarr;dask[array];kerchunk;virtualizarr;\
hdf5plugin;jsonschema;matplotlib;mypy;pytest;trove-classifiers;twine"
  run.py ${wheel})
set_tests_properties(python_newest PROPERTIES FIXTURES_REQUIRED wheel COST 200)
# Programs of netCDF: -DNCCOPY and -DNCDUMP name those of another installation.
find_program(NCCOPY nccopy)
find_program(NCDUMP ncdump)
mark_as_advanced(NCCOPY NCDUMP)
if(NCCOPY AND NCDUMP)
  set_property(TEST python_newest APPEND PROPERTY ENVIRONMENT
    "TEST_NCCOPY=${NCCOPY}" "TEST_NCDUMP=${NCDUMP}")
endif()
if(TARGET terp_cuda_emulated_library)
  set(library $<TARGET_FILE:terp_cuda_emulated_library>)
  set_property(TEST python_newest APPEND PROPERTY ENVIRONMENT
    "TERP_CUDA_LIBRARY=${library};TERP_TEST_CUDART=${library}")
endif()
# PyTorch's wheels are large: this test runs with the system's PyTorch and h5py, if
# there are both (Debian: python3-torch, python3-h5py).
if(TERP_SYSTEM_PYTHON)
  add_test(NAME python_torch
           COMMAND ${TERP_SYSTEM_PYTHON} test_torch.py ${wheel}
           WORKING_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR}/python)
  set_tests_properties(python_torch PROPERTIES LABELS ci SKIP_RETURN_CODE 77
    FIXTURES_REQUIRED wheel ENVIRONMENT PYTHONDONTWRITEBYTECODE=1)
endif()
if(TERP_TEST_READERS)
  terp_add_wheel_test(python_older venv-python-older
    "h5py==3.8.0;numpy==1.23.5;numcodecs==0.12.1;zarr==2.16.1;pytest"
    run.py ${wheel})
  set_tests_properties(python_older PROPERTIES FIXTURES_REQUIRED wheel)
endif()
