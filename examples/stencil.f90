! Diffusion on a ring of cells, ghosts of which are filled while inner cells are computed; then what each cell gave
! to its neighbours is added up at their owners:
!     mpifort -c $(petacomm config --fortran)
!     mpifort stencil.f90 petacomm.o $(petacomm config) -o stencil
program stencil
  use, intrinsic :: iso_c_binding
  use mpi
  use petacomm
  implicit none
  integer, parameter :: n = 10
  integer(c_int64_t) :: cells(n), beside(2), n_cells
  integer(c_int32_t) :: owners(2)
  real(c_double) :: heat(n + 2), next(n)  ! own cells, then the one before them and the one after
  type(c_ptr) :: halo
  integer :: rank, n_ranks, error, i, step

  call MPI_Init(error)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, error)
  call MPI_Comm_size(MPI_COMM_WORLD, n_ranks, error)
  n_cells = n * n_ranks
  cells = [(int(n * rank + i, c_int64_t), i = 0, n - 1)]
  beside = [modulo(cells(1) - 1, n_cells), modulo(cells(n) + 1, n_cells)]
  call check(petacomm_halo_create(MPI_COMM_WORLD, int(n, c_int64_t), cells, 2_c_int64_t, beside, halo))
  call check(petacomm_halo_owners(halo, owners))
  if (any(owners /= beside / n)) call MPI_Abort(MPI_COMM_WORLD, 1, error)

  heat(:n) = merge(1, 0, cells == 0)
  do step = 1, 15
    call check(petacomm_halo_exchange_begin(halo, heat, 1_c_int64_t, PETACOMM_DOUBLE))
    next(2:n - 1) = (heat(1:n - 2) + 2 * heat(2:n - 1) + heat(3:n)) / 4
    call check(petacomm_halo_exchange_end(halo))
    next(1) = (heat(n + 1) + 2 * heat(1) + heat(2)) / 4
    next(n) = (heat(n - 1) + 2 * heat(n) + heat(n + 2)) / 4
    heat(:n) = next
  end do

  ! The same step, from cells to their neighbours: contributions to ghosts go to the owners.
  next = 0
  next(2:n) = heat(1:n - 1) / 4
  next(1:n - 1) = next(1:n - 1) + heat(2:n) / 4
  next = next + heat(:n) / 2
  heat(n + 1:) = [heat(1), heat(n)] / 4
  heat(:n) = next
  call check(petacomm_halo_reduce(halo, heat, 1_c_int64_t, PETACOMM_DOUBLE, PETACOMM_SUM))

  if (rank == n_ranks - 1) print '(a, i0, a, f6.4)', 'cell ', cells(n), ' has ', heat(n)
  call check(petacomm_halo_free(halo))
  call MPI_Finalize(error)

contains

  subroutine check(code)
    integer(c_int), intent(in) :: code
    character(kind=c_char), pointer :: text(:)
    integer :: n_letters
    if (code == 0) return
    call c_f_pointer(petacomm_error_message(), text, [2048])
    n_letters = findloc(text, c_null_char, dim=1) - 1
    print '(*(a))', text(:n_letters)
    call MPI_Abort(MPI_COMM_WORLD, 1, error)
  end subroutine check
end program stencil
