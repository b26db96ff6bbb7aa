# Files as simulations write them. Uses what filter.cmake has found.
if(NOT TARGET h5zterp OR TERP_SANITIZE OR NOT no_h5py EQUAL 0)
  return()
endif()
terp_add_pytest(amrex_bricks ${TERP_SYSTEM_PYTHON} ../test_amrex.py)
