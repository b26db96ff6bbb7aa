! Writes datasets with several bounds, by the module h5z_terp.
!
!     h5fc "$(pkg-config --variable=fortran_module terp)" fortran_module.f90
!     HDF5_PLUGIN_PATH=$(pkg-config --variable=plugindir terp) ./a.out FILE
program fortran_module
    use hdf5
    use h5z_terp
    implicit none

    integer, parameter :: n = 48
    integer(hsize_t), parameter :: dims(3) = [n, n, n]
    real :: field(n, n, n)
    character(len=4096) :: path
    character(len=64) :: message
    integer(hid_t) :: file, dcpl
    integer :: status, x, y, z
    type(h5z_terp_config_f) :: config

    if (command_argument_count() /= 1) error stop 'usage: fortran_module FILE'
    call get_command_argument(1, path)
    do z = 1, n
        do y = 1, n
            do x = 1, n
                field(x, y, z) = sin(0.1 * real(x)) * cos(0.07 * real(y + z))
            end do
        end do
    end do
    call h5open_f(status)
    call h5fcreate_f(trim(path), H5F_ACC_TRUNC_F, file, status)

    ! A thousandth of each chunk's range.
    call begin()
    call h5pset_terp_rel_f(dcpl, 1d-3, status)
    call write('relative')

    ! A thousandth of each value, or 1e-6 where that is more.
    call begin()
    call h5pset_terp_pwr_f(dcpl, 1d-3, status, floor=1d-6)
    call write('pointwise')

    call begin()
    call h5pset_terp_lossless_f(dcpl, status)
    call write('lossless')

    ! Everything else by a configuration.
    config%bound_mode = h5z_terp_absolute_f
    config%bound = 1d-2
    config%keep_sign = h5z_terp_keep_sign_of_values_f
    config%effort = h5z_terp_effort_best_f
    call begin()
    call h5pset_terp_f(dcpl, config, status, message)
    if (status < 0) print '(a)', trim(message)
    call write('signs')

    call h5fclose_f(file, status)
    call h5close_f(status)

contains

    subroutine begin()
        call h5pcreate_f(H5P_DATASET_CREATE_F, dcpl, status)
        call h5pset_chunk_f(dcpl, 3, dims, status)
    end subroutine begin

    ! Writes the field, and reads it.
    subroutine write(name)
        character(len=*), intent(in) :: name
        integer(hid_t) :: space, dataset
        integer(hsize_t) :: stored_nbytes
        real :: got(n, n, n)

        if (status < 0) error stop &
            'HDF5 does not find the filter: is HDF5_PLUGIN_PATH set?'
        call h5screate_simple_f(3, dims, space, status)
        call h5dcreate_f(file, name, H5T_IEEE_F32LE, space, dataset, status, &
                         dcpl)
        call h5dwrite_f(dataset, H5T_NATIVE_REAL, field, dims, status)
        call h5dclose_f(dataset, status)
        call h5dopen_f(file, name, dataset, status)
        call h5dread_f(dataset, H5T_NATIVE_REAL, got, dims, status)
        if (status < 0) error stop 'cannot read the dataset'
        call h5dget_storage_size_f(dataset, stored_nbytes, status)
        print '(a, a, f0.1, a, es9.2)', name, ': ratio ', &
            4.0 * real(size(field)) / real(stored_nbytes), &
            ', largest error ', maxval(abs(field - got))
        call h5dclose_f(dataset, status)
        call h5sclose_f(space, status)
        call h5pclose_f(dcpl, status)
    end subroutine write
end program fortran_module
