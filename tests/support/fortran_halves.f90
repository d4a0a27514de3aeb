! Calls in halves: of a contiguous array, and of a section with gaps, which is refused.
program fortran_halves
  use, intrinsic :: iso_c_binding
  use mpi
  use petacomm
  implicit none
  type(c_ptr) :: plan, halo
  real(c_double) :: held(2), table(2, 2)
  integer :: code, rank

  call mpi_init(code)
  call mpi_comm_rank(MPI_COMM_WORLD, rank, code)
  call check(petacomm_plan_create(MPI_COMM_WORLD, 2_c_int64_t, [3_c_int64_t, 5_c_int64_t], c_null_char, plan) == 0)
  held = [1d0 + rank, 10d0]
  call check(petacomm_allreduce_begin(plan, held, 1_c_int64_t, PETACOMM_DOUBLE, PETACOMM_SUM, 0_c_int) == 0)
  call check(petacomm_allreduce_end(plan) == 0)
  call check(all(held == [3d0, 20d0]))
  table = 1
  call check(petacomm_allreduce_begin(plan, table(1, :), 1_c_int64_t, PETACOMM_DOUBLE, PETACOMM_SUM, 0_c_int) /= 0)
  call check(petacomm_allreduce_begin(plan, table(:, 2), 1_c_int64_t, PETACOMM_DOUBLE, PETACOMM_SUM, 0_c_int) == 0)
  call check(petacomm_allreduce_end(plan) == 0)
  call check(all(table(:, 1) == 1) .and. all(table(:, 2) == 2))
  call check(petacomm_halo_create(MPI_COMM_WORLD, 1_c_int64_t, [int(rank, c_int64_t)], 1_c_int64_t, &
                                  [int(1 - rank, c_int64_t)], halo) == 0)
  table(:, 1) = rank
  call check(petacomm_halo_exchange_begin(halo, table(1, :), 1_c_int64_t, PETACOMM_DOUBLE) /= 0)
  call check(petacomm_halo_reduce_begin(halo, table(1, :), 1_c_int64_t, PETACOMM_DOUBLE, PETACOMM_SUM) /= 0)
  call check(petacomm_halo_exchange_begin(halo, table(:, 1), 1_c_int64_t, PETACOMM_DOUBLE) == 0)
  call check(petacomm_halo_exchange_end(halo) == 0)
  call check(table(1, 1) == rank .and. table(2, 1) == 1 - rank)
  if (rank == 0) print '(a)', 'all is right'
  call mpi_finalize(code)

contains

  subroutine check(right)
    logical, intent(in) :: right
    integer :: ignored
    if (right) return
    call mpi_abort(MPI_COMM_WORLD, 1, ignored)
  end subroutine
end program
