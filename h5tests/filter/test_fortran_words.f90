! The module h5z_terp: its words are those of h5z_terp.h, and its procedures set
! them or fail.
program test_fortran_words
    use hdf5
    use h5z_terp
    use, intrinsic :: iso_c_binding, only: c_int, c_double
    use, intrinsic :: ieee_arithmetic
    implicit none

    interface
        function terp_test_words(numbers, reals, words) bind(c) result(n)
            import :: c_int, c_double
            integer(c_int), intent(in) :: numbers(12)
            real(c_double), intent(in) :: reals(5)
            integer(c_int), intent(out) :: words(15)
            integer(c_int) :: n
        end function terp_test_words
    end interface

    integer :: status
    type(h5z_terp_config_f) :: config
    real(c_double) :: infinity, nan

    infinity = ieee_value(infinity, ieee_positive_inf)
    nan = ieee_value(nan, ieee_quiet_nan)
    call h5open_f(status)
    call check_words()
    call check_wrong_members()
    call check_procedures()
    call h5close_f(status)

contains

    subroutine expect(is_true, what)
        logical, intent(in) :: is_true
        character(len=*), intent(in) :: what

        if (is_true) return
        print '(a, a)', 'not so: ', what
        error stop 1
    end subroutine expect

    subroutine compare(one)
        type(h5z_terp_config_f), intent(in) :: one
        integer(c_int) :: numbers(12), expected(15)
        real(c_double) :: reals(5)
        integer :: words(h5z_terp_max_nwords_f), n, m

        numbers(1:8) = [one%bound_mode, one%pipeline, one%predictor, &
                        one%effort, one%keep_sign, merge(1, 0, one%has_missing), &
                        merge(1, 0, one%has_valid_range), one%nbox]
        numbers(9:11) = 0
        numbers(9:8 + one%nbox) = one%box(one%nbox:1:-1)
        numbers(12) = one%format
        reals = [one%bound, one%floor, one%missing, one%valid_min, &
                 one%valid_max]
        m = terp_test_words(numbers, reals, expected)
        call h5z_terp_cd_values_f(one, n, words)
        call expect(n == m .and. n > 0, 'as many words')
        call expect(all(words(1:n) == expected(1:n)), 'the same words')
    end subroutine compare

    subroutine check_words()
        integer :: i
        type(h5z_terp_config_f) :: one

        do i = 0, 1023
            one = h5z_terp_config_f(1 + mod(i, 4), 1d-3 / (i + 1))
            one%pipeline = merge(4, 3 * mod(i / 4, 2), mod(i / 8, 2) == 1)
            one%predictor = mod(i, 3)
            one%effort = mod(i / 3, 3)
            one%keep_sign = mod(i / 5, 3)
            if (one%bound_mode == 3 .and. mod(i, 8) == 2) one%floor = 1d-300 * i
            one%has_missing = mod(i / 16, 2) == 1
            one%missing = merge(-9999d0, 1d20, mod(i, 32) < 16)
            one%has_valid_range = mod(i / 64, 2) == 1
            one%valid_min = merge(-infinity, -1d-3 * i, mod(i, 2) == 0)
            one%valid_max = merge(infinity, 7d0 * i, mod(i, 5) == 0)
            one%nbox = mod(i / 128, 4)
            one%box = [i + 1, 2, 3]
            one%format = mod(i / 2, 2)
            call compare(one)
        end do
        call compare(h5z_terp_config_f())
    end subroutine check_words

    ! Checks that the configuration is refused, and resets it.
    subroutine refuse(what)
        character(len=*), intent(in) :: what
        integer :: words(h5z_terp_max_nwords_f), n
        integer(hid_t) :: dcpl
        character(len=80) :: message

        call h5z_terp_cd_values_f(config, n, words)
        call expect(n == 0, what)
        call h5pcreate_f(H5P_DATASET_CREATE_F, dcpl, status)
        call h5pset_terp_f(dcpl, config, status, message)
        call expect(status < 0 .and. message /= '', what // ' and said so')
        call h5pget_nfilters_f(dcpl, n, status)
        call expect(n == 0, what // ' without a filter')
        call h5pclose_f(dcpl, status)
        config = h5z_terp_config_f(1, 1d0)
    end subroutine refuse

    subroutine check_wrong_members()
        config = h5z_terp_config_f(0, 1d0)
        call refuse('no mode 0')
        config = h5z_terp_config_f(5, 1d0)
        call refuse('no mode 5')
        config = h5z_terp_config_f(1, -1d0)
        call refuse('no negative bound')
        config = h5z_terp_config_f(1, nan)
        call refuse('no bound NaN')
        config = h5z_terp_config_f(1, infinity)
        call refuse('no infinite bound')
        config = h5z_terp_config_f(2, 0d0)
        call refuse('no relative bound 0')
        config = h5z_terp_config_f(3, 1d0)
        call refuse('no pointwise bound 1')
        config%pipeline = 2
        call refuse('no pipeline 2')
        config%pipeline = 5
        call refuse('no pipeline 5')
        config%predictor = 3
        call refuse('no predictor 3')
        config%effort = -1
        call refuse('no effort -1')
        config%keep_sign = 3
        call refuse('no way 3 to keep signs')
        config%floor = 1
        call refuse('no floor of an absolute bound')
        config%floor = nan
        call refuse('no floor NaN')
        config%has_missing = .true.
        config%missing = nan
        call refuse('no missing value NaN')
        config%has_valid_range = .true.
        config%valid_min = 1
        call refuse('no range from 1 to 0')
        config%nbox = 4
        call refuse('no box of 4 dims')
        config%nbox = 2
        config%box = [1, 0, 1]
        call refuse('no empty box')
        config%format = 2
        call refuse('no format 2')
    end subroutine check_wrong_members

    ! The first filter of a list must have these words.
    subroutine check_list(dcpl, mode, number, flag, what)
        integer(hid_t), intent(in) :: dcpl
        integer, intent(in) :: mode, flag
        real(c_double), intent(in) :: number
        character(len=*), intent(in) :: what
        integer :: words(h5z_terp_max_nwords_f), flags, id
        integer(size_t) :: n
        character(len=32) :: name
        real(c_double) :: found

        n = size(words)
        call h5pget_filter_f(dcpl, 0, flags, n, words, int(len(name), size_t), &
                             name, id, status)
        call expect(status >= 0 .and. id == h5z_filter_terp_f, what)
        found = transfer(words(2:3), found) ! tests run on little-endian hosts
        call expect(words(1) == mode + 65536, what // ': mode')
        call expect(.not. abs(found - number) > 0, what // ': number')
        call expect(flags == flag, what // ': flag')
        call h5pclose_f(dcpl, status)
    end subroutine check_list

    function new_list() result(dcpl)
        integer(hid_t) :: dcpl

        call h5pcreate_f(H5P_DATASET_CREATE_F, dcpl, status)
        call h5pset_chunk_f(dcpl, 1, [8_hsize_t], status)
    end function new_list

    subroutine check_procedures()
        integer(hid_t) :: dcpl

        dcpl = new_list()
        call h5pset_terp_abs_f(dcpl, 0.25d0, status)
        call check_list(dcpl, 1, 0.25d0, 0, 'absolute')
        dcpl = new_list()
        call h5pset_terp_rel_f(dcpl, 1d-3, status)
        call check_list(dcpl, 2, 1d-3, 0, 'relative')
        dcpl = new_list()
        call h5pset_terp_pwr_f(dcpl, 1d-3, status)
        call check_list(dcpl, 3, 1d-3, 0, 'pointwise')
        dcpl = new_list()
        call h5pset_terp_pwr_f(dcpl, 1d-3, status, 1d-9)
        call check_list(dcpl, 3 + 131072, 1d-3, 0, 'floor')
        dcpl = new_list()
        call h5pset_terp_psnr_f(dcpl, 60d0, status)
        call check_list(dcpl, 4, 60d0, 0, 'PSNR')
        dcpl = new_list()
        call h5pset_terp_lossless_f(dcpl, status)
        call check_list(dcpl, 1, 0d0, 0, 'lossless')
        dcpl = new_list()
        call h5pset_terp_digits_f(dcpl, 3, status)
        call check_list(dcpl, 3, 5d-4, 0, 'digits')
        dcpl = new_list()
        call h5pset_terp_bits_f(dcpl, 10, status)
        call check_list(dcpl, 3, 2d0**(-11), 0, 'bits')
        config = h5z_terp_config_f(2, 1d-2)
        config%mandatory = .false.
        dcpl = new_list()
        call h5pset_terp_f(dcpl, config, status)
        call check_list(dcpl, 2, 1d-2, 1, 'optional')
        dcpl = new_list()
        call h5pset_terp_digits_f(dcpl, 16, status)
        call expect(status < 0, 'no 16 digits')
        call h5pset_terp_digits_f(dcpl, 0, status)
        call expect(status < 0, 'no 0 digits')
        call h5pset_terp_bits_f(dcpl, 53, status)
        call expect(status < 0, 'no 53 bits')
        call h5pclose_f(dcpl, status)
    end subroutine check_procedures
end program test_fortran_words
