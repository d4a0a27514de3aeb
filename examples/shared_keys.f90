! Sums on keys that ranks share, from Fortran:
!     mpifort -c $(petacomm config --fortran)
!     mpifort shared_keys.f90 petacomm.o $(petacomm config) -o shared_keys
program shared_keys
  use, intrinsic :: iso_c_binding
  use mpi
  use petacomm
  implicit none
  integer, parameter :: n_keys = 1000, width = 3
  integer(c_int64_t) :: keys(n_keys), n_global
  integer(c_int8_t) :: owned(n_keys)
  integer(c_int32_t) :: holders(n_keys)
  real(c_double) :: values(width, n_keys)  ! a key's values are neighbours
  type(c_ptr) :: plan
  integer :: rank, error, i

  call MPI_Init(error)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, error)
  keys = [(int(i + n_keys / 2 * rank, c_int64_t), i = 0, n_keys - 1)]
  call check(petacomm_plan_create(MPI_COMM_WORLD, int(n_keys, c_int64_t), keys, c_null_char, plan))
  call check(petacomm_plan_owners(plan, owned, holders))
  call check(petacomm_plan_n_global(plan, n_global))

  values = 1
  call check(petacomm_allreduce(plan, values, int(width, c_int64_t), PETACOMM_DOUBLE, PETACOMM_SUM, 1))
  if (any(values /= spread(real(holders, c_double), 1, width))) call MPI_Abort(MPI_COMM_WORLD, 1, error)

  if (rank == 0) print '(i0, a)', n_global, ' keys in all'
  call check(petacomm_plan_free(plan))
  call MPI_Finalize(error)

contains

  subroutine check(code)
    integer(c_int), intent(in) :: code
    character(kind=c_char), pointer :: text(:)
    integer :: n
    if (code == 0) return
    call c_f_pointer(petacomm_error_message(), text, [2048])
    n = findloc(text, c_null_char, dim=1) - 1
    print '(*(a))', text(:n)
    call MPI_Abort(MPI_COMM_WORLD, 1, error)
  end subroutine check
end program shared_keys
