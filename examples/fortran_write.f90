! Writes a compressed dataset, and reads it.
!
!     fortran_write FILE
!
! h5pset_filter_f takes the cd_values of doc/cd_values.md, which are unsigned
! 32-bit numbers. `terp args` prints them for any bound. Fortran has no unsigned
! integers: subtract 4294967296 from a number above 2147483647.
program fortran_write
    use hdf5
    implicit none

    integer, parameter :: terp = 46117
    integer, parameter :: mandatory = 0 ! H5Z_FLAG_MANDATORY of C
    integer, parameter :: n = 48
    ! A relative bound, 1 x 10^-3 of the range of each chunk.
    integer, parameter :: words(3) = [2, 1, 3]
    ! The first dimension is the fastest one in Fortran, the last one in HDF5.
    integer(hsize_t), parameter :: dims(3) = [2 * n, n, n]
    integer(hsize_t), parameter :: chunk(3) = [n, n, n]

    real, allocatable :: field(:, :, :), got(:, :, :)
    character(len=4096) :: path
    integer(hid_t) :: file, space, dcpl, dataset
    integer(hsize_t) :: stored_nbytes
    integer :: status, x, y, z
    logical :: found

    if (command_argument_count() /= 1) error stop 'usage: fortran_write FILE'
    call get_command_argument(1, path)
    allocate (field(2 * n, n, n), got(2 * n, n, n))
    do z = 1, n
        do y = 1, n
            do x = 1, 2 * n
                field(x, y, z) = sin(0.1 * real(x)) * cos(0.07 * real(y + z))
            end do
        end do
    end do

    call h5open_f(status)
    call h5zfilter_avail_f(terp, found, status)
    if (.not. found) &
        error stop 'HDF5 does not find the filter: is HDF5_PLUGIN_PATH set?'
    call h5fcreate_f(trim(path), H5F_ACC_TRUNC_F, file, status)
    call h5screate_simple_f(3, dims, space, status)
    call h5pcreate_f(H5P_DATASET_CREATE_F, dcpl, status)
    call h5pset_chunk_f(dcpl, 3, chunk, status)
    call h5pset_filter_f(dcpl, terp, mandatory, int(size(words), size_t), &
                         words, status)
    call h5dcreate_f(file, 'field', H5T_IEEE_F32LE, space, dataset, status, &
                     dcpl)
    call h5dwrite_f(dataset, H5T_NATIVE_REAL, field, dims, status)
    call h5dget_storage_size_f(dataset, stored_nbytes, status)
    call h5dclose_f(dataset, status)

    ! Opened again, so that HDF5 does not read from its chunk cache.
    call h5dopen_f(file, 'field', dataset, status)
    call h5dread_f(dataset, H5T_NATIVE_REAL, got, dims, status)
    if (status < 0) error stop 'cannot read the dataset'
    print '(a, f0.1, a, f0.6)', 'ratio ', &
        4.0 * real(size(field)) / real(stored_nbytes), &
        ', largest error ', maxval(abs(field - got))
    if (maxval(abs(field - got)) > 1e-3 * (maxval(field) - minval(field))) &
        error stop 'the bound does not hold'
    if (stored_nbytes > size(field)) error stop 'the ratio is below 4'
    call h5dclose_f(dataset, status)
    call h5pclose_f(dcpl, status)
    call h5sclose_f(space, status)
    call h5fclose_f(file, status)
    call h5close_f(status)
end program fortran_write
