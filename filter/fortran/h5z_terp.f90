! H5Z-TERP from Fortran: adds the filter to a creation property list of a
! chunked dataset. This source is compiled with the program, because a module
! can be read only by the compiler that wrote it:
!
!     use h5z_terp
!     call h5pset_terp_rel_f(dcpl, 1d-3, status)
!
! The program links HDF5 and its Fortran interface; terp has no library to link.
! At run time HDF5 finds the plugin through HDF5_PLUGIN_PATH. All procedures use
! only their arguments, so HDF5's own rule for threads holds. doc/cd_values.md
! describes bounds, modes and the cd_values.
module h5z_terp
    use hdf5
    use, intrinsic :: iso_fortran_env, only: int32, int64, real64
    use, intrinsic :: ieee_arithmetic, only: ieee_is_finite, ieee_is_nan
    implicit none
    private

    ! The filter's identifier.
    integer, parameter, public :: h5z_filter_terp_f = 46117

    ! Modes of the bound on |x - x'|, the error of a value x. ABSOLUTE: the bound
    ! itself; 0 is lossless. RELATIVE: the bound times (max - min) of the chunk.
    ! POINTWISE: the bound, below 1, times |x|. PSNR: the least PSNR of each
    ! chunk in dB.
    integer, parameter, public :: h5z_terp_absolute_f = 1
    integer, parameter, public :: h5z_terp_relative_f = 2
    integer, parameter, public :: h5z_terp_pointwise_f = 3
    integer, parameter, public :: h5z_terp_psnr_f = 4

    ! 0 leaves the choice to terp.
    integer, parameter, public :: h5z_terp_pipeline_huffman_f = 1
    integer, parameter, public :: h5z_terp_pipeline_speed_f = 3
    integer, parameter, public :: h5z_terp_pipeline_ratio_f = 4
    integer, parameter, public :: h5z_terp_predictor_spline_f = 1
    integer, parameter, public :: h5z_terp_predictor_lorenzo_f = 2
    integer, parameter, public :: h5z_terp_effort_fast_f = 1
    integer, parameter, public :: h5z_terp_effort_best_f = 2

    ! OF_CHUNK: a chunk without values below 0 gets none, and likewise above 0.
    ! OF_VALUES: each value keeps its sign.
    integer, parameter, public :: h5z_terp_keep_sign_of_chunk_f = 1
    integer, parameter, public :: h5z_terp_keep_sign_of_values_f = 2

    ! The most words that h5z_terp_cd_values_f makes.
    integer, parameter, public :: h5z_terp_max_nwords_f = 15

    ! How to compress a dataset. A program sets bound_mode and bound, and what
    ! else it needs.
    type, public :: h5z_terp_config_f
        integer :: bound_mode = h5z_terp_absolute_f
        real(real64) :: bound = 0
        integer :: pipeline = 0
        integer :: predictor = 0
        integer :: effort = 0
        ! Where HDF5 does not find the plugin, a mandatory filter makes h5dcreate_f
        ! fail; a dataset with an optional one is stored uncompressed.
        logical :: mandatory = .true.
        ! Least bound of any value; POINTWISE only. 0: none.
        real(real64) :: floor = 0
        ! Values that equal `missing` come back bit for bit, and bounds ignore
        ! them, like the dataset's fill value.
        logical :: has_missing = .false.
        real(real64) :: missing = 0
        integer :: keep_sign = 0
        ! A value within the range stays within it. The ends may be infinite.
        logical :: has_valid_range = .false.
        real(real64) :: valid_min = 0, valid_max = 0
        ! With nbox > 0, a chunk is a stack of boxes of box(1:nbox) values, in
        ! Fortran's order, the fastest dimension first. At most 3.
        integer :: nbox = 0
        integer :: box(3) = 0
        ! 1: only streams that terp 1 reads; 0: also newer ones, where they are
        ! smaller by at least 2 %.
        integer :: format = 0
    end type h5z_terp_config_f

    public :: h5z_terp_cd_values_f, h5pset_terp_f, h5pset_terp_abs_f, &
              h5pset_terp_rel_f, h5pset_terp_pwr_f, h5pset_terp_psnr_f, &
              h5pset_terp_lossless_f, h5pset_terp_digits_f, h5pset_terp_bits_f

contains

    ! The two words of a float64, low word first.
    pure function words_of(number) result(words)
        real(real64), intent(in) :: number
        integer(int32) :: words(2)
        integer(int32), parameter :: one(2) = transfer(1_int64, [0_int32, 0_int32])

        words = transfer(number, words)
        if (one(1) /= 1) words = words([2, 1])
    end function words_of

    ! Writes the cd_values of `config` to cd_values(1:nwords), as signed numbers
    ! with the bits of C's unsigned ones, for h5pset_filter_f and netCDF's
    ! nf90_def_var_filter. nwords is 0 where a member is out of range.
    subroutine h5z_terp_cd_values_f(config, nwords, cd_values)
        type(h5z_terp_config_f), intent(in) :: config
        integer, intent(out) :: nwords
        integer, intent(out) :: cd_values(h5z_terp_max_nwords_f)
        integer, parameter :: exact = 65536, floored = 131072, &
                              missing = 262144, ranged = 524288, &
                              first_format = 4194304
        integer :: mode, i

        cd_values = 0
        nwords = 0
        if (reason_of(config) /= '') return
        mode = config%bound_mode + 16 * config%pipeline + &
               256 * config%predictor + 4096 * config%effort + exact + &
               1048576 * config%keep_sign + first_format * config%format
        cd_values(2:3) = words_of(config%bound)
        nwords = 3
        if (config%floor > 0) then
            mode = mode + floored
            cd_values(nwords + 1:nwords + 2) = words_of(config%floor)
            nwords = nwords + 2
        end if
        if (config%has_missing) then
            mode = mode + missing
            cd_values(nwords + 1:nwords + 2) = words_of(config%missing)
            nwords = nwords + 2
        end if
        if (config%has_valid_range) then
            mode = mode + ranged
            cd_values(nwords + 1:nwords + 2) = words_of(config%valid_min)
            cd_values(nwords + 3:nwords + 4) = words_of(config%valid_max)
            nwords = nwords + 4
        end if
        nwords = nwords + 1
        cd_values(nwords) = config%nbox
        do i = config%nbox, 1, -1 ! the words begin with the slowest
            nwords = nwords + 1
            cd_values(nwords) = config%box(i)
        end do
        cd_values(1) = mode
    end subroutine h5z_terp_cd_values_f

    ! Why a configuration is not valid; empty where it is.
    pure function reason_of(config) result(reason)
        type(h5z_terp_config_f), intent(in) :: config
        character(len=64) :: reason
        logical :: is_lossless

        reason = ''
        is_lossless = config%bound_mode == h5z_terp_absolute_f .and. &
                      .not. config%bound < 0 .and. .not. config%bound > 0
        if (config%bound_mode < h5z_terp_absolute_f .or. &
            config%bound_mode > h5z_terp_psnr_f) then
            reason = 'unknown bound mode'
        else if (.not. ieee_is_finite(config%bound) .or. &
                 .not. (config%bound > 0 .or. is_lossless)) then
            reason = 'the bound must be finite and positive'
        else if (config%bound_mode == h5z_terp_pointwise_f .and. &
                 .not. config%bound < 1) then
            reason = 'a pointwise bound must be below 1'
        else if (.not. any(config%pipeline == [0, 1, 3, 4])) then
            reason = 'unknown pipeline'
        else if (config%predictor < 0 .or. config%predictor > 2) then
            reason = 'unknown predictor'
        else if (config%effort < 0 .or. config%effort > 2) then
            reason = 'unknown effort'
        else if (config%keep_sign < 0 .or. config%keep_sign > 2) then
            reason = 'unknown way to keep signs'
        else if (.not. ieee_is_finite(config%floor) .or. config%floor < 0) then
            reason = 'the floor must be finite and not negative'
        else if (config%floor > 0 .and. &
                 config%bound_mode /= h5z_terp_pointwise_f) then
            reason = 'only a pointwise bound may have a floor'
        else if (config%has_missing .and. ieee_is_nan(config%missing)) then
            reason = 'the missing value must be a number'
        else if (config%has_valid_range .and. &
                 .not. config%valid_min <= config%valid_max) then
            reason = 'the valid range must begin below its end'
        else if (config%nbox < 0 .or. config%nbox > 3) then
            reason = 'a box has at most 3 dims'
        else if (any(config%box(1:config%nbox) < 1)) then
            reason = 'the dims of a box must be positive'
        else if (config%format < 0 .or. config%format > 1) then
            reason = 'the format must be 0 or 1'
        end if
    end function reason_of

    ! Adds terp to the filters of `dcpl`. It should be the first filter. `hdferr`
    ! is negative where a member of `config` is out of range, or where a
    ! mandatory filter's plugin is not found; `message` then says why, and is
    ! empty otherwise.
    subroutine h5pset_terp_f(dcpl, config, hdferr, message)
        integer(hid_t), intent(in) :: dcpl
        type(h5z_terp_config_f), intent(in) :: config
        integer, intent(out) :: hdferr
        character(len=*), intent(out), optional :: message
        integer :: cd_values(h5z_terp_max_nwords_f), nwords, flags
        logical :: is_found

        if (present(message)) message = ''
        call h5z_terp_cd_values_f(config, nwords, cd_values)
        if (nwords == 0) then
            if (present(message)) message = reason_of(config)
            hdferr = -1
            return
        end if
        flags = 1 ! H5Z_FLAG_OPTIONAL
        if (config%mandatory) then
            flags = 0
            call h5zfilter_avail_f(h5z_filter_terp_f, is_found, hdferr)
            if (hdferr < 0 .or. .not. is_found) then
                if (present(message)) message = &
                    'HDF5 does not find terp: set HDF5_PLUGIN_PATH'
                hdferr = -1
                return
            end if
        end if
        call h5pset_filter_f(dcpl, h5z_filter_terp_f, flags, &
                             int(nwords, size_t), cd_values, hdferr)
        if (hdferr < 0 .and. present(message)) &
            message = 'HDF5 does not add the filter'
    end subroutine h5pset_terp_f

    ! |x - x'| <= bound. Mandatory; terp chooses everything else.
    subroutine h5pset_terp_abs_f(dcpl, bound, hdferr)
        integer(hid_t), intent(in) :: dcpl
        real(real64), intent(in) :: bound
        integer, intent(out) :: hdferr

        call h5pset_terp_f(dcpl, h5z_terp_config_f( &
                           h5z_terp_absolute_f, bound), hdferr)
    end subroutine h5pset_terp_abs_f

    ! |x - x'| <= bound * (max - min) of the chunk. Mandatory.
    subroutine h5pset_terp_rel_f(dcpl, bound, hdferr)
        integer(hid_t), intent(in) :: dcpl
        real(real64), intent(in) :: bound
        integer, intent(out) :: hdferr

        call h5pset_terp_f(dcpl, h5z_terp_config_f( &
                           h5z_terp_relative_f, bound), hdferr)
    end subroutine h5pset_terp_rel_f

    ! |x - x'| <= max(floor, bound * |x|). Without a floor zeros and signs stay.
    ! Mandatory.
    subroutine h5pset_terp_pwr_f(dcpl, bound, hdferr, floor)
        integer(hid_t), intent(in) :: dcpl
        real(real64), intent(in) :: bound
        integer, intent(out) :: hdferr
        real(real64), intent(in), optional :: floor
        type(h5z_terp_config_f) :: config

        config = h5z_terp_config_f(h5z_terp_pointwise_f, bound)
        if (present(floor)) config%floor = floor
        call h5pset_terp_f(dcpl, config, hdferr)
    end subroutine h5pset_terp_pwr_f

    ! Each chunk has at least this PSNR in dB. Mandatory.
    subroutine h5pset_terp_psnr_f(dcpl, psnr, hdferr)
        integer(hid_t), intent(in) :: dcpl
        real(real64), intent(in) :: psnr
        integer, intent(out) :: hdferr

        call h5pset_terp_f(dcpl, h5z_terp_config_f( &
                           h5z_terp_psnr_f, psnr), hdferr)
    end subroutine h5pset_terp_psnr_f

    ! Every bit comes back. Mandatory.
    subroutine h5pset_terp_lossless_f(dcpl, hdferr)
        integer(hid_t), intent(in) :: dcpl
        integer, intent(out) :: hdferr

        call h5pset_terp_f(dcpl, h5z_terp_config_f(), hdferr)
    end subroutine h5pset_terp_lossless_f

    ! Keeps 1 to 15 significant decimal digits of each value. Mandatory; fails
    ! for any other number.
    subroutine h5pset_terp_digits_f(dcpl, ndigits, hdferr)
        integer(hid_t), intent(in) :: dcpl
        integer, intent(in) :: ndigits
        integer, intent(out) :: hdferr
        real(real64), parameter :: bounds(15) = [ &
            5e-2_real64, 5e-3_real64, 5e-4_real64, 5e-5_real64, 5e-6_real64, &
            5e-7_real64, 5e-8_real64, 5e-9_real64, 5e-10_real64, &
            5e-11_real64, 5e-12_real64, 5e-13_real64, 5e-14_real64, &
            5e-15_real64, 5e-16_real64]

        hdferr = -1
        if (ndigits >= 1 .and. ndigits <= 15) &
            call h5pset_terp_pwr_f(dcpl, bounds(ndigits), hdferr)
    end subroutine h5pset_terp_digits_f

    ! Keeps 1 to 52 bits of each value's mantissa. Mandatory; fails for any other
    ! number.
    subroutine h5pset_terp_bits_f(dcpl, nbits, hdferr)
        integer(hid_t), intent(in) :: dcpl
        integer, intent(in) :: nbits
        integer, intent(out) :: hdferr

        hdferr = -1
        if (nbits >= 1 .and. nbits <= 52) &
            call h5pset_terp_pwr_f(dcpl, scale(0.5_real64, -nbits), hdferr)
    end subroutine h5pset_terp_bits_f
end module h5z_terp
